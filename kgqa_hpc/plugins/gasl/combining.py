"""Commands that make lists from lists (JOIN, MERGE, COMPARE, SELECT, RANK, GROUP), change variables (DECLARE, UPDATE)
or add to the script's copy of the graph (CREATE_NODES, CREATE_EDGES, CREATE_GROUPS).
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import finding
from kgqa_hpc.plugins.gasl import language as lang
from kgqa_hpc.plugins.gasl.world import EMPTY, Outcome, World


def identity(value: Any) -> Hashable:
    """A key that is equal for equal values: 2 equals 2.0, true is not 1, the order of an object's fields is ignored."""
    if isinstance(value, bool):
        return ("truth", value)
    if isinstance(value, list):
        return ("list", tuple(identity(element) for element in value))
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(element)) for key, element in value.items()))
    return value if value is None or isinstance(value, str) else ("number", value)


def sameness(item: lang.Item) -> Hashable:
    """A key that is equal for the same items: their `id` if they have one, otherwise all fields."""
    item_id = item.get("id")
    return ("id", identity(item_id)) if item_id is not None else ("fields", identity(item))


def grouped(items: Sequence[lang.Item], field: lang.Field) -> tuple[dict[Hashable, list[lang.Item]], int]:
    """The items by the identity of a field's value, and the number of items that lack the field."""
    groups: dict[Hashable, list[lang.Item]] = {}
    for item in items:
        if (value := lang.given(item, field)) is not None:
            groups.setdefault(identity(value), []).append(item)
    return groups, len(items) - sum(map(len, groups.values()))


def free_name(name: str, used: Iterable[str]) -> str:
    """The name, or name_1, name_2 … if it is in `used`."""
    if name not in used:
        return name
    number = 1
    while f"{name}_{number}" in used:
        number += 1
    return f"{name}_{number}"


def join(
    world: World, ref: lang.Ref, with_ref: lang.Ref, field: lang.Field, with_field: lang.Field | None
) -> Outcome:
    """Each pair of items with an equal field, as one item."""
    left_items, right_items = world.items(ref), world.items(with_ref)
    if not left_items or not right_items:
        return Outcome([])
    # The join fields of both lists, swapped if the lists have them in the other order only.
    f, g = field, with_field or field
    try:
        lang.check_field(left_items, f)
        lang.check_field(right_items, g)
    except ScriptError as problem:
        f, g = g, f
        try:
            lang.check_field(left_items, f)
            lang.check_field(right_items, g)
        except ScriptError:
            raise problem from None
    groups, skipped = grouped(right_items, g)
    partners = {mark: [_without(item, g) for item in items] for mark, items in groups.items()}
    values = [lang.given(item, f) for item in left_items]

    def pairs() -> Iterator[lang.Item]:
        for item, value in zip(left_items, values, strict=True):
            for partner in partners.get(identity(value), ()) if value is not None else ():
                joined = dict(item)
                for name, member in partner.items():
                    joined[free_name(name, joined)] = member
                yield joined

    return Outcome(pairs(), skipped + sum(value is None for value in values))


def _without(item: lang.Item, field: lang.Field) -> lang.Item:
    """The item without the top-level field to which a one-step field refers."""
    name = field.steps[0]
    if len(field.steps) > 1:
        return item
    if name not in item:
        properties = item.get("properties")
        if isinstance(properties, dict) and name in properties:
            return item
        name = lang.ALIASES.get(name, name)
    return {key: value for key, value in item.items() if key != name}


def merge(world: World, *refs: lang.Ref) -> Outcome:
    """All items of several lists, each once; all entries of several DICTs."""
    values = [world.value(ref) for ref in refs]
    if all(isinstance(value, dict) for value in values):
        merged: dict[str, Any] = {}
        for value in values:
            merged.update((key, member) for key, member in value.items() if key not in merged)
        return Outcome(merged)
    distinct: dict[Hashable, lang.Item] = {}
    for ref in refs:
        for item in world.items(ref):
            distinct.setdefault(sameness(item), item)
    return Outcome(list(distinct.values()))


