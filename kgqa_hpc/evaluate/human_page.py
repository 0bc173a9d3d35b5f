"""One HTML page on which people rate a sample: offline, by keyboard, saving on their machine (drawing/web_page.py)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from kgqa_hpc.drawing.web_page import json_block, render_page
from kgqa_hpc.errors import InputError
from kgqa_hpc.evaluate.cells import read_csv
from kgqa_hpc.evaluate.scales import SCALES
from kgqa_hpc.store.atomic import make_folder, write_file


def write_page(sheet: Path, page: Path, *, title: str = "Rating question-answer pairs") -> int:
    """Write `page` for the items of `sheet` (ID, Question, Answer; other columns are not shown).

    Returns the number of items. Raises InputError: a missing column, an id twice or empty, no items.
    """
    items = _items(sheet)
    data = {"sample": _digest(items), "title": title, "items": items, "scales": _scales()}
    make_folder(page.parent)
    block = json_block(json.dumps(data, separators=(",", ":")))
    text = render_page("kgqa_hpc.evaluate", "rating_page", title=title, data=block)
    write_file(page, text.encode("utf-8"))
    return len(items)


def _items(sheet: Path) -> list[dict[str, str]]:
    header, lines = read_csv(sheet)
    names = {name.lower(): name for name in header}
    for needed in ("id", "question", "answer"):
        if needed not in names:
            raise InputError(f"{sheet} line 1: no column {needed!r}", f"it has: {', '.join(header)}")
    items, seen = [], set()
    for line, cells in lines:
        item = {name: cells[names[name]] for name in ("id", "question", "answer")}
        if not item["id"] or item["id"] in seen:
            raise InputError(f"{sheet} line {line}: id {item['id']!r} is empty or was there before")
        seen.add(item["id"])
        items.append(item)
    if not items:
        raise InputError(f"{sheet}: holds no items")
    return items


def _scales() -> list[dict[str, Any]]:
    return [{"name": s.name, "key": s.key, "levels": [list(level) for level in s.levels]} for s in SCALES]


def _digest(items: list[dict[str, str]]) -> str:
    """Names what a browser saves, so that two samples on one machine do not mix."""
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()[:16]
