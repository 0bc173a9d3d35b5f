"""Parts of a prompt that a scripted answer uses: names, and a question to copy.

String functions only: a pattern would search back and forth in foreign text.
"""

from __future__ import annotations

_LONGEST_NAME = 120
_BLANK = " \t"
_LISTS = ("Names found: ", "Protein: ")
_PAIR_OF_NAMES = "Write the question and the answer for "
_QUOTED = 'Write the question "'
_AGAIN = "? Write this question"


def names_in(prompt: str) -> list[str]:
    """The names in a prompt: lines such as `- 0: Ataxia (disease)`, `Node 3. Ptosis`, `Names found: CAT; p53`."""
    lines = prompt.split("\n")
    listed = [
        name for line in lines if line.startswith(_LISTS) for name in line[line.index(": ") + 2 :].split("; ")
    ]
    for line in lines:
        listed += _two_names(line)
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
    text = line.lstrip(_BLANK)
    if text[:1] in ("-", "*"):
        text = text[1:].lstrip(_BLANK)
    if text[:4].lower() == "node" and text[4:5] in (" ", "\t"):
        text = text[4:].lstrip(_BLANK)
    digits = 0
    while digits < len(text) and text[digits].isdecimal():
        digits += 1
    if digits == 0 or text[digits : digits + 1] not in (":", ".", ")"):
        return None
    text = text[digits + 1 :].strip(_BLANK)
    if not text or text[0].isspace():
        return None
    if text.endswith(")"):
        start = text.rfind("(", 0, -1)
        if start > 0 and text.rfind(")", 0, -1) < start:
            text = text[:start].rstrip(_BLANK)
    return text if len(text) <= _LONGEST_NAME else None
