"""The values of scripts: their kinds, fields, texts, when two are the same, how large one is; and the expressions of
ADD_FIELD, functions that compute a value from an item. docs/guide/gasl.md, "Data" and "Expressions".

A value is plain JSON: an array of objects is a LIST, an object a DICT, a number a COUNTER, anything else a
VALUE. Nothing here is ever changed in place. An expression is null as a whole where a field is missing, after a
division by zero, and beyond 1e308.
"""

import json
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import orjson

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.syntax import Field, Ref, nearest

Item = Mapping[str, Any]

LARGEST = 1e308
MAX_ITEM_BYTES = 64 * 1024
# Number of levels that every JSON encoder can write.
MAX_LEVELS = 200

ALIASES = {
    "entity_type": "type",
    "relationship_name": "type",
    "relation": "type",
    "source_node": "source",
    "source_id": "source",
    "target_node": "target",
    "target_id": "target",
    "count": "value",
}

MISSING: Final = object()
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def kind_of(value: Any) -> str:
    """LIST, DICT, COUNTER or VALUE."""
    if isinstance(value, list):
        return "LIST"
    if isinstance(value, dict):
        return "DICT"
    return "COUNTER" if is_number(value) else "VALUE"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(text: str) -> int | float | None:
    """The value of a JSON number; None for other text, or a number beyond 1e308."""
    if _JSON_NUMBER.fullmatch(text) is None:
        return None
    if text.lstrip("-").isdigit():
        return int(text) if len(text) <= 310 and abs(int(text)) <= int(LARGEST) else None
    value = float(text)
    return value if abs(value) <= LARGEST else None


def as_item(value: Any) -> Item:
    """A member of a LIST: an object as it is, anything else under `value`."""
    return value if isinstance(value, dict) else {"value": value}


def items_of(value: Any) -> list[Item] | None:
    """The items of a LIST, the entries of a DICT as items; None for a COUNTER or VALUE."""
    if isinstance(value, list):
        return [as_item(element) for element in value]
    if isinstance(value, dict):
        return [{"key": key, "value": element} for key, element in value.items()]
    return None


def look_up(item: Any, steps: Sequence[str]) -> Any:
    """The value of a field in an item (None for null), or MISSING.

    Each step is looked for in the item, in its properties, and then by its alternative name.
    """
    for name in steps:
        if not isinstance(item, dict):
            return MISSING
        member = _own(item, name)
        item = _own(item, ALIASES[name]) if member is MISSING and name in ALIASES else member
    return item


def _own(item: Item, name: str) -> Any:
    if name in item:
        return item[name]
    properties = item.get("properties")
    return properties.get(name, MISSING) if isinstance(properties, dict) else MISSING


def given(item: Any, field: Field | str) -> Any:
    """The value of a field, or of a field of one step by its name; None when it is missing."""
    value = look_up(item, (field,) if isinstance(field, str) else field.steps)
    return None if value is MISSING else value


def grouped(items: Sequence[Item], field: Field) -> tuple[dict[Hashable, list[Item]], int]:
    """The items by the identity of a field's value, and the number of items that lack the field."""
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        if (value := given(item, field)) is not None:
            groups.setdefault(identity(value), []).append(item)
    return groups, len(items) - sum(map(len, groups.values()))


def names_in(items: Iterable[Item]) -> set[str]:
    """Every name that a first step can have: top-level fields and properties."""
    names: set[str] = set()
    for item in items:
        names.update(item)
        if isinstance(properties := item.get("properties"), dict):
            names.update(properties)
    return names


def check_field(items: Sequence[Item], field: Field, also: Iterable[str] = ()) -> None:
    """Raises ScriptError `name` when no item of a non-empty input has the field; a null value counts as present.

    `also`: further names for the suggestion in the message.
    """
    if items and not any(look_up(item, field.steps) is not MISSING for item in items):
        raise unknown_field(field, names_in(items).union(also))


def unknown_field(field: Field, names: Iterable[str]) -> ScriptError:
    guess = nearest(field.steps[-1] if len(field.steps) > 1 else field.text, names)
    return ScriptError("name", f"no item has a field {field.text[:100]!r}", field.place, guess)


def text_of(value: Any) -> str:
    """A value as a text: numbers in shortest form, whole ones without a point, the rest as compact JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def identity(value: Any) -> Hashable:
    """A key that is equal for equal values: 2 equals 2.0, true is not 1, the order of an object's fields is ignored."""
    if isinstance(value, bool):
        return ("truth", value)
    if isinstance(value, list):
        return ("list", tuple(identity(element) for element in value))
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(element)) for key, element in value.items()))
    return value if value is None or isinstance(value, str) else ("number", value)


def sameness(item: Item) -> Hashable:
    """A key that is equal for the same items: their `id` if they have one, otherwise all fields."""
    item_id = item.get("id")
    return ("id", identity(item_id)) if item_id is not None else ("fields", identity(item))


