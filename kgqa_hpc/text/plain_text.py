"""Foreign text made harmless, for people and for prompts; tables, durations and numbers for people.

Names, questions, model answers and server messages are data. They may hold escape sequences (ESC, C1), which move the
cursor, set the title or fake output, and characters that change the direction of writing: people see the replacement
character instead. In a prompt such a text stays on one line and cannot end a code fence, close a listing, open a chat
turn or be parsed as template code. Rendering cleans every variable (`clean_value`); clean texts stay unchanged.
"""

import csv
import io
import json
import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from math import floor, log10
from typing import Any, Literal

# Characters that change a terminal: C0 but tab and newline, DEL, C1, line and paragraph separators,
# bidirectional controls, zero-width joiners and marks, byte order mark, tags, and lone surrogates.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
# A quick test for long runs of combining characters; texts of most languages never match.
_RUN = re.compile("[\u0300-\u036f\u0483-\U0010ffff]{31}")
_LONGEST_CELL = 48  # characters of a table's cell; the rest is cut off
# Longest run of combining characters in Stream-Safe Text (Unicode Standard Annex 15, section 13).
_LONGEST_RUN = 30
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def plain(text: str) -> str:
    """The text with every control character replaced; tabs and line breaks stay."""
    return _STEERING.sub(REPLACEMENT, text)


def plain_line(text: str) -> str:
    """The text on one line, with every control character replaced."""
    return plain(text).replace("\n", " ").replace("\t", " ")


def aligned(rows: Sequence[Sequence[object]]) -> list[str]:
    """A table's rows as lines with aligned columns, the first column to the left; control characters are replaced."""
    texts = [[plain_line(str(cell))[:_LONGEST_CELL] for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in texts
    ]


def shell_word(text: object) -> str:
    """A path or text as one word of a command that a user copies: in quotes if it has blanks."""
    return shlex.quote(str(text))


def csv_lines(rows: Iterable[Iterable[object]], delimiter: str = ",") -> Iterator[str]:
    """The rows of a CSV file, each with its line feed; cells that hold a line end of any kind are quoted."""
    line = io.StringIO()
    # The writer quotes only the characters of its own line end; an unquoted CR would end a row for readers.
    writer = csv.writer(line, delimiter=delimiter, lineterminator="\r\n")
    for row in rows:
        writer.writerow(row)
        yield line.getvalue().removesuffix("\r\n") + "\n"
        line.seek(line.truncate(0))


def printable(text: str) -> str:
    """The text on one line, with a blank for each unprintable character."""
    return "".join(c if c.isprintable() else " " for c in text)


def plain_json(text: str) -> str:
    """Equivalent JSON with every control character escaped (they occur only within strings)."""
    return _STEERING.sub(lambda match: json.dumps(match[0])[1:-1], text)


def normalized(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """The Unicode normal form of a text, in time linear in its length.

    Python sorts a run of combining characters in quadratic time: 250,000 accents on one letter take half a
    minute. Runs of more than _LONGEST_RUN, which no writing system uses, are normalised in pieces.
    """
    if text.isascii():
        return text
    if _RUN.search(text) is None:
        return unicodedata.normalize(form, text)
    pieces, begin, run = list[str](), 0, 0
    for position, character in enumerate(text):
        run = run + 1 if unicodedata.combining(character) else 0
        if run > _LONGEST_RUN:
            pieces.append(text[begin:position])
            begin, run = position, 1
    return "".join(unicodedata.normalize(form, piece) for piece in [*pieces, text[begin:]])


NAME_LENGTH = 1_000  # largest number of characters of a name; the longest of the published graph has 950
LONGEST = 1_000_000  # largest number of characters of any other variable
TEXT_LENGTH = 8_000  # characters of a question or an answer shown to a judge; schemas bound them well below

# Nearly all names and sentences consist of these characters only and need no further check.
_UNUSUAL = re.compile(r"[^A-Za-z0-9 ,.;:()/+_%*&'?!α-ωΑ-Ω–-]")
# Three or more characters of a fence or a rule; three primes occur in chemical names (6'''-feruloyl).
_FENCE = re.compile(r"([`~=#\"-])\1{2,}")
# A bracket that opens a chat turn (<|im_start|>, </s>, [INST]), a thought (<think>) or a template tag ({{, {%).
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


clean_name = lru_cache(maxsize=1 << 10)(clean_text)  # names of hubs and types repeat often


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


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_YEAR = 365.25  # days per year


def parse_duration(value: object) -> object:
    """Seconds from 90, '90s', '15m', '2h', '2d', 'HH:MM:SS', or Slurm's 'D-HH:MM:SS'.

    Values of other types are returned unchanged, for pydantic to check. Raises ValueError.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", text):
        return float(match[1]) * _UNITS[match[2]]
    # MM:SS is refused as ambiguous: many users mean hours and minutes.
    if text.count(":") == 2 and (seconds := clock_seconds(text)) is not None:
        return seconds
    try:
        return float(text)
    except ValueError:
        raise ValueError("is not a duration such as 30s, 15m, 2h or 2-00:00:00") from None


def clock_seconds(text: str) -> float | None:
    """Seconds from Slurm's [D-]HH:MM:SS or MM:SS; None for UNLIMITED and the like."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d{1,2}):(\d{2})", text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def duration(seconds: float) -> str:
    """'2.5 s', '40 s', '3 h 5 min', '1 day 19 h', '12 years': two units at most."""
    if seconds < 90:
        return f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    days, remainder = divmod(minutes, 1440)
    hours, minutes = divmod(remainder, 60)
    if days >= 2 * _YEAR:
        return f"{days / _YEAR:,.0f} years"
    if days:
        return f"{days:,} day{'s' if days > 1 else ''} {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def about(value: float, digits: int = 3) -> str:
    """The value as text, rounded to `digits` significant digits: 57,600,000 and 0.403."""
    if not value:
        return "0"
    decimals = digits - 1 - floor(log10(abs(value)))
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"
