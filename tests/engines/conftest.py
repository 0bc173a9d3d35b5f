"""A validator for the engine tests: no engine is judged by its own reading of a schema."""

from collections.abc import Callable
from typing import Any

import pytest


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as engines read it: an object has no other properties than those described."""
    schema = dict(schema)
    if "properties" in schema:
        schema["properties"] = {name: closed(inner) for name, inner in schema["properties"].items()}
        schema["additionalProperties"] = False
    if "items" in schema:
        schema["items"] = closed(schema["items"])
    return schema


def is_valid(value: Any, schema: dict[str, Any]) -> bool:
    """Whether `value` follows `schema`."""
    import jsonschema  # not in the environment of LMDeploy, where this file is loaded too

    return bool(jsonschema.Draft202012Validator(closed(schema)).is_valid(value))


@pytest.fixture(scope="session")
def valid() -> Callable[[Any, dict[str, Any]], bool]:
    return is_valid
