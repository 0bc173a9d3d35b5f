"""Removal of prompt markup from untrusted text.

Names come from a graph and questions from a model; both are data. In a prompt they stay on one line and cannot end a
code fence, close a listing, open a chat turn or be parsed as template code. Rendering cleans every variable
(`clean_value`); clean texts stay unchanged.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

NAME_LENGTH = 1_000  # characters; the longest name of the published graph has 950
LONGEST = 1_000_000  # characters of any other variable
TEXT_LENGTH = 8_000  # characters of a question or an answer shown to a judge; schemas bound them well below

# Nearly all names and sentences consist of these characters only and need no further check.
_UNUSUAL = re.compile(r"[^A-Za-z0-9 ,.;:()/+_%*&'?!α-ωΑ-Ω–-]")
# Three or more characters of a fence or a rule; three primes occur in chemical names (6'''-feruloyl).
_FENCE = re.compile(r"([`~=#\"-])\1{2,}")
# A bracket that opens a chat turn (<|im_start|>, </s>, [INST]), a thought (<think>) or a template tag ({{,
# {%).
_OPENING = re.compile(
    r"<(?=[|/<｜A-Za-z])|\[(?=/?(?:INST|SYS|[A-Z]+_[A-Z_]+)\])|\{(?=[{%#])|[|｜](?=>)|[}%#](?=\})"
)


def clean_text(text: str, longest: int = NAME_LENGTH) -> str:
    """`text` on one line, without hidden characters and markers, cut to `longest` with an ellipsis."""
    if len(text) <= longest and not (_UNUSUAL.search(text) or "---" in text or "  " in text):
        return text.strip()
    text = " ".join(text[: 4 * longest].split())
    if not text.isprintable():
        text = " ".join("".join(filter(str.isprintable, text)).split())
    text = _FENCE.sub(r"\1", text)
    text = _OPENING.sub(r"\g<0> ", text)
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


clean_name = functools.lru_cache(maxsize=1 << 10)(clean_text)  # names of hubs and types repeat often


def clean_type(text: str) -> str:
    """A node type as words: "biological_process" becomes "biological process"."""
    return clean_name(text.replace("_", " "))


class Lines(str):
    """A text of several lines, each of them clean, which a prompt may show as several lines."""

    __slots__ = ()


def clean_lines(text: str) -> Lines:
    """`text` with each of its lines cleaned, for a variable of several lines."""
    return Lines("\n".join(clean_text(line, LONGEST) for line in text.strip().splitlines()))


def clean_value(value: Any) -> Any:
    """A prompt variable with all its texts cleaned, also in lists, mappings and dataclasses; `Lines` stay unchanged."""
    if value is None or isinstance(value, int | float | range | Lines):
        return value
    if isinstance(value, str):
        return clean_name(value) if len(value) <= NAME_LENGTH else clean_text(value, LONGEST)
    if isinstance(value, Mapping):
        return {clean_value(name): clean_value(inner) for name, inner in value.items()}
    if hasattr(value, "_make"):  # a named tuple
        return value._make(map(clean_value, value))
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(map(clean_value, value))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: clean_value(getattr(value, field.name)) for field in fields(value)}
    return clean_text(str(value), LONGEST)