def to_json(value: Any) -> bytes:
    """Compact JSON; whole numbers of any size stay exact."""
    try:
        return orjson.dumps(value)
    except TypeError:  # a whole number beyond 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def item_bytes(item: Any) -> int:
    """The size of an item as compact JSON. Raises ScriptError `limit` for one that is too large or nested too deep."""
    try:
        size = len(orjson.dumps(item))
    except TypeError:
        check_levels(item)
        size = len(to_json(item))
    if size > MAX_ITEM_BYTES:
        raise ScriptError("limit", "an item of more than 64 KiB")
    return size


def check_levels(value: Any) -> None:
    """Raises ScriptError `limit` when a value is nested more than 200 deep."""
    if is_deeper(value, MAX_LEVELS):
        raise ScriptError("limit", f"a value is nested more than {MAX_LEVELS} deep")


def is_deeper(value: Any, levels: int) -> bool:
    """Whether a value is nested more than so many levels deep."""
    level: list[Any] = [value]
    for _ in range(levels):
        nested = (value for value in level if isinstance(value, list | dict))
        level = [x for value in nested for x in (value.values() if isinstance(value, dict) else value)]
        if not level:
            return False
    return True


FUNCTIONS = ("lower", "upper", "length")
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_NOUNS = {"LIST": "list", "DICT": "object", "COUNTER": "number", "VALUE": "text"}


class Nothing(Exception):
    """The whole value is null."""


class Expression(NamedTuple):
    """A function of an item and of the values of `$name`s; raises Nothing, or ScriptError `type` or `limit`.

    `fields` and `refs` are in the order of the text, `work` counts operands and operations. `word`: the field of an
    expression that is a single word, which may also be the name of a variable.
    """

    value: Callable[[Item, Mapping[Ref, Any]], Any]
    fields: tuple[Field, ...] = ()
    refs: tuple[Ref, ...] = ()
    work: int = 1
    word: Field | None = None


def _something(value: Any) -> Any:
    if value is None:
        raise Nothing
    return value


def constant(number: int | float | None) -> Expression:
    """A number; None stands for one beyond 1e308."""
    return Expression(lambda item, variables: _something(number))


def field_value(field: Field) -> Expression:
    """A field of the item."""
    word = None if "." in field.text else field
    return Expression(lambda item, variables: _something(given(item, field)), (field,), word=word)


def variable(ref: Ref) -> Expression:
    """The value of `$name`."""
    return Expression(lambda item, variables: _something(variables[ref]), refs=(ref,))


def call(function: str, argument: Expression) -> Expression:
    """A function of FUNCTIONS."""

    def value(item: Item, variables: Mapping[Ref, Any]) -> Any:
        operand = argument.value(item, variables)
        if function == "length" and isinstance(operand, str | list | dict):
            return len(operand)
        if function == "length" or not isinstance(operand, str):
            raise ScriptError("type", f"{function} of a {_noun(operand)}")
        return operand.lower() if function == "lower" else operand.upper()

    return argument._replace(value=value, work=argument.work + 1, word=None)


def minus(signs: int, operand: Expression) -> Expression:
    """The operand after so many minus signs."""
    negative = signs % 2 == 1

    def value(item: Item, variables: Mapping[Ref, Any]) -> Any:
        number = _number(operand.value(item, variables))
        return -number if negative else number

    return operand._replace(value=value, work=operand.work + 1, word=None)


def arithmetic(operand: Expression, *operations: Any) -> Expression:
    """An operand, then operators and operands in turn, from left to right."""
    pairs = [*zip(map(str, operations[::2]), operations[1::2], strict=True)]
    operands = [operand, *operations[1::2]]

    def value(item: Item, variables: Mapping[Ref, Any]) -> Any:
        total = _number(operand.value(item, variables))
        for sign, following in pairs:
            try:
                total = _OPERATIONS[sign](total, _number(following.value(item, variables)))
            except (ZeroDivisionError, OverflowError):
                raise Nothing from None
            if not abs(total) <= LARGEST:
                raise Nothing
        return total

    fields, refs = (
        tuple(chain.from_iterable(part)) for part in zip(*(o[1:3] for o in operands), strict=True)
    )
    return Expression(value, fields, refs, len(pairs) + sum(part.work for part in operands))


def template(texts: Sequence[str], fields: Sequence[Field]) -> Expression:
    """Texts and fields in turn: texts[0] fields[0] texts[1] … texts[n]."""

    def value(item: Item, variables: Mapping[Ref, Any]) -> str:
        written = texts[0]
        for field, text in zip(fields, texts[1:], strict=True):
            written += text_of(_something(given(item, field))) + text
            if len(written) > MAX_ITEM_BYTES:
                raise ScriptError("limit", "an item of more than 64 KiB")
        return written

    return Expression(value, tuple(fields), work=1 + len(fields))


def _number(value: Any) -> Any:
    if not is_number(value):
        raise ScriptError("type", f"a number is needed here, not a {_noun(value)}")
    return value


def _noun(value: Any) -> str:
    return "boolean" if isinstance(value, bool) else _NOUNS[kind_of(value)]
