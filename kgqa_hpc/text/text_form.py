r"""The form of a text: the part of JSON Schema's `pattern` that every engine here can write by.

    ^(Which|What|How) [^?]*[?]$     begins with one of these, has a question mark at its end and nowhere else
    ^.*[.!]$                        one line that ends so
    ^(.|\n)*[.!?]$                  any text that ends so

A beginning (plain text, or a choice of such in brackets), a middle of any length, one sign at the end. Matching never
goes back, and a string's bounds on its length, less beginning and end, bound the middle.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

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
    """`begins`: one of these comes first; `forbidden`: characters that the middle lacks; `least` (0 or 1): its
    least length; `ends`: one of these characters comes last (empty: any).
    """

    begins: tuple[str, ...]
    forbidden: str
    least: int
    ends: str

    @property
    def room(self) -> int:
        """Characters that a text needs to be able to begin in every way."""
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
    """The form that `pattern` describes. Raises ValueError for any other pattern."""
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
