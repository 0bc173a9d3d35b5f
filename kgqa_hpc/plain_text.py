"""Foreign text on a terminal: nothing in it may steer the terminal or hide what it says.

Names, questions, model answers, server messages may hold escape sequences (ESC, C1), which move the cursor,
set the title or fake output, and characters that turn the direction of writing. They are shown as the
replacement character.
"""

from __future__ import annotations

import json
import re

# C0 but tab and newline, DEL, C1, line and paragraph separators, bidirectional controls, zero-width joiners and
# marks, byte order mark, tags, and lone surrogates (which no terminal encoding can take).
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def plain(text: str) -> str:
    """The text with every steering character replaced; tabs and line breaks stay."""
    return _STEERING.sub(REPLACEMENT, text)


def plain_line(text: str) -> str:
    """The same on one line."""
    return plain(text).replace("\n", " ").replace("\t", " ")


def printable(text: str) -> str:
    """The text with a blank for each character that does not print, so on one line."""
    return "".join(c if c.isprintable() else " " for c in text)


def plain_json(text: str) -> str:
    """JSON that says the same with every steering character escaped; they stand only within its strings."""
    return _STEERING.sub(lambda found: json.dumps(found[0])[1:-1], text)
