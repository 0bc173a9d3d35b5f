r"""Forms of texts and bounds of numbers (what every engine can enforce of a JSON schema), and reply forms of prompts.

    ^(Which|What|How) [^?]*[?]$     begins with one of the three words; its only question mark is at the end
    ^.*[.!]$                        one line that ends with a period or an exclamation mark
    ^(.|\n)*[.!?]$                  one or more lines that end with one of three punctuation marks

A form has a beginning (literal text, or alternatives in brackets), a middle of any length, and at most one final
character. Matching needs no backtracking. A string's length limits, less beginning and end, limit the middle.

Reply forms stand in a prompt's text: `{"question", "answer"}`, `{why: "", valid: true/false, score: 5}`. They are
seldom valid JSON, so they are split at commas and colons.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

LONGEST = 500  # characters of a pattern
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
    match = _PATTERN.fullmatch(pattern) if len(pattern) <= LONGEST else None
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


MOST_NUMBERS = 1000  # a range up to this size is spelt out in a grammar
BOUNDS = f"give no bound, minimum 0, or two whole bounds at most {MOST_NUMBERS:,} apart"


def bounds_hold(field: Mapping[str, Any]) -> bool:
    """Whether every engine can enforce `minimum` and `maximum` of a number (BOUNDS)."""
    low, high = field.get("minimum"), field.get("maximum")
    if low is None or high is None:
        return high is None and low in (None, 0)
    return bool(low == int(low) and high == int(high) and high - low <= MOST_NUMBERS)


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
