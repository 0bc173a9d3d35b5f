"""The commands that compute values from items: ADD_FIELD by an expression, PROCESS, CLASSIFY and GENERATE by a model;
COUNT and AGGREGATE, and ITERATE, which runs them on batches. REQUIRE, ASSERT, SHOW and INSPECT look at variables.
"""

import math
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import finding
from kgqa_hpc.plugins.gasl import language as lang
from kgqa_hpc.plugins.gasl.combining import free_name, identity, sameness
from kgqa_hpc.plugins.gasl.world import ANSWER_FIELDS, Outcome, Prompt, World


def add_field(world: World, ref: lang.Ref, name: lang.Word | str, expression: lang.Expression) -> Outcome:
    """Each item with one more field, the value of an expression. Raises ScriptError `name`, `type` or `limit`."""
    items = world.items(ref)
    also: Iterable[str] = ()
    if expression.operation == "field" and len((field := expression.operands[0]).steps) == 1:
        # A single word may also be the name of a variable.
        also = world.variables
        if field.text in world.variables:
            expression = lang.Expression("variable", (lang.Ref(field.text, field.text, (), field.place),))
    parts = list(_parts(expression))
    leaves = sum(part.operation in ("number", "field", "variable", "template") for part in parts)
    world.spend(len(items) * (leaves + sum(len(part.operands) // 2 for part in parts)))
    operands = [operand for part in parts for operand in part.operands]
    for operand in operands:
        if isinstance(operand, lang.Field):
            lang.check_field(items, operand, also)
    columns: dict[lang.Ref, Sequence[Any]] = {}
    for operand in operands:
        if isinstance(operand, lang.Ref):
            column = world.column(operand)
            columns[operand] = [world.single(operand)] * len(items) if column is None else column
            if len(columns[operand]) != len(items):
                message = f"${operand.text[:100]} has {len(columns[operand]):,} items, not {len(items):,}"
                raise ScriptError("type", message)
    rows = ({ref: column[k] for ref, column in columns.items()} for k in range(len(items)))
    values = [_computed(expression, item, row) for item, row in zip(items, rows, strict=True)]
    free = free_name(name.text if isinstance(name, lang.Word) else name, lang.names_in(items))
    extended = ({**item, free: value} for item, value in zip(items, values, strict=True))
    return Outcome(extended, values.count(None), notes={"field": free})


def _parts(expression: lang.Expression) -> Iterator[lang.Expression]:
    """An expression and all expressions in it, in the order of the text."""
    yield expression
    for operand in expression.operands:
        if isinstance(operand, lang.Expression):
            yield from _parts(operand)


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _computed(expression: lang.Expression, item: lang.Item, variables: Mapping[lang.Ref, Any]) -> Any:
    """The value of an expression for an item and the values of `$name`s. Raises ScriptError `type` or `limit`.

    The whole value is None if a field is missing, after a division by zero, and for a number beyond 1e308.
    """
    operation, operands = expression
    match operation:  # matching the tuple (operation, operands) takes twice the time
        case "number":
            return operands[0]
        case "field":
            return lang.given(item, operands[0])
        case "variable":
            return variables[operands[0]]
        case "bracketed":
            return _computed(operands[0], item, variables)
        case "template":
            text = operands[0]
            for field, following in zip(operands[1::2], operands[2::2], strict=True):
                if (value := lang.given(item, field)) is None:
                    return None
                text += lang.text_of(value) + following
                if len(text) > lang.MAX_ITEM_BYTES:
                    raise ScriptError("limit", lang.TOO_LARGE)
            return text
        case "call":
            function, argument = operands
            if (value := _computed(argument, item, variables)) is None:
                return None
            if not isinstance(value, str | list | dict if function == "length" else str):
                raise ScriptError("type", f"{function} of a {_noun(value)}")
            return {"length": len, "lower": str.lower, "upper": str.upper}[function](value)
        case "minus":
            number = _number(operands[1], item, variables)
            return number if number is None or operands[0] % 2 == 0 else -number
    following = iter(operands)
    total = _number(next(following), item, variables)
    for sign in following:
        if total is None or (number := _number(next(following), item, variables)) is None:
            return None
        try:
            total = _ARITHMETIC[sign](total, number)
        except (ZeroDivisionError, OverflowError):
            return None
        total = total if abs(total) <= lang.LARGEST else None
    return total


def _number(expression: lang.Expression, item: lang.Item, variables: Mapping[lang.Ref, Any]) -> Any:
    """The number that an expression gives, None where it is null. Raises ScriptError `type`."""
    value = _computed(expression, item, variables)
    if value is not None and not lang.is_number(value):
        raise ScriptError("type", f"a number is needed here, not a {_noun(value)}")
    return value


def _noun(value: Any) -> str:
    nouns = {"LIST": "list", "DICT": "object", "COUNTER": "number", "VALUE": "text"}
    return "boolean" if isinstance(value, bool) else nouns[lang.kind_of(value)]


# Default number of prompts per call of the model.
BATCH = 1000


def ask(world: World, verb: str, ref: lang.Ref, instruction: str, size: int = BATCH) -> Outcome:
    """Each item with the model's answer, asked `size` at a time."""
    items = world.items(ref)
    keys = (item.get("id") for item in items)
    prompts = [
        Prompt(verb, instruction, str(number) if key is None else lang.text_of(key), item)
        for number, (key, item) in enumerate(zip(keys, items, strict=True), 1)
    ]
    batches = (prompts[start : start + size] for start in range(0, len(prompts), size))
    answers = [answer for batch in batches for answer in world.answers(batch)]
    if verb == "CLASSIFY":
        answers = [None if answer is None else lang.text_of(answer) for answer in answers]
    name, missing = ANSWER_FIELDS[verb], answers.count(None)
    answered = ({**item, name: answer} for item, answer in zip(items, answers, strict=True))
    return Outcome(answered, partial=missing > 0, notes={"unanswered": missing} if missing else {})


def generate(world: World, kind: lang.Word, ref: lang.Ref, text: str | None) -> Outcome:
    """One text from a whole variable."""
    (answer,) = world.answers([Prompt("GENERATE", text or "", "*", world.value(ref), kind.text)])
    if answer is None:
        return Outcome(None, partial=True, notes={"unanswered": 1})
    return Outcome(lang.text_of(answer))


def count(
    world: World,
    source: lang.Ref | lang.Found,
    field: lang.Field | None,
    condition: lang.Condition | None,
    by: lang.Field | None,
    unique: str | None,
) -> Outcome:
    """The number of items, per value of `by` or else of `field` if given; `unique` counts different items or values."""
    if isinstance(source, lang.Found):
        for name in filter(None, (field, by)):
            finding.check_found_field(source.kind, name, world.graph)
        return _counted(finding.find(world, source), field, by, unique)
    items = world.items(source)
    holds = finding.checked(world, items, condition, field, by)
    return _counted(filter(holds, items), field, by, unique)


def _counted(
    items: Iterable[lang.Item], field: lang.Field | None, by: lang.Field | None, unique: str | None
) -> Outcome:
    counts: dict[str, int] = {}
    total = skipped = 0
    seen: set[Hashable] = set()
    for item in items:
        group = lang.given(item, by) if by else None
        value = lang.given(item, field) if field else None
        if (by and group is None) or (field and value is None):
            skipped += 1
            continue
        key = lang.text_of(group) if by else lang.text_of(value) if field and not unique else ""
        if unique:
            mark = (key, identity(value) if field else sameness(item))
            if mark in seen:
                continue
            seen.add(mark)
        total += 1
        counts[key] = counts.get(key, 0) + 1
    return Outcome(counts if by or (field and not unique) else total, skipped)


def aggregate(world: World, ref: lang.Ref, by: lang.Field, op: str, of: lang.Field | None) -> Outcome:
    """COUNT, SUM, AVG, MIN or MAX of the field `of` for each value of `by`; without `of`, of the field `by` itself."""
    items = world.items(ref)
    finding.checked(world, items, None, by, of)
    return _aggregated(items, by, op, of)


def _aggregated(items: Sequence[lang.Item], by: lang.Field, op: str, of: lang.Field | None) -> Outcome:
    if of is None and op != "COUNT":
        values = [value for value in (lang.given(item, by) for item in items) if value is not None]
        result = _total(op, values)
        return Outcome(result, len(items) - len(values), empty=result is None)
    groups: dict[str, list[Any]] = {}
    skipped = 0
    for item in items:
        key = lang.given(item, by)
        value = lang.given(item, of) if of else True
        if key is None or value is None:
            skipped += 1
        else:
            groups.setdefault(lang.text_of(key), []).append(value)
    return Outcome({key: _total(op, values) for key, values in groups.items()}, skipped)


def _total(op: str, values: Sequence[Any]) -> Any:
    """COUNT, SUM, AVG, MIN or MAX of numbers; MIN and MAX also of texts. Raises ScriptError `type` or `limit`."""
    if op == "COUNT":
        return len(values)
    if op in ("SUM", "AVG") or not all(isinstance(value, str) for value in values):
        for value in values:
            if not lang.is_number(value):
                raise ScriptError("type", f"a number is needed here, not {lang.text_of(value)[:100]!r}")
    if not values:
        return 0 if op == "SUM" else None
    if op in ("MIN", "MAX"):
        return min(values) if op == "MIN" else max(values)
    try:
        total = sum(values) if all(isinstance(value, int) for value in values) else math.fsum(values)
    except OverflowError:
        total = math.inf
    if not abs(total) <= lang.LARGEST:
        raise ScriptError("limit", "a number beyond 1e308")
    return total if op == "SUM" else total / len(values)


def iterate(world: World, ref: lang.Ref, size: int, body: lang.Command) -> Outcome:
    """Run a command on batches of items; a COUNT or AGGREGATE gives one item for each batch."""
    if body.name == "asked":
        verb, text = body.arguments
        return ask(world, verb, ref, text, size)
    items = world.items(ref)
    batches = (items[start : start + size] for start in range(0, len(items), size))
    if body.name == "aggregated":
        by, op, of = body.arguments
        finding.checked(world, items, None, by, of)
        outcomes = [_aggregated(batch, by, op, of) for batch in batches]
    else:
        field, condition, by, unique = body.arguments
        holds = finding.checked(world, items, condition, field, by)
        outcomes = [_counted(filter(holds, batch), field, by, unique) for batch in batches]
    values = [{"batch": number, "value": outcome.value} for number, outcome in enumerate(outcomes, 1)]
    return Outcome(values, sum(outcome.skipped for outcome in outcomes))


SHOWN = 10  # default number of items of a variable in the output


def check(world: World, verb: str, ref: lang.Ref, test: tuple[Any, ...]) -> Outcome:
    """Test a variable: success if the test holds, else `partial`, or an error for ASSERT. An unknown name fails."""
    named: Any = world.variables
    for entry in (ref.name, *ref.entries):
        named = named.get(entry, lang.MISSING) if isinstance(named, dict) else lang.MISSING
    is_met = named is not lang.MISSING
    if is_met:
        value = world.value(ref)
        match test:
            case "compares", op, expected:
                measured = len(value) if isinstance(value, list | dict) else value
                is_met = finding.compare(op, finding.reading(expected, world))(measured)
            case "has_field", field if isinstance(value, dict):
                is_met = field.text in value
            case "has_field", field:
                items = world.items(ref)
                is_met = bool(items) and all(lang.given(item, field) is not None for item in items)
            case "empty", is_wanted:  # null, 0 and collections without members are empty; false is not
                is_met = (not value and value is not False) == is_wanted
    if not is_met and verb == "ASSERT":
        raise ScriptError("assert", f"{ref.text[:100]} does not fulfil the assertion")
    return Outcome(stores=False, partial=not is_met)


def shown(value: Any, limit: int) -> dict[str, Any]:
    """The kind of a value with its first `limit` items; a value without items is given whole."""
    items = lang.items_of(value)
    if items is None:
        return {"kind": lang.kind_of(value), "value": value}
    return {"kind": lang.kind_of(value), "count": len(items), "items": items[:limit]}


def show(world: World, ref: lang.Ref, limit: int | None) -> Outcome:
    return Outcome(stores=False, notes={"output": shown(world.value(ref), limit or SHOWN)})


def inspect(world: World, ref: lang.Ref) -> Outcome:
    """The fields of a variable's items, with the number of items that have each."""
    value = world.value(ref)
    output = shown(value, 0)
    if output.pop("items", None) is not None:
        fields: dict[str, int] = {}
        for item in lang.items_of(value) or ():
            for name, member in lang.flat(item).items():
                fields[name] = fields.get(name, 0) + (member is not None)
        output["fields"] = fields
    return Outcome(stores=False, notes={"output": output})