def compare(world: World, ref: lang.Ref, with_ref: lang.Ref, field: lang.Field) -> Outcome:
    """The values of a field that two lists share, and the items in which it changed."""
    left_items, right_items = world.items(ref), world.items(with_ref)
    lang.check_field(left_items, field)
    lang.check_field(right_items, field)
    (lefts, skipped), (rights, more_skipped) = grouped(left_items, field), grouped(right_items, field)
    by_id, changes = _by_id(right_items), []
    for mark, item in _by_id(left_items).items():
        before, after = lang.given(item, field), lang.given(by_id.get(mark, {}), field)
        if before is None or after is None or identity(before) == identity(after):
            continue
        change = {"id": item["id"], "left": before, "right": after}
        if lang.is_number(before) and lang.is_number(after) and abs(after - before) <= lang.LARGEST:
            change["difference"] = after - before
        changes.append(change)
    parts = {
        "common": [lang.given(items[0], field) for mark, items in lefts.items() if mark in rights],
        "only_left": [lang.given(items[0], field) for mark, items in lefts.items() if mark not in rights],
        "only_right": [lang.given(items[0], field) for mark, items in rights.items() if mark not in lefts],
        "changed": changes,
    }
    return Outcome(parts, skipped + more_skipped)


def _by_id(items: Sequence[lang.Item]) -> dict[Hashable, lang.Item]:
    """The first item of each id."""
    by_id: dict[Hashable, lang.Item] = {}
    for item in items:
        if item.get("id") is not None:
            by_id.setdefault(identity(item["id"]), item)
    return by_id


def select(world: World, ref: lang.Ref, *fields: lang.Field) -> Outcome:
    """Items with some of their fields only."""
    items = world.items(ref)
    world.spend(len(items) * len(fields))
    for field in fields:
        lang.check_field(items, field)
    return Outcome({field.text: lang.given(item, field) for field in fields} for item in items)


def rank(world: World, ref: lang.Ref, by: lang.Field, order: str | None, top: int | None) -> Outcome:
    """Items sorted by a field; items without it come last."""
    items = world.items(ref)
    lang.check_field(items, by)
    valued = [(lang.given(item, by), item) for item in items]
    values = [value for value, _ in valued if value is not None]
    if not (all(map(lang.is_number, values)) or all(isinstance(value, str) for value in values)):
        raise ScriptError("type", f"RANK BY {by.text[:100]!r}: not all numbers and not all texts")
    present = [pair for pair in valued if pair[0] is not None]
    present.sort(key=lambda pair: pair[0], reverse=order != "ASC")
    ranked = [item for _, item in present] + [item for value, item in valued if value is None]
    return Outcome(islice(ranked, top))


def group(world: World, ref: lang.Ref, by: lang.Field) -> Outcome:
    """The items by the values of a field."""
    items = world.items(ref)
    lang.check_field(items, by)
    groups, skipped = grouped(items, by)
    lists = groups.values()
    return Outcome(({"key": lang.given(m[0], by), "count": len(m), "items": m} for m in lists), skipped)


def declare(world: World, word: lang.Word, kind: str, description: str | None) -> Outcome:
    """Declare an empty variable of a fixed kind. Raises ScriptError `type` if it exists with another kind."""
    name = word.text
    if name in world.variables and (before := lang.kind_of(world.variables[name])) != kind:
        raise ScriptError("type", f"{name} is a {before}; it cannot be declared a {kind}")
    world.declared[name] = {"kind": kind, "description": description}
    return Outcome(EMPTY[kind])


def update(
    world: World, word: lang.Word, ref: lang.Ref, operation: str | None, condition: lang.Condition | None
) -> Outcome:
    """Change a variable by the items of another variable of its kind: replace, filter, append, merge or delete."""
    name, operand = word.text, world.value(ref)
    kind = lang.kind_of(operand)
    if kind == "VALUE":
        raise ScriptError("type", f"{ref.text[:100]} is a VALUE: UPDATE takes LIST, DICT or COUNTER")
    before = world.variables.get(name, EMPTY[kind])
    if lang.kind_of(before) != kind:
        raise ScriptError("type", f"{name} is a {lang.kind_of(before)}, but {ref.text[:100]} is a {kind}")
    if kind == "COUNTER" and (condition is not None or operation in ("FILTER", "DELETE")):
        message = f"UPDATE of a COUNTER takes no WHERE and no {(operation or 'replace').lower()}"
        raise ScriptError("type", message)
    replaces = operation in (None, "REPLACE", "FILTER")
    if kind == "COUNTER":
        if not (replaces or abs(before + operand) <= lang.LARGEST):
            raise ScriptError("limit", "a number beyond 1e308")
        return Outcome(operand if replaces else before + operand)
    entries = lang.items_of(operand) or []
    chosen = list(filter(finding.checked(world, entries, condition), entries))
    if kind == "DICT":
        changes = {item["key"]: item["value"] for item in chosen}
        if operation == "DELETE":
            return Outcome({key: value for key, value in before.items() if key not in changes})
        return Outcome(changes if replaces else {**before, **changes})
    items = [lang.as_item(element) for element in before]
    if operation == "DELETE":
        gone = {sameness(item) for item in chosen}
        return Outcome(item for item in items if sameness(item) not in gone)
    if operation == "MERGE":
        return Outcome(_merged(items, chosen))
    return Outcome(chosen if replaces else chain(items, chosen))


