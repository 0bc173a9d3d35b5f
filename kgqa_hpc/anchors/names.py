"""Which of an anchor's nodes a text names.

Names are compared after Unicode normalisation, without case, with hyphens and white space alike, at word
boundaries, the longest name first: a name inside another one is not found there. Linear in the length of
the text for each name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kgqa_hpc.plain_text import normalized

_ALIKE = str.maketrans({"-": " ", "‐": " ", "‑": " ", "‒": " ", "–": " ", "_": " ", "′": "'", "’": "'"})


def plain(text: str) -> str:
    """The form in which names and texts are compared."""
    return " ".join(normalized("NFKC", text).translate(_ALIKE).casefold().split())


def named(text: str, names: Sequence[str]) -> list[int]:
    """Positions in `names` of those that stand in `text`, ascending; of equal names all."""
    bearers: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        bearers.setdefault(plain(name), []).append(position)
    rest, found = plain(text), []
    for name in sorted(filter(None, bearers), key=lambda one: (-len(one), one)):
        # What was found is blotted out, so that no shorter name is found inside of it.
        rest, times = re.subn(rf"(?<!\w){re.escape(name)}(?!\w)", "\0", rest)
        if times:
            found += bearers[name]
    return sorted(found)
