r"""Schemas of answers: the part of JSON Schema that every engine serves, and its grammar (EBNF).

Objects have fields that are strings, numbers, integers, booleans, one of a list of texts, or lists of these. The reader
of prompts refuses every other part (prompts/files.py). The pattern of a string is a form of texts:

    ^(Which|What|How) [^?]*[?]$     begins with one of the three words; its only question mark is at the end
    ^.*[.!]$                        one line that ends with a period or an exclamation mark
    ^(.|\n)*[.!?]$                  one or more lines that end with one of three punctuation marks

A form has a beginning (literal text, or alternatives in brackets), a middle of any length, and at most one final
character. Matching needs no backtracking. A string's length limits, less beginning and end, limit the middle.

All engines take the same grammar: llama.cpp reads it as GBNF, xgrammar (LMDeploy, vLLM, SGLang) as EBNF. Their own
converters differ: some forbid quotes and newlines in a string with a pattern, some allow endless white space
(small models never leave it). Here there is no white space, properties come in order, a string may hold every
escape of JSON, and every string and array is bounded.

The reply forms that stand in a prompt's text (`{"question", "answer"}`, `{why: "", valid: true/false, score: 5}`) are
read here too. They are seldom valid JSON, so they are split at commas and colons.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from kgqa_hpc.errors import EngineConfigError

T = TypeVar("T")
Schema = Mapping[str, Any]

STRING_LIMIT = 400  # largest length of a string without maxLength: every answer must end
ARRAY_LIMIT = 8  # largest number of elements of an array without maxItems
MOST_REMEMBERED = 64  # size of a cache: number of schemas
LONGEST_PATTERN = 500  # characters of a pattern
USAGE = "^(A|B)MIDDLE[.!]$, its middle .* or [^?]* or (.|\\n)* or one of these with +"

_PLAIN = r'(?:[^\\"^$.|?*+()\[\]{}\x00-\x1f]|\\[^\w\s"\\])'
_IN_CLASS = r"(?:[^\\\[\]^\x00-\x1f-]|\\[^\w\s]|\\n)"
_PATTERN = re.compile(
    rf"\^({_PLAIN}*)(?:\((?:\?:)?({_PLAIN}+(?:\|{_PLAIN}+)*)\)({_PLAIN}*))?"
    rf"(?:(\.)|(\(\.\|\\n\))|\[\^({_IN_CLASS}+)\])([*+])"
    rf"(?:({_PLAIN})|\[({_IN_CLASS}+)\])?\$"
)


class TextForm(NamedTuple):
    """A parsed form. `begins`: alternative beginnings; `forbidden`: characters not allowed in the middle;
    `least`: minimum length of the middle (0 or 1); `ends`: allowed final characters (empty: any).
    """

    begins: tuple[str, ...]
    forbidden: str
    least: int
    ends: str

    @property
    def room(self) -> int:
        """Smallest length limit under which every alternative beginning still fits, in characters."""
        return max(map(len, self.begins)) + self.least + bool(self.ends)

    def holds(self, text: str) -> bool:
        """Whether `text` has the form."""
        stop = len(text) - bool(self.ends)
        if self.ends and text[-1:] not in tuple(self.ends):
            return False
        return any(
            text.startswith(begin)
            and len(begin) + self.least <= stop
            and not any(text.find(letter, len(begin), stop) >= 0 for letter in self.forbidden)
            for begin in self.begins
        )


@lru_cache(maxsize=256)
def read_form(pattern: str) -> TextForm:
    """Parse `pattern`. Raises ValueError for a pattern outside the subset."""
    match = _PATTERN.fullmatch(pattern) if len(pattern) <= LONGEST_PATTERN else None
    if match is None:
        raise ValueError(f"pattern must have the form {USAGE}")
    before, choice, after, dot, _, excluded, repeat, sign, signs = match.groups(default="")
    begins = tuple(_meant(before + word + after) for word in re.findall(f"{_PLAIN}+", choice) or [""])
    forbidden = "\n\r" if dot else _meant(excluded)
    form = TextForm(begins, forbidden, int(repeat == "+"), _meant(sign or signs))
    if any(letter in '"\\\n' for letter in form.ends):
        raise ValueError("pattern ends in a sign that JSON must escape; leave it out")
    return form


def _meant(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], text)


MOST_NUMBERS = 1000  # largest range of numbers that a grammar lists one by one
BOUNDS = f"give no bound, minimum 0, or two whole bounds at most {MOST_NUMBERS:,} apart"


def bounds_hold(field: Mapping[str, Any]) -> bool:
    """Whether every engine can enforce `minimum` and `maximum` of a number (BOUNDS)."""
    low, high = field.get("minimum"), field.get("maximum")
    if low is None or high is None:
        return high is None and low in (None, 0)
    return bool(low == int(low) and high == int(high) and high - low <= MOST_NUMBERS)


_NOT_SENT = {"minLength", "maxLength", "pattern"}


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


def remembered(make: Callable[[Schema], T]) -> Callable[[Schema], T]:
    """A function of a schema with a cache by content, because all requests carry the same few schemas."""
    cached = lru_cache(MOST_REMEMBERED)(lambda text: make(json.loads(text)))
    return lambda schema: cached(json.dumps(schema))


REPETITIONS = 1999  # llama.cpp refuses grammars that repeat a rule more often
DIGITS = 9
DECIMALS = 6

# Printable ASCII without quote and backslash: each character is one byte, so at most one token.
_ASCII = r"char ::= [ !#-\[\]-~]"
# Escapes of a JSON string: the letter after the backslash, and the character it stands for.
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# Hexadecimal digits after \u: no control character, no ASCII (it could evade a pattern), no lone surrogate.
_HEX = "[0-9a-fA-F]"
_CODES = (
    rf'"\\u00" [89a-fA-F] {_HEX} | "\\u0" [1-9a-fA-F] {_HEX} {_HEX} | "\\u" [1-9a-cA-CeEfF] {_HEX} {_HEX} {_HEX}'
    rf' | "\\u" [dD] [0-7] {_HEX} {_HEX} | "\\u" [dD] [89abAB] {_HEX} {_HEX} "\\u" [dD] [c-fC-F] {_HEX} {_HEX}'
)


def ebnf(schema: Schema, *, ascii_only: bool = False, bounded: bool = True) -> str:
    """The grammar of JSON texts that follow `schema`; without `bounded`, strings have any length.

    Raises EngineConfigError when the schema cannot be enforced.
    """
    rules = _Rules(ascii_only, bounded)
    try:
        root = rules.of(schema)
    except (KeyError, TypeError, ValueError) as problem:  # a schema that a step made itself
        cure = "simplify the schema in the prompt's front matter"
        raise EngineConfigError(f"schema: no grammar for it: {problem}", cure) from None
    char = _ASCII if ascii_only else f"char ::= {_without('', False)}"
    return "\n".join([f"root ::= {root}", *rules.lines, char])


def structural_tag(schema: Schema, before: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """The grammar as the `response_format` that LMDeploy, vLLM and SGLang take, behind the elements `before`.

    Without bounds of strings: xgrammar 0.2.1 and 0.2.8 need more than 15 s to compile one of 900 characters, and
    40 ms for each token of a shorter one. The parser checks lengths, `max_tokens` bounds the answer.
    """
    grammar = {"type": "grammar", "grammar": ebnf(schema, bounded=False)}
    form = {"type": "sequence", "elements": [*before, grammar]} if before else grammar
    return {"type": "structural_tag", "format": form}


class _Rules:
    """Writes the rules of a grammar. A method returns the right-hand side of a rule for its schema; `lines` collects
    the rules to which the sides refer.
    """

    def __init__(self, ascii_only: bool, bounded: bool) -> None:
        self.lines: list[str] = []
        self._ascii, self._bounded = ascii_only, bounded

    def of(self, schema: Schema) -> str:
        if "enum" in schema:
            texts = [json.dumps(value, ensure_ascii=False) for value in schema["enum"]]
            return " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)
        if schema["type"] == "boolean":
            return '"true" | "false"'
        methods = {"object": self._object, "array": self._array, "string": self._string}
        return (methods | {"integer": _number, "number": _number})[schema["type"]](schema)

    def _rule(self, body: str) -> str:
        name = f"r{len(self.lines)}"
        self.lines.append(f"{name} ::= {body}")
        return name

    def _object(self, schema: Schema) -> str:
        parts = []
        for number, (key, inner) in enumerate(schema["properties"].items()):
            opening = ("," if number else "{") + json.dumps(key) + ":"
            parts.append(f"{json.dumps(opening)} {self._rule(self.of(inner))}")
        return " ".join(parts) + ' "}"'

    def _array(self, schema: Schema) -> str:
        low, high = array_bounds(schema)
        if high == 0:
            return '"[]"'
        item = self._rule(self.of(schema["items"]))
        items = f'"[" {item} ("," {item}){{{max(low - 1, 0)},{high - 1}}} "]"'
        return items if low else f'"[]" | {items}'

    def _string(self, schema: Schema) -> str:
        least = schema.get("minLength", 0)
        high = min(schema.get("maxLength", max(STRING_LIMIT, least)), REPETITIONS)
        low = min(least, high)
        if "pattern" not in schema:
            return f'"\\"" char{self._times(low, high)} "\\""'
        form = read_form(schema["pattern"])
        return f'"\\"" ({self._formed(form, low, high)}) "\\""'

    def _formed(self, form: TextForm, low: int, high: int) -> str:
        """The rule for texts with a given beginning and end and `low` to `high` characters in all."""
        middle = self._rule(_without(form.forbidden, self._ascii))
        end = f" [{_listed(form.ends)}]" if form.ends else ""
        choices = []
        for size in sorted({len(begin) for begin in form.begins}):
            words = " | ".join(json.dumps(b, ensure_ascii=False) for b in form.begins if len(b) == size)
            remaining = size + bool(end)
            least = max(low - remaining, form.least)
            choices.append(f"({words}) {middle}{self._times(least, max(high - remaining, least))}{end}")
        return " | ".join(choices)

    def _times(self, low: int, high: int) -> str:
        return f"{{{low},{high}}}" if self._bounded else "+" if low else "*"


def _number(schema: Schema) -> str:
    """The right-hand side of a grammar rule for a number; for an integer, one without decimals."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if not bounds_hold(schema):
        raise ValueError(f"numbers from {low} to {high}; {BOUNDS}")
    integer = schema["type"] == "integer"
    decimals = "" if integer else f' ("." [0-9]{{1,{DECIMALS}}})?'
    if low is None or high is None:
        sign = '"-"? ' if low is None else ""
        return f'{sign}("0" | [1-9] [0-9]{{0,{DIGITS - 1}}}){decimals}'
    low, high = int(low), int(high)
    if integer:
        return " | ".join(f'"{n}"' for n in range(low, high + 1))
    # Every integer from `low` to below `high`, with any decimals; then the bounds, with zeros as decimals.
    whole = [f"{n}" for n in range(max(low, 0), high)] + [f"-{n}" for n in range(max(-high, 0), -low)]
    parts = [f"({' | '.join(map(json.dumps, whole))}){decimals}"] if whole else []
    ends = [n for n, holds in ((high, high >= 0), (low, low < 0)) if holds]
    return " | ".join([*parts, *(f'"{n}" ("." "0"{{1,{DECIMALS}}})?' for n in ends)])