def _merged(before: Sequence[lang.Item], chosen: Sequence[lang.Item]) -> Iterator[lang.Item]:
    """The items of `before` with the fields of the same items in `chosen`, then the other items of `chosen`."""
    fields: dict[Hashable, lang.Item] = {}
    for item in chosen:
        mark = sameness(item)
        fields[mark] = {**fields.get(mark, {}), **item}
    marks = [sameness(item) for item in before]
    for item, mark in zip(before, marks, strict=True):
        yield {**item, **fields.get(mark, {})}
    seen = set(marks)
    yield from (item for item in chosen if sameness(item) not in seen)


_NAMES = ("name", "key", "value", "result")


def create(world: World, verb: str, ref: lang.Ref, word: lang.Word | None) -> Outcome:
    """Add a node, edge or group for each item; existing and impossible ones are left out."""
    items, kind = world.items(ref), word.text if word else None
    created: list[lang.Item] = []
    for item in items:
        if verb == "CREATE_EDGES":
            properties = _properties(item, {"source", "target", "id", "type", "items"})
            edge_type = kind or _text(item, "type") or "related_to"
            new = _add_edge(
                lang.given(item, "source"), lang.given(item, "target"), edge_type, properties, world
            )
        else:
            new = _node(item, kind or ("group" if verb == "CREATE_GROUPS" else None), world)
        # An edge to a group from each of its items that is a node
        members = item.get("items") if verb == "CREATE_GROUPS" else None
        if new is not None and isinstance(members, list):
            for member in map(lang.as_item, members):
                _add_edge(member.get("id"), new["id"], "member_of", {}, world)
        created += [] if new is None else [new]
    return Outcome(created, len(items) - len(created))


def _node(item: lang.Item, kind: str | None, world: World) -> lang.Item | None:
    """Add the node that an item describes; None if it has neither id nor name, or if the graph has the id."""
    kind = kind or _text(item, "type") or "node"
    used = next((name for name in _NAMES if lang.given(item, name) is not None), None)
    name = _text(item, used) if used else None
    node_id = item.get("id")
    if node_id is None and name is None:
        return None
    identifier = lang.text_of(node_id) if node_id is not None else f"{kind}:{name}"
    if world.graph.position(identifier) is not None:
        return None
    properties = _properties(item, {"id", "name", "type", "items", used})
    name = identifier if name is None else name
    node = {"id": identifier, "name": name, "type": kind, "properties": properties}
    world.created(node)
    world.graph.add_node(dict(node))
    return node


def _add_edge(source: Any, target: Any, kind: str, properties: lang.Item, world: World) -> lang.Item | None:
    """Add an edge; None if an end is no node, or if the edge exists."""
    start, last = world.graph.position(source), world.graph.position(target)
    if start is None or last is None or world.graph.has_edge(start, last, kind):
        return None
    edge = {"source": source, "target": target, "type": kind, "properties": properties}
    world.created(edge)
    world.graph.add_edge(edge)
    return edge


def _properties(item: lang.Item, left_out: set[str | None]) -> dict[str, Any]:
    """The item's properties and other non-null top-level fields, without some names."""
    members = lang.flat(item).items()
    return {name: member for name, member in members if name not in left_out and member is not None}


def _text(item: lang.Item, name: str) -> str | None:
    value = lang.given(item, name)
    return None if value is None else lang.text_of(value)
