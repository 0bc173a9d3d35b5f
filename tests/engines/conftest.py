"""A validator for the engine tests: no engine is judged by its own reading of a schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
}


def is_valid(value: Any, schema: dict[str, Any]) -> bool:
    """Whether `value` follows `schema`, for the keywords that engines here serve."""
    if "enum" in schema:
        return any(value == option and type(value) is type(option) for option in schema["enum"])
    if "const" in schema:
        return bool(value == schema["const"])
    if "anyOf" in schema:
        return any(is_valid(value, branch) for branch in schema["anyOf"])
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(_TYPES[name](value) for name in types):
        return False
    if isinstance(value, dict):
        properties = schema["properties"]
        return set(schema.get("required", ())) <= set(value) <= set(properties) and all(
            is_valid(inner, properties[key]) for key, inner in value.items()
        )
    if isinstance(value, list):
        return schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)) and all(
            is_valid(inner, schema["items"]) for inner in value
        )
    if isinstance(value, str):
        return schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)) and (
            "pattern" not in schema or re.fullmatch(schema["pattern"], value) is not None
        )
    if _TYPES["number"](value):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return True


@pytest.fixture(scope="session")
def valid() -> Callable[[Any, dict[str, Any]], bool]:
    return is_valid
