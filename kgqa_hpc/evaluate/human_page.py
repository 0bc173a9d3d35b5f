"""One self-contained HTML page on which people rate a sample: offline, by keyboard, saving on their machine.

Everything foreign is data: the items stand in a JSON block that no browser runs, the script puts them on the
page as text only, and a content security policy with hashes lets nothing else run, load or be sent.
The script is rating_page.js.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

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
    write_file(page, render(data).encode("utf-8"))
    return len(items)


def render(data: dict[str, Any]) -> str:
    """The page as HTML."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    jinja = Environment(
        loader=PackageLoader("kgqa_hpc.evaluate", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _source("rating_page.css"), _source("rating_page.js")
    return jinja.get_template("rating_page.html.j2").render(
        title=data["title"],
        data=json_block(data),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def json_block(value: Any) -> str:
    """JSON that cannot end the script element it stands in, nor start a comment there."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


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


def _source(name: str) -> str:
    return files("kgqa_hpc.evaluate").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
