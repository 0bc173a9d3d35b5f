"""The part of JSON schema that every engine here serves, and what is said about the rest.

Objects whose fields are strings, numbers, integers, booleans, one of a list of texts, and lists of these.
What cannot be served (patterns, references, alternatives, open-ended objects) is refused before any GPU time
is spent, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kgqa_hpc.errors import EngineConfigError

Schema = Mapping[str, Any]

STRING_LIMIT = 400  # characters of a string without maxLength: every answer must end
ARRAY_LIMIT = 8  # elements of an array without maxItems
DEEPEST = 6

_ANNOTATIONS = {"title", "description", "default", "examples"}
_KNOWN = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "enum"},
    "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "boolean": set(),
}
# Bounds of lengths: a grammar that keeps them costs some engines a hundred times what the rest of it does.
_LENGTHS = ("minLength", "maxLength")


def check(schema: Schema) -> None:
    """Raises EngineConfigError, naming the place, when something in `schema` cannot be served."""
    for problem in _problems(schema, "answer", 0):
        raise EngineConfigError(f"schema: {problem}", "simplify the schema in the prompt's front matter")


def without_lengths(schema: Schema) -> dict[str, Any]:
    """The schema as it goes to xgrammar (LMDeploy, vLLM, SGLang): no string has a least or greatest length.

    Compiled with lengths, xgrammar 0.2.1 takes a minute per schema and milliseconds per token, and forbids
    quotes and other alphabets (docs/engines.md). The parser checks lengths, `max_tokens` bounds the answer.
    """
    kept = {key: value for key, value in schema.items() if key not in _LENGTHS}
    if isinstance(kept.get("properties"), Mapping):
        kept["properties"] = {name: without_lengths(inner) for name, inner in kept["properties"].items()}
    if isinstance(kept.get("items"), Mapping):
        kept["items"] = without_lengths(kept["items"])
    return kept


def _problems(schema: Any, where: str, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        yield f"{where} is nested more than {DEEPEST} deep"
        return
    if not isinstance(schema, Mapping):
        yield f"{where} is not an object"
        return
    if "enum" in schema:
        options = schema["enum"]
        if not isinstance(options, list) or not options or not all(isinstance(o, str) for o in options):
            yield f"{where} has an enum that is no list of texts"
        return
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _KNOWN:
        yield f"{where} has the type {kind!r}"
        return
    if strange := set(schema) - _KNOWN[kind] - _ANNOTATIONS - {"type"}:
        yield f"{where} uses {', '.join(sorted(strange))}, which cannot be enforced"
    for low, high in (_LENGTHS, ("minItems", "maxItems"), ("minimum", "maximum")):
        if low in schema and high in schema and schema[low] > schema[high]:
            yield f"{where} has {low} above {high}"
    yield from _problems_inside(schema, kind, where, depth)


def _problems_inside(schema: Schema, kind: str, where: str, depth: int) -> Iterator[str]:
    if kind == "array":
        yield from _problems(schema.get("items", {}), f"{where}[]", depth + 1)
    if kind != "object":
        return
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        yield f"{where} is an object without properties"
        return
    if unknown := set(schema.get("required", ())) - set(properties):
        yield f"{where} requires {', '.join(sorted(unknown))}, which it does not describe"
    for key, inner in properties.items():
        yield from _problems(inner, f"{where}.{key}", depth + 1)
