"""The part of JSON schema that every engine here serves, and what is said about the rest.

Objects whose fields are strings, numbers, integers, booleans, one of a list of texts, and lists of these.
Of patterns it is the forms of kgqa_hpc/text/text_form.py. What cannot be served (other patterns, references,
alternatives, open-ended objects) is refused before any GPU time is spent, never ignored.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text.text_form import read_form

T = TypeVar("T")
Schema = Mapping[str, Any]

STRING_LIMIT = 400  # characters of a string without maxLength: every answer must end
ARRAY_LIMIT = 8  # elements of an array without maxItems
DEEPEST = 6
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


def check(schema: Schema) -> None:
    """Raises EngineConfigError, naming the place, when something in `schema` cannot be served."""
    for problem in _problems(schema, "answer", 0):
        raise EngineConfigError(f"schema: {problem}", "simplify the schema in the prompt's front matter")


def as_sent(schema: Schema) -> dict[str, Any]:
    """The schema for a server that takes no grammar of ours: without patterns, and without lengths of strings.

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
    """What `make` makes of a schema, made once: the same few schemas come with all requests."""

    def __init__(self, make: Callable[[Schema], T]) -> None:
        self._make = make
        self._made: dict[int, tuple[Schema, T]] = {}

    def __call__(self, schema: Schema) -> T:
        cached = self._made.get(id(schema))
        # Python may reuse the id of a deleted object, so the object is kept and compared.
        if cached is None or cached[0] is not schema:
            if len(self._made) > MOST_REMEMBERED:
                self._made.clear()
            cached = self._made[id(schema)] = schema, self._make(schema)
        return cached[1]


def _problems(schema: Any, path: str, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        yield f"{path} is nested more than {DEEPEST} deep"
        return
    if not isinstance(schema, Mapping):
        yield f"{path} is not an object"
        return
    if "enum" in schema:
        options = schema["enum"]
        if not isinstance(options, list) or not options or not all(isinstance(o, str) for o in options):
            yield f"{path} has an enum that is no list of texts"
        return
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _KNOWN:
        yield f"{path} has the type {kind!r}"
        return
    if strange := set(schema) - _KNOWN[kind] - _ANNOTATIONS - {"type"}:
        yield f"{path} uses {', '.join(sorted(strange))}, which cannot be enforced"
    for low, high in (_LENGTHS, ("minItems", "maxItems"), ("minimum", "maximum")):
        if low in schema and high in schema and schema[low] > schema[high]:
            yield f"{path} has {low} above {high}"
    if "pattern" in schema:
        try:
            if read_form(str(schema["pattern"])).room > schema.get("maxLength", STRING_LIMIT):
                yield f"{path} has a pattern that is longer than its maxLength"
        except ValueError as problem:
            yield f"{path}: {problem}"
    if kind == "array":
        yield from _problems(schema.get("items", {}), f"{path}[]", depth + 1)
    if kind != "object":
        return
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        yield f"{path} is an object without properties"
        return
    if unknown := set(schema.get("required", ())) - set(properties):
        yield f"{path} requires {', '.join(sorted(unknown))}, which it does not describe"
    for key, inner in properties.items():
        yield from _problems(inner, f"{path}.{key}", depth + 1)
