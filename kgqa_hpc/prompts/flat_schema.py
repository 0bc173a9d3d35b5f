"""The JSON schemas of answers: objects of bounded fields, every one required.

This is the subset that every engine can enforce while it decodes, and that is checked in microseconds
afterwards: strings (with maxLength, and a pattern of kgqa_hpc/text/text_form.py), one of a list of strings, booleans,
integers, numbers, and lists (with maxItems) of these or of objects of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kgqa_hpc.text.text_form import read_form

_KEYS = {
    "string": {"type", "minLength", "maxLength", "pattern", "description"},
    "boolean": {"type", "description"},
    "integer": {"type", "minimum", "maximum", "description"},
    "number": {"type", "minimum", "maximum", "description"},
    "array": {"type", "items", "minItems", "maxItems", "description"},
}
_OBJECT = {"type", "properties", "required", "additionalProperties", "description"}
LONGEST = 20_000  # characters of one field; far above what a prompt of ours asks for
MOST = 100  # entries of a list


def schema_problems(schema: Any) -> Iterator[str]:
    """One sentence for each way in which `schema` leaves the subset."""
    yield from _object_problems("schema", schema)


def lacking(schema: Mapping[str, Any], step: str, needed: Mapping[str, str]) -> Iterator[str]:
    """One sentence for each field that `step` reads and that a schema of the subset does not have.

    `needed`: types by field; several that will do are written "integer|number".
    """
    for name, kind in needed.items():
        if schema["properties"].get(name, {}).get("type") not in kind.split("|"):
            yield f"a prompt of step {step} needs the {kind.replace('|', ' or ')} field {name} in its schema"


def _object_problems(where: str, schema: Any, inner: bool = False) -> Iterator[str]:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield f"{where} must be a mapping with type: object"
        return
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        yield f"{where} needs properties, at least one"
        return
    if unknown := set(schema) - _OBJECT:
        yield f"{where} has the unknown key {sorted(unknown)[0]}"
    if schema.get("required") != list(properties):
        yield f"{where}: required must list all properties, in their order"
    if schema.get("additionalProperties") is not False:
        yield f"{where} needs additionalProperties: false"
    for name, field in properties.items():
        yield from _field_problems(f"schema field {name}", field, inner)


def _field_problems(where: str, field: Any, inner: bool) -> Iterator[str]:
    kind = field.get("type") if isinstance(field, dict) else None
    if kind not in _KEYS or (inner and kind == "array"):
        known = [each for each in _KEYS if each != "array" or not inner]
        yield f"{where}: type must be one of {', '.join(known)}"
    elif "enum" in field:
        values = field["enum"]
        if kind != "string" or not isinstance(values, list) or not values or set(map(type, values)) != {str}:
            yield f"{where}: enum must be a list of strings of a field of type string"
        elif "pattern" in field:
            yield f"{where}: enum and pattern exclude each other"
    elif unknown := set(field) - _KEYS[kind]:
        yield f"{where}: unknown key {sorted(unknown)[0]}"
    elif kind == "string" and not _bounded(field.get("minLength", 0), field.get("maxLength"), LONGEST):
        yield f"{where}: needs maxLength, a whole number up to {LONGEST} and not below minLength"
    elif "pattern" in field:
        yield from _pattern_problems(where, field)
    elif kind == "array":
        yield from _list_problems(where, field)


def _pattern_problems(where: str, field: dict[str, Any]) -> Iterator[str]:
    try:
        room = read_form(str(field["pattern"])).room
    except ValueError as problem:
        yield f"{where}: {problem}"
        return
    if room > field["maxLength"]:
        yield f"{where}: pattern is longer than maxLength"


def _list_problems(where: str, field: dict[str, Any]) -> Iterator[str]:
    if not _bounded(field.get("minItems", 0), field.get("maxItems"), MOST):
        yield f"{where}: needs maxItems, a whole number up to {MOST} and not below minItems"
    items = field.get("items")
    if isinstance(items, dict) and items.get("type") == "object":
        yield from _object_problems(f"{where}, items", items, inner=True)
    else:
        yield from _field_problems(f"{where}, items", items, inner=True)


def _bounded(low: Any, high: Any, limit: int) -> bool:
    return _is_count(low) and _is_count(high) and low <= high <= limit


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