def array_bounds(schema: Schema) -> tuple[int, int]:
    """Smallest and largest number of elements of an array."""
    low = schema.get("minItems", 0)
    return low, schema.get("maxItems", max(ARRAY_LIMIT, low))


def _without(letters: str, ascii_only: bool) -> str:
    """The rule for a character of a string except `letters`; flat, because nested alternatives cost xgrammar
    40 ms a token.
    """
    last = "\\U0010FFFF" if ascii_only else "\\x7F"
    raw = rf'[^"\\\x00-\x1F\x7F-{last}{_listed(letters)}]'
    if ascii_only:
        return raw
    escapes = "".join(letter for letter, meant in _ESCAPES.items() if meant not in letters)
    codes = f" | {_CODES}" if letters.isascii() else ""
    return rf'{raw} | "\\" [{_listed(escapes)}]{codes}'


def _listed(letters: str) -> str:
    """The characters as they stand inside a character class of the grammar."""
    return "".join(f"\\U{ord(letter):08X}" for letter in letters)


_QUOTES = " \t\n\"'"


def reply_form(text: str) -> dict[str, str] | None:
    """The type (string, boolean, integer) of each field of the last form in a text; None without a form."""
    for group in reversed(text.split("}")[:-1]):
        parts = [part.partition(":") for part in group.rpartition("{")[2].split(",")]
        named = [part for part in parts if part[1]] or parts
        fields = {name.strip(_QUOTES): _type(value.strip(_QUOTES)) for name, _, value in named}
        if (len(fields) > 1 or named[0][1]) and all(name.isidentifier() for name in fields):
            return fields
    return None


def _type(value: str) -> str:
    if value.lower().startswith(("true", "false")):
        return "boolean"
    return "integer" if value.isdecimal() else "string"
