"""One HTML page on which people rate a sample: offline, by keyboard, saving on their machine (drawing/web_page.py)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from kgqa_hpc.drawing.web_page import json_block, render_page
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.cells import read_csv
from kgqa_hpc.plugins.evaluation.scales import SCALES
from kgqa_hpc.store.atomic import make_folder, write_file


def write_page(sheet: Path, page: Path, *, title: str = "Rating question-answer pairs") -> int:
    """Write `page` for the items of `sheet` (ID, Question, Answer; other columns are not shown).

    Returns the number of items. Raises InputError: a missing column, an id twice or empty, no items.
    """
    items = _items(sheet)
    # Key of the browser's local storage, so that two samples on one machine stay apart.
    sample = hashlib.sha256(json.dumps(items).encode()).hexdigest()[:16]
    data = {"sample": sample, "title": title, "items": items, "scales": [asdict(scale) for scale in SCALES]}
    make_folder(page.parent)
    block = json_block(json.dumps(data, separators=(",", ":")))
    text = render_page("kgqa_hpc.plugins.evaluation", "rating_page", title=title, data=block)
    write_file(page, text.encode("utf-8"))
    return len(items)


def _items(sheet: Path) -> list[dict[str, str]]:
    columns = ("id", "question", "answer")
    items: dict[str, dict[str, str]] = {}
    for line, cells in read_csv(sheet, *columns)[1]:
        if not cells["id"] or cells["id"] in items:
            raise InputError(f"{sheet} line {line}: id {cells['id']!r} is empty or was there before")
        items[cells["id"]] = {name: cells[name] for name in columns}
    if not items:
        raise InputError(f"{sheet}: holds no items")
    return list(items.values())
