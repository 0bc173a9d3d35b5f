"""Values that follow a schema and look like a model's: questions, answers, verdicts. For the scripted engine.

Strings are made of stock phrases and of the node names and questions in the prompt; their lengths vary as the
published ones do (BioGraphletQA, section 3.2.2 and its code: questions of
78.03-395.89 characters, the paper's 365 is a misprint; answers of 58.49-996.50).
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate, count, product
from typing import Any, TypeVar

import orjson

from kgqa_hpc.engines.schema import ARRAY_LIMIT, STRING_LIMIT, Schema
from kgqa_hpc.text.text_form import TextForm, read_form, reply_form

T = TypeVar("T")

_LONGEST_NAME = 120
# A line such as `- 0: Ataxia (disease)` or `Node 3. Ptosis`, and a name with its kind.
_NAMED = re.compile(r"[ \t]*(?:[-*][ \t]*)?(?:[Nn][Oo][Dd][Ee][ \t]+)?\d+[:.)][ \t]*(\S.*?)[ \t]*", re.DOTALL)
_OF_KIND = re.compile(r"(.+?)[ \t]*\([^()]*\)", re.DOTALL)
_LISTS = ("Names found: ", "Protein: ")
_PAIR_OF_NAMES = "Write the question and the answer for "
_QUOTED = 'Write the question "'
_AGAIN = "? Write this question"

_LENGTHS = {"question": (79, 395), "answer": (59, 996)}
_OTHER_LENGTH = (40, 300)
_OBJECTS = 6  # at most, of a list of objects, such as pairs about an abstract
_GOOD = 0.3  # part of a score's range that an accepted item is in: 7 to 10 of 0 to 10
_ANY_FORM = "^(.|\\n)*$"
# Values for fields in which later steps expect a name from the prompt or a known name instead of free text.
_ORGANISMS = ("Homo sapiens", "Mus musculus", "Escherichia coli", "All", "Not sure", "Unknown")
_PHRASES = tuple(
    f"{manner} {process} {site}"
    for manner, process, site in product(
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


class Draw:
    """An endless stream of small numbers that follows from `key` (at most 64 bytes) alone, on every machine."""

    __slots__ = ("_key", "_round", "_state")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._round = 0
        self._state = 0

    def below(self, limit: int) -> int:
        """A number in [0, limit), limit <= 2**32; the bias is below 2**-96."""
        if self._state < 1 << 128:
            fresh = blake2b(self._round.to_bytes(4, "little"), key=self._key, digest_size=64).digest()
            self._state = int.from_bytes(fresh, "little") | 1 << 512
            self._round += 1
        self._state, number = divmod(self._state, limit)
        return number

    def unit(self) -> float:
        """A number in [0, 1)."""
        return self.below(1 << 32) / (1 << 32)

    def bell(self, low: int, high: int) -> int:
        """A whole number in [low, high], the middle likelier than the ends (sum of three)."""
        number = self.below(1 << 30)
        thirds = (number & 1023) + (number >> 10 & 1023) + (number >> 20)  # 0 … 3069
        return low + (high - low + 1) * thirds // 3070

    def choose(self, options: Sequence[T]) -> T:
        """One of `options`."""
        return options[self.below(len(options))]


# A long text of the phrases in a fixed random order; a draw is a position in it, which is fast.
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
_CLOSED = (
    "Does {a} contribute to the course of {b}",
    "Is {a} associated with {b}",
    "Can {a} account for {b}",
    "Should {b} be looked for in patients with {a}",
)
_WILLING: dict[str, Any] = {"worth_asking": True, "decline_reason": ""}  # it never declines an anchor
_DECISION = "final_decision"  # the field beside which a question is one of yes or no


def value_for(schema: Schema, prompt: str, draw: Draw, accept: float) -> Any:
    """A value that satisfies `schema`; its booleans are all true with probability `accept`."""
    return _value(schema, "answer", _Source(schema, prompt, draw, accept))


def free_text(prompt: str, draw: Draw, accept: float) -> str:
    """Prose, for a request without a schema; then a JSON object if the prompt shows the form of an object."""
    text, form = _text(names_in(prompt), draw, *_LENGTHS["answer"]), reply_form(prompt)
    if form is None:
        return text
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in form.items()}}
    return f"{text}\n{orjson.dumps(value_for(schema, prompt, draw, accept)).decode()}"


class _Source:
    """What values are made from. Booleans come one by one and agree with one decision."""

    __slots__ = ("_false_at", "_next", "_schema", "accept", "copied", "draw", "names", "openings")

    def __init__(self, schema: Schema, prompt: str, draw: Draw, accept: float) -> None:
        self.copied = question_in(prompt)
        self.names = names_in(prompt)
        if self.copied:  # a question that names what it is about leaves the other names to the answer
            uncopied = [name for name in self.names if name not in self.copied]
            self.names = uncopied or [self.copied.removesuffix("?")]
        self.draw, self.accept, self._schema = draw, accept, schema
        self.openings = _CLOSED if _DECISION in schema.get("properties", ()) else _OPENINGS
        self._next = 0
        self._false_at: int | None = None

    def boolean(self) -> bool:
        if self._next == 0:
            accepted = self.draw.unit() < self.accept
            self._false_at = None if accepted else self.draw.below(max(_count_booleans(self._schema), 1))
        self._next += 1
        if self._false_at is None:
            return True
        return self._next - 1 != self._false_at and self.draw.below(2) == 1


def _count_booleans(schema: Schema) -> int:
    if schema.get("type") == "boolean":
        return 1
    return sum(_count_booleans(inner) for inner in schema.get("properties", {}).values())


def _value(schema: Schema, key: str, source: _Source) -> Any:
    if key in _WILLING:
        return _WILLING[key]
    draw = source.draw
    if "enum" in schema:
        return draw.choose(schema["enum"])
    kind = schema["type"]
    if kind == "object":
        return {name: _value(inner, name, source) for name, inner in schema["properties"].items()}
    if kind == "array":
        low = schema.get("minItems", 0)
        most = schema.get("maxItems", max(low, ARRAY_LIMIT))
        if schema["items"].get("type") == "object":
            most = min(most, _OBJECTS)
        count = low + draw.below(max(most, low) - low + 1)
        return _distinct([_value(schema["items"], key, source) for _ in range(count)], schema["items"])
    if kind == "string":
        return _string(schema, key, source)
    return source.boolean() if kind == "boolean" else _number(schema, key, source)


def _distinct(values: list[Any], schema: Schema) -> list[Any]:
    """The values, free texts among them numbered at their ends where a short limit made two equal."""
    if schema.get("type") != "string" or "enum" in schema or "pattern" in schema:
        return values
    distinct: list[str] = []
    for number, text in enumerate(values):
        end = f" {number}" if text in distinct and len(text) > len(f" {number}") else ""
        distinct.append(text[: len(text) - len(end)] + end)
    return distinct


def _number(schema: Schema, key: str, source: _Source) -> int | float:
    draw, low, high = source.draw, schema.get("minimum"), schema.get("maximum")
    if key == "score" and low is not None and high is not None and draw.unit() < source.accept:
        good = high - _GOOD * (high - low)
        low = min(good, high // 1) if schema["type"] == "integer" else good
    if low is None:
        low = 0 if high is None else high - 10
    if high is None:
        high = low + 10
    if schema["type"] == "integer":
        smallest = -int(-low // 1)  # the next whole number
        return smallest + draw.below(min(int(high // 1) - smallest + 1, 1 << 32))
    return round(float(low + (high - low) * draw.unit()), 6)


def _string(schema: Schema, key: str, source: _Source) -> str:
    low, high = next((span for name, span in _LENGTHS.items() if key.endswith(name)), _OTHER_LENGTH)
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if most is None:
        most = max(least, STRING_LIMIT, high)
    names = source.names if key == "protein" else _ORGANISMS if key.startswith("organism") else ()
    form = read_form(schema.get("pattern", _ANY_FORM))
    if fitting := [name for name in names if least <= len(name) <= most and form.holds(name)]:
        return source.draw.choose(fitting)
    low, high = max(min(low, most), least), max(min(high, most), least)
    copied = source.copied if key == "question" else None
    if copied and least <= len(copied) <= most and form.holds(copied):
        return copied
    text = _text(source.names, source.draw, low, high, source.openings if key.endswith("question") else ())
    return text if form.holds(text) else _formed(text, form, least, most, source.draw)


def _formed(text: str, form: TextForm, least: int, most: int, draw: Draw) -> str:
    """The text brought into a form, with the same length if possible."""
    begin, end = draw.choose(form.begins), draw.choose(form.ends) if form.ends else ""
    remaining = len(begin) + len(end)
    length = min(max(len(text), remaining + form.least, least), most) - remaining
    filler = next(letter for letter in map(chr, count(ord(" "))) if letter not in form.forbidden)
    middle = "".join(filler if letter in form.forbidden else letter for letter in text)
    return begin + middle[:length].ljust(length, filler) + end


def _text(names: list[str], draw: Draw, low: int, high: int, openings: Sequence[str] = ()) -> str:
    """A question that begins with one of `openings`; without openings, a statement."""
    length = draw.bell(low, high)
    a = draw.choose(names) if names else "the condition"
    b = draw.choose(names) if names else "its cause"
    if openings:
        start = draw.choose(openings).format(a=a, b=b)
    else:
        start = f"{b[:1].upper()}{b[1:]} is related to {a}"
    start += _passage(draw.choose(_PASSAGE_STARTS), length - len(start) - 1)
    return (start[: max(length - 1, 0)] + ("?" if openings else "."))[:length]


def _passage(start: int, length: int) -> str:
    """`length` characters of stock phrases, separated by commas."""
    text = _PASSAGE[start : start + length] if length > 0 else ""
    return text if len(text) >= length else text + _passage(0, length - len(text))


def names_in(prompt: str) -> list[str]:
    """The names in a prompt: lines such as `- 0: Ataxia (disease)`, `Node 3. Ptosis`, `Names found: CAT; p53`."""
    lines = prompt.split("\n")
    listed = [
        name for line in lines if line.startswith(_LISTS) for name in line[line.index(": ") + 2 :].split("; ")
    ]
    listed += [name for line in lines for name in _two_names(line)]
    return listed + [name for line in lines if (name := _name_in(line))]


def question_in(prompt: str) -> str | None:
    """The question that a prompt asks to copy (`Write the question "…?"`, `…? Write this question again`), one about
    the first of two names where it asks for a pair about both, else None.
    """
    for line in prompt.split("\n"):
        if names := _two_names(line):
            return f"Which finding goes together with {names[0]}?"
    quoted, end, _ = prompt.partition(_QUOTED)[2].partition('?"')
    if end:
        return f"{quoted}?"
    before, again, _ = prompt.rpartition(_AGAIN)
    return before.rpartition("\n")[2] + "?" if again else None


def _two_names(line: str) -> list[str]:
    if not line.startswith(_PAIR_OF_NAMES):
        return []
    return line.removeprefix(_PAIR_OF_NAMES).removesuffix(".").split(" and ", 1)


def _name_in(line: str) -> str | None:
    match = _NAMED.fullmatch(line)
    if match is None:
        return None
    of_kind = _OF_KIND.fullmatch(match[1])
    name = of_kind[1] if of_kind else match[1]
    return name if len(name) <= _LONGEST_NAME else None
