"""The part of JSON schema that engines here can serve, and what is said about the rest.

Objects, arrays, strings, numbers, integers, booleans, null, enum, const, anyOf/oneOf, local $ref. What cannot
be served (patterns, conditions, open-ended objects) is refused before any GPU time is spent, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kgqa_hpc.errors import EngineConfigError

Schema = Mapping[str, Any]

STRING_LIMIT = 400  # characters of a string without maxLength: every answer must end
ARRAY_LIMIT = 8  # elements of an array without maxItems
DEEPEST = 12

_ANNOTATIONS = {
    "title",
    "description",
    "default",
    "examples",
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
}
_KNOWN = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength"},
    "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "boolean": set(),
    "null": set(),
}


def resolve(schema: Schema, root: Schema) -> Schema:
    """Follow a local reference ("#/$defs/name"). Raises EngineConfigError when it leads nowhere."""
    for _ in range(DEEPEST):
        reference = schema.get("$ref")
        if reference is None:
            return schema
        schema = root
        for part in filter(None, str(reference).removeprefix("#").split("/")):
            if not isinstance(schema, Mapping) or part not in schema:
                raise EngineConfigError(f"schema: {reference} leads nowhere")
            schema = schema[part]
    raise EngineConfigError("schema: references run in a circle")


def alternatives(schema: Schema) -> list[Schema] | None:
    """The branches of anyOf, oneOf, or a list of types; None when there is only one way."""
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return list(schema[key])
    if isinstance(schema.get("type"), list):
        return [_of_type(schema, kind) for kind in schema["type"]]
    return None


def _of_type(schema: Schema, kind: str) -> Schema:
    return {"type": kind, **{k: v for k, v in schema.items() if k in _KNOWN.get(kind, ())}}


def check(schema: Schema) -> None:
    """Raises EngineConfigError, naming the place, when something in `schema` cannot be served."""
    for problem in _problems(schema, schema, "answer", 0):
        raise EngineConfigError(f"schema: {problem}", "simplify the schema in the prompt's front matter")


def _problems(schema: Schema, root: Schema, where: str, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        yield f"{where} is nested more than {DEEPEST} deep"
        return
    if not isinstance(schema, Mapping):
        yield f"{where} is not an object"
        return
    schema = resolve(schema, root)
    if "enum" in schema or "const" in schema:
        if not schema.get("enum", [None]):
            yield f"{where} has an empty enum"
        return
    branches = alternatives(schema)
    if branches is not None:
        if not branches:
            yield f"{where} has no alternative"
        for number, branch in enumerate(branches):
            yield from _problems(branch, root, f"{where}|{number}", depth + 1)
        return
    yield from _problems_of_type(schema, root, where, depth)


def _problems_of_type(schema: Schema, root: Schema, where: str, depth: int) -> Iterator[str]:
    kind = schema.get("type")
    if kind not in _KNOWN:
        yield f"{where} has the type {kind!r}"
        return
    strange = set(schema) - _KNOWN[kind] - _ANNOTATIONS - {"type"}
    if strange:
        yield f"{where} uses {', '.join(sorted(strange))}, which cannot be enforced"
    for low, high in (("minLength", "maxLength"), ("minItems", "maxItems"), ("minimum", "maximum")):
        if low in schema and high in schema and schema[low] > schema[high]:
            yield f"{where} has {low} above {high}"
    if kind == "object":
        if not schema.get("properties"):
            yield f"{where} is an object without properties"
        elif unknown := set(schema.get("required", ())) - set(schema["properties"]):
            yield f"{where} requires {', '.join(sorted(unknown))}, which it does not describe"
        for key, inner in schema.get("properties", {}).items():
            yield from _problems(inner, root, f"{where}.{key}", depth + 1)
    if kind == "array":
        yield from _problems(schema.get("items", {}), root, f"{where}[]", depth + 1)
