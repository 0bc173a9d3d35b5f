"""Values that follow a schema and look like a model's: questions, answers, verdicts. For the scripted engine.

Strings are made of stock phrases and of the node names seen in the prompt; their lengths vary as the
published ones do (BioGraphletQA, section 3.2.2: questions of 79-365 characters, answers of 59-997).
"""

from __future__ import annotations

import re
from itertools import accumulate, product
from typing import Any

from kgqa_hpc.engines.draw import Draw
from kgqa_hpc.engines.schema import ARRAY_LIMIT, DEEPEST, STRING_LIMIT, Schema, alternatives, resolve

_LENGTHS = {"question": (79, 365), "answer": (59, 997)}
_OTHER_LENGTH = (40, 300)
_NODE = re.compile(
    r"^[ \t]*[-*]?[ \t]*(?:node[ \t]+)?\d+[:.)][ \t]*(\S.{0,119}?)[ \t]*(?:\([^()\n]*\))?[ \t]*$", re.M | re.I
)
_PHRASES = tuple(
    f"{how} {what} {where}"
    for how, what, where in product(
        (
            "through altered",
            "by way of impaired",
            "with evidence of increased",
            "in the presence of reduced",
            "which points to abnormal",
            "and is accompanied by delayed",
            "as a consequence of disturbed",
            "consistent with early",
        ),
        (
            "receptor signalling",
            "protein folding",
            "membrane transport",
            "mitochondrial function",
            "gene expression",
            "calcium handling",
            "immune activation",
            "connective tissue growth",
        ),
        (
            "in the affected tissue",
            "during development",
            "in a subset of patients",
            "under metabolic stress",
            "in the central nervous system",
            "along the same pathway",
            "after early onset",
            "in both organs",
        ),
    )
)
# A long text of the phrases in a fixed random order: one draw picks a place in it, which is quick.
_ORDER = Draw(b"passage")
_PIECES = [f", {_ORDER.choose(_PHRASES)}" for _ in range(4096)]
_PASSAGE = "".join(_PIECES)
_PASSAGE_STARTS = tuple(accumulate((len(piece) for piece in _PIECES[:-1]), initial=0))
_OPENINGS = (
    "Which mechanism best explains how {a} relates to {b}",
    "In a patient who presents with {a}, which finding would link it to {b}",
    "How does {a} contribute to the course of {b}",
    "What shared process could account for both {a} and {b}",
)


def value_for(schema: Schema, prompt: str, draw: Draw, accept: float) -> Any:
    """A value that satisfies `schema`; its booleans are all true with probability `accept`."""
    return _value(schema, schema, "answer", _Source(schema, prompt, draw, accept), 0)


def prose(prompt: str, draw: Draw) -> str:
    """Plain text, for a request without a schema."""
    return _text(_names_in(prompt), draw, *_LENGTHS["answer"], question=False)


class _Source:
    """What values are made from. Booleans come one by one and agree with one decision."""

    __slots__ = ("_accept", "_false_at", "_next", "_schema", "draw", "names")

    def __init__(self, schema: Schema, prompt: str, draw: Draw, accept: float) -> None:
        self.names, self.draw = _names_in(prompt), draw
        self._schema, self._accept = schema, accept
        self._next = 0
        self._false_at: int | None = None

    def boolean(self) -> bool:
        if self._next == 0:
            accepted = self.draw.unit() < self._accept
            count = _count_booleans(self._schema, self._schema, 0)
            self._false_at = None if accepted else self.draw.below(max(count, 1))
        self._next += 1
        if self._false_at is None:
            return True
        return self._next - 1 != self._false_at and self.draw.below(2) == 1


def _names_in(prompt: str) -> list[str]:
    return _NODE.findall(prompt)


def _count_booleans(schema: Schema, root: Schema, depth: int) -> int:
    schema = resolve(schema, root)
    if schema.get("type") == "boolean":
        return 1
    if depth > DEEPEST:
        return 0
    return sum(_count_booleans(inner, root, depth + 1) for inner in schema.get("properties", {}).values())


def _value(schema: Schema, root: Schema, key: str, source: _Source, depth: int) -> Any:
    schema = resolve(schema, root)
    draw = source.draw
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw.choose(schema["enum"])
    branches = alternatives(schema)
    if branches is not None:
        return _value(draw.choose(branches), root, key, source, depth + 1)
    kind = schema.get("type")
    if kind == "object":
        return {k: _value(s, root, k, source, depth + 1) for k, s in schema["properties"].items()}
    if kind == "array":
        low = schema.get("minItems", 0)
        count = low + draw.below(max(schema.get("maxItems", max(low, ARRAY_LIMIT)), low) - low + 1)
        return [_value(schema["items"], root, key, source, depth + 1) for _ in range(count)]
    if kind == "string":
        return _string(schema, key, source)
    return _scalar(schema, source)


def _scalar(schema: Schema, source: _Source) -> Any:
    kind = schema.get("type")
    if kind == "boolean":
        return source.boolean()
    if kind == "null":
        return None
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None:
        low = 0 if high is None else high - 10
    if high is None:
        high = low + 10
    if kind == "integer":
        first = -int(-low // 1)  # the next whole number
        return first + source.draw.below(min(int(high // 1) - first + 1, 1 << 32))
    return round(low + (high - low) * source.draw.unit(), 6)


def _string(schema: Schema, key: str, source: _Source) -> str:
    low, high = next((span for name, span in _LENGTHS.items() if key.endswith(name)), _OTHER_LENGTH)
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if most is None:
        most = max(least, STRING_LIMIT, high)
    low, high = max(min(low, most), least), max(min(high, most), least)
    return _text(source.names, source.draw, low, high, question=key.endswith("question"))


def _text(names: list[str], draw: Draw, low: int, high: int, *, question: bool) -> str:
    length = draw.bell(low, high)
    a = draw.choose(names) if names else "the condition"
    b = draw.choose(names) if names else "its cause"
    if question:
        start = draw.choose(_OPENINGS).format(a=a, b=b)
    else:
        start = f"{b[:1].upper()}{b[1:]} is related to {a}"
    start += _passage(draw.choose(_PASSAGE_STARTS), length - len(start) - 1)
    return (start[: max(length - 1, 0)] + ("?" if question else "."))[:length]


def _passage(start: int, length: int) -> str:
    """`length` characters of stock phrases, each with its comma before it."""
    text = _PASSAGE[start : start + length] if length > 0 else ""
    return text if len(text) >= length else text + _passage(0, length - len(text))
