"""The part of JSON schema that every engine here serves, and the errors for the rest.

Objects whose fields are strings, numbers, integers, booleans, one of a list of texts, and lists of these.
Patterns have the forms of kgqa_hpc/text/text_form.py. Other parts (other patterns, references, alternatives,
open-ended objects) are refused before any GPU time is spent, never ignored.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text.text_form import read_form

T = TypeVar("T")
Schema = Mapping[str, Any]

STRING_LIMIT = 400  # characters of a string without maxLength: every answer must end
ARRAY_LIMIT = 8  # elements of an array without maxItems
MOST_REMEMBERED = 64  # schemas

_ANNOTATIONS = {"title", "description", "default", "examples"}
_KNOWN = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "enum", "pattern"},
    "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "boolean": set(),
}
_LENGTHS = ("minLength", "maxLength")
_NOT_SENT = {*_LENGTHS, "pattern"}


def check(schema: Schema, path: str = "answer") -> None:
    """Raise EngineConfigError, with the path, for the first part of `schema` that cannot be served.

    prompts/front_matter.py has checked its form: lists of texts in enums, required fields, nesting.
    """
    if "enum" in schema:
        return
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _KNOWN:
        raise _refusal(f"{path} has the type {kind!r}")
    if strange := set(schema) - _KNOWN[kind] - _ANNOTATIONS - {"type"}:
        raise _refusal(f"{path} uses {', '.join(sorted(strange))}, which cannot be enforced")
    for low, high in (_LENGTHS, ("minItems", "maxItems"), ("minimum", "maximum")):
        if low in schema and high in schema and schema[low] > schema[high]:
            raise _refusal(f"{path} has {low} above {high}")
    if "pattern" in schema:
        try:
            if read_form(str(schema["pattern"])).room > schema.get("maxLength", STRING_LIMIT):
                raise _refusal(f"{path} has a pattern that is longer than its maxLength")
        except ValueError as problem:
            raise _refusal(f"{path}: {problem}") from None
    if kind == "array":
        check(schema.get("items", {}), f"{path}[]")
    if kind == "object":
        if not schema.get("properties"):
            raise _refusal(f"{path} is an object without properties")
        for key, inner in schema["properties"].items():
            check(inner, f"{path}.{key}")


def _refusal(problem: str) -> EngineConfigError:
    return EngineConfigError(f"schema: {problem}", "simplify the schema in the prompt's front matter")


def as_sent(schema: Schema) -> dict[str, Any]:
    """The schema for a server that does not take the project's grammar: without patterns and lengths of strings.

    Servers read a pattern in different ways (xgrammar 0.2.6 and later lets no quote and no newline into such a
    string), and lengths cost some of them minutes. The parser checks lengths, the step `check` the rest.
    """
    sent = {key: value for key, value in schema.items() if key not in _NOT_SENT}
    if isinstance(properties := sent.get("properties"), Mapping):
        sent["properties"] = {name: as_sent(inner) for name, inner in properties.items()}
    if isinstance(items := sent.get("items"), Mapping):
        sent["items"] = as_sent(items)
    return sent


class Remembered(Generic[T]):
    """A function of a schema with a cache by identity, because all requests carry the same few schema objects."""

    def __init__(self, make: Callable[[Schema], T]) -> None:
        self._make = make
        self._results: dict[
            int, tuple[Schema, T]
        ] = {}  # by id; the schema is kept, so that its id stays its own

    def __call__(self, schema: Schema) -> T:
        if id(schema) not in self._results:
            if len(self._results) > MOST_REMEMBERED:
                self._results.clear()
            self._results[id(schema)] = schema, self._make(schema)
        return self._results[id(schema)][1]
