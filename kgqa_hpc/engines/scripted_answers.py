"""Values that follow a schema and look like a model's: questions, answers, verdicts. For the scripted engine.

Strings are made of stock phrases and of the node names and questions in the prompt; their lengths vary as the
published ones do (BioGraphletQA, section 3.2.2 and its code: questions of
78.03-395.89 characters, the paper's 365 is a misprint; answers of 58.49-996.50).
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, count, product, repeat
from typing import Any, TypeVar

import orjson

from kgqa_hpc.engines.grammar import STRING_LIMIT, Schema, TextForm, array_bounds, read_form, reply_form

T = TypeVar("T")

_LONGEST_NAME = 120
# A line such as `- 0: Ataxia (disease)` or `Node 3. Ptosis`: its name, without the kind in brackets.
_NUMBERED = re.compile(
    r"^[ \t]*(?:[-*][ \t]*)?(?:[Nn][Oo][Dd][Ee][ \t]+)?\d+[:.)][ \t]*(\S.*?)(?:[ \t]*\([^()\n]*\))?[ \t]*$",
    re.MULTILINE,
)
_LISTED = re.compile(r"^(?:Names found|Protein): (.*)$", re.MULTILINE)
_PAIR_OF_NAMES = re.compile(r"^Write the question and the answer for (.*?)\.?$", re.MULTILINE)
_QUOTED = 'Write the question "'
_AGAIN = "? Write this question"

_LENGTHS = {"question": (79, 395), "answer": (59, 996)}
_OTHER_LENGTH = (40, 300)
_OBJECTS = 6  # largest length of a list of objects, such as pairs about an abstract
_GOOD = 0.3  # upper part of a score's range for accepted items: 7 to 10 of 0 to 10
_ANY_FORM = "^(.|\\n)*$"
# Values for fields in which later steps expect a name from the prompt or a known name instead of free text.
_ORGANISMS = ("Homo sapiens", "Mus musculus", "Escherichia coli", "All", "Not sure", "Unknown")
_MANNERS = (
    "through altered, by way of impaired, with evidence of increased, in the presence of reduced, which points to "
    "abnormal, and is accompanied by delayed, as a consequence of disturbed, consistent with early"
)
_PROCESSES = (
    "receptor signalling, protein folding, membrane transport, mitochondrial function, gene expression, calcium "
    "handling, immune activation, connective tissue growth"
)
_SITES = (
    "in the affected tissue, during development, in a subset of patients, under metabolic stress, in the central "
    "nervous system, along the same pathway, after early onset, in both organs"
)
_PHRASES = [" ".join(parts) for parts in product(*(t.split(", ") for t in (_MANNERS, _PROCESSES, _SITES)))]
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
# The scripted engine never declines an anchor.
_WILLING: dict[str, Any] = {"worth_asking": True, "decline_reason": ""}
_DECISION = "final_decision"  # a schema with this field asks for a yes-or-no question


class Draw:
    """An endless stream of random numbers that depends on `key` (at most 64 bytes) alone, on every machine."""

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
        """A random one of `options`."""
        return options[self.below(len(options))]


# A long text of the phrases in a fixed random order; a draw is a position in it, which is fast.
_ORDER = Draw(b"passage")
_PIECES = [f", {_ORDER.choose(_PHRASES)}" for _ in range(4096)]
_PASSAGE = "".join(_PIECES) * 2  # doubled, because a text may begin near the end
_PASSAGE_STARTS = tuple(accumulate((len(piece) for piece in _PIECES[:-1]), initial=0))


def value_for(schema: Schema, prompt: str, draw: Draw, accept: float) -> Any:
    """A value that satisfies `schema`; its booleans are all true with probability `accept`."""
    return _Writer(schema, prompt, draw, accept).value(schema, "answer")


def free_text(prompt: str, draw: Draw, accept: float) -> str:
    """Prose, for a request without a schema; then a JSON object if the prompt shows the form of an object."""
    text, form = _text(names_in(prompt), draw, *_LENGTHS["answer"]), reply_form(prompt)
    if form is None:
        return text
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in form.items()}}
    return f"{text}\n{orjson.dumps(value_for(schema, prompt, draw, accept)).decode()}"


class _Writer:
    """Writes the values of one answer from the names in the prompt and a stream of random numbers."""

    def __init__(self, schema: Schema, prompt: str, draw: Draw, accept: float) -> None:
        self._draw, self._accept = draw, accept
        self._copied = question_in(prompt)
        self._names = names_in(prompt)
        if self._copied:  # a copied question names its subject; the other names are for the answer
            uncopied = [name for name in self._names if name not in self._copied]
            self._names = uncopied or [self._copied.removesuffix("?")]
        self._openings = _CLOSED if _DECISION in schema.get("properties", ()) else _OPENINGS
        self._verdicts = self._all_verdicts(_count_booleans(schema))

    def _all_verdicts(self, number: int) -> Iterator[bool]:
        """The booleans of the answer: all true if the item is accepted, otherwise one false and the rest drawn."""
        if self._draw.unit() < self._accept:
            yield from repeat(True)
        false_at = self._draw.below(max(number, 1))
        for position in count():
            yield position != false_at and self._draw.below(2) == 1

    def value(self, schema: Schema, key: str) -> Any:
        """A value of the field `key`."""
        if key in _WILLING:
            return _WILLING[key]
        if "enum" in schema:
            return self._draw.choose(schema["enum"])
        kind = schema["type"]
        if kind == "object":
            return {name: self.value(inner, name) for name, inner in schema["properties"].items()}
        if kind == "array":
            return self._array(schema, key)
        if kind == "string":
            return self._string(schema, key)
        return next(self._verdicts) if kind == "boolean" else self._number(schema, key)

    def _array(self, schema: Schema, key: str) -> list[Any]:
        """The values of a list; free texts that a short limit made equal get a number at the end."""
        items = schema["items"]
        low, high = array_bounds(schema)
        if items.get("type") == "object":
            high = min(high, _OBJECTS)
        values = [self.value(items, key) for _ in range(low + self._draw.below(max(high, low) - low + 1))]
        if items.get("type") != "string" or "enum" in items or "pattern" in items:
            return values
        distinct: list[str] = []
        for number, text in enumerate(values):
            end = f" {number}" if text in distinct and len(text) > len(f" {number}") else ""
            distinct.append(text[: len(text) - len(end)] + end)
        return distinct

    def _number(self, schema: Schema, key: str) -> int | float:
        low, high = schema.get("minimum"), schema.get("maximum")
        if key == "score" and low is not None and high is not None and self._draw.unit() < self._accept:
            good = high - _GOOD * (high - low)
            low = min(good, high // 1) if schema["type"] == "integer" else good
        if low is None:
            low = 0 if high is None else high - 10
        if high is None:
            high = low + 10
        if schema["type"] == "integer":
            smallest = -int(-low // 1)  # the next whole number
            return smallest + self._draw.below(min(int(high // 1) - smallest + 1, 1 << 32))
        return round(float(low + (high - low) * self._draw.unit()), 6)

    def _string(self, schema: Schema, key: str) -> str:
        low, high = next((span for name, span in _LENGTHS.items() if key.endswith(name)), _OTHER_LENGTH)
        least = schema.get("minLength", 0)
        most = schema.get("maxLength", max(least, STRING_LIMIT, high))
        names = self._names if key == "protein" else _ORGANISMS if key.startswith("organism") else ()
        form = read_form(schema.get("pattern", _ANY_FORM))
        if fitting := [name for name in names if least <= len(name) <= most and form.holds(name)]:
            return self._draw.choose(fitting)
        copied = self._copied if key == "question" else None
        if copied and least <= len(copied) <= most and form.holds(copied):
            return copied
        low, high = max(min(low, most), least), max(min(high, most), least)
        text = _text(self._names, self._draw, low, high, self._openings if key.endswith("question") else ())
        return text if form.holds(text) else _formed(text, form, least, most, self._draw)


def _count_booleans(schema: Schema) -> int:
    if schema.get("type") == "boolean":
        return 1
    return sum(_count_booleans(inner) for inner in schema.get("properties", {}).values())


def _formed(text: str, form: TextForm, least: int, most: int, draw: Draw) -> str:
    """`text` changed to have the form: a beginning, an end, no forbidden letters; with the same length if possible."""
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
    position = draw.choose(_PASSAGE_STARTS)
    start += _PASSAGE[position : position + max(length - len(start) - 1, 0)]
    return (start[: max(length - 1, 0)] + ("?" if openings else "."))[:length]


def names_in(prompt: str) -> list[str]:
    """The names in a prompt: lines such as `- 0: Ataxia (disease)`, `Node 3. Ptosis`, `Names found: CAT; p53`."""
    listed = [name for names in _LISTED.findall(prompt) for name in names.split("; ")]
    listed += [name for pair in _PAIR_OF_NAMES.findall(prompt) for name in pair.split(" and ", 1)]
    return listed + [name for name in _NUMBERED.findall(prompt) if len(name) <= _LONGEST_NAME]


def question_in(prompt: str) -> str | None:
    """The question that a prompt asks to copy (`Write the question "…?"`, `…? Write this question again`); for a prompt
    that asks for a pair about two names, a question about the first; else None.
    """
    if pair := _PAIR_OF_NAMES.search(prompt):
        return f"Which finding goes together with {pair[1].split(' and ', 1)[0]}?"
    quoted, end, _ = prompt.partition(_QUOTED)[2].partition('?"')
    if end:
        return f"{quoted}?"
    before, again, _ = prompt.rpartition(_AGAIN)
    return before.rpartition("\n")[2] + "?" if again else None
