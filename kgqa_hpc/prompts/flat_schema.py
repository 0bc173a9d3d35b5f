"""The JSON schemas of answers: flat objects, every field required and bounded.

This is the subset that every engine can enforce while it decodes, and that is checked in microseconds
afterwards: an object whose fields are strings (with maxLength), booleans, integers, numbers, or one of a
list of strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_KEYS = {
    "string": {"type", "minLength", "maxLength", "description"},
    "boolean": {"type", "description"},
    "integer": {"type", "minimum", "maximum", "description"},
    "number": {"type", "minimum", "maximum", "description"},
}
LONGEST = 20_000  # characters of one field; far above what a prompt of ours asks for

# What the code that reads an answer of each step relies on (steps/generate.py, steps/judge.py).
NEEDED = {
    "generate": {"question": "string", "answer": "string"},
    "judge": {"valid_question": "boolean", "original_answer_valid": "boolean"},
}


def schema_problems(schema: Any, step: str) -> Iterator[str]:
    """One sentence for each way in which `schema` leaves the subset or lacks what `step` reads."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield "schema must be a mapping with type: object"
        return
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        yield "schema needs properties, at least one"
        return
    if unknown := set(schema) - {"type", "properties", "required", "additionalProperties", "description"}:
        yield f"schema has the unknown key {sorted(unknown)[0]}"
    if schema.get("required") != list(properties):
        yield "schema: required must list all properties, in their order"
    if schema.get("additionalProperties") is not False:
        yield "schema needs additionalProperties: false"
    for name, field in properties.items():
        yield from _field_problems(f"schema field {name}", field)
    for name, kind in NEEDED.get(step, {}).items():
        if not isinstance(properties.get(name), dict) or properties[name].get("type") != kind:
            yield f"a prompt of step {step} needs the {kind} field {name} in its schema"


def _field_problems(where: str, field: Any) -> Iterator[str]:
    kind = field.get("type") if isinstance(field, dict) else None
    if kind not in _KEYS:
        yield f"{where}: type must be one of {', '.join(_KEYS)}"
        return
    if "enum" in field:
        values = field["enum"]
        if kind != "string" or not isinstance(values, list) or not values or set(map(type, values)) != {str}:
            yield f"{where}: enum must be a list of strings of a field of type string"
        return
    if unknown := set(field) - _KEYS[kind]:
        yield f"{where}: unknown key {sorted(unknown)[0]}"
    if kind == "string":
        low, high = field.get("minLength", 0), field.get("maxLength")
        if not (_is_count(low) and _is_count(high) and low <= high <= LONGEST):
            yield f"{where}: needs maxLength, a whole number up to {LONGEST} and not below minLength"


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
