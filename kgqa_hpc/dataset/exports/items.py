"""Items of a run behind its records, for exports that need more than a record: raw answers and reasoning.

`kgqa export --with reasoning` adds the reasoning of the model that wrote a pair: the thought of a reasoning
model (`keep_thoughts: true`) and the fields of its answer that are not in the record (analysis, draft and
reflection). Both are read from the raw answers in the run's results.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.errors import InputError, PromptError
from kgqa_hpc.runs import kept_prompts
from kgqa_hpc.runs.chain import build_chain, kind_of
from kgqa_hpc.steps.answer_json import Unparseable, parse_json
from kgqa_hpc.steps.lifecycle import begin
from kgqa_hpc.steps.step import Step
from kgqa_hpc.store.run_folder import RunFolder

Json = dict[str, Any]
FIELDS = ("analysis", "draft_question", "draft_answer", "reflection")


def items_of(work: FinishedWork) -> Iterator[tuple[int, Json, Json]]:
    """Finished items in the order of the sample: row in anchors.h5, anchor, the item's record."""
    pairs = chain.from_iterable(map(work.pairs, work.manifest.shards))
    for row, (anchor, item) in enumerate(pairs):
        if item is not None:
            yield row, anchor, item


class ItemsById:
    """Random access to parts of items, `part(anchor, item)`, by item id; stored in a database in `folder`."""

    def __init__(self, work: FinishedWork, folder: Path, part: Callable[[Json, Json], Json]) -> None:
        path = folder / ".items.sqlite"
        self._items = sqlite3.connect(path)
        self._items.execute("PRAGMA journal_mode = OFF")  # one transaction, which ends with this object
        self._items.execute("CREATE TABLE item (id TEXT PRIMARY KEY, number INTEGER, part BLOB)")
        rows = ((item["id"], row, orjson.dumps(part(anchor, item))) for row, anchor, item in items_of(work))
        self._items.executemany("INSERT INTO item VALUES (?, ?, ?)", rows)
        path.unlink()

    def find(self, item_id: str) -> tuple[int, Json]:
        """The row of an item in anchors.h5, and its part. Raises InputError for an id of another run."""
        row = self._items.execute("SELECT number, part FROM item WHERE id = ?", (item_id,)).fetchone()
        if row is None:
            raise InputError(f"{item_id} is none of this run's items", "merge again")
        return row[0], orjson.loads(row[1])


class Reasoning:
    """Reasoning of a run's records, accessible in any order; stored in a temporary file in `folder`."""

    def __init__(self, run: RunFolder, folder: Path) -> None:
        work = open_work(run)
        self._kind, prompts = kind_of(work.config), kept_prompts(run)
        self._writers: dict[str, Step] = {}
        for pass_config in work.config.passes:
            try:
                steps = build_chain(work.config, pass_config.name, prompts=prompts)
            except PromptError:
                continue  # a pass that cannot be read any more; its thoughts are still in the trace
            self._writers |= {step.label: step for step in steps if step.asks and step.adds == "output"}
        self._judges = {step.label for step in work.config.steps} - self._writers.keys()
        self._items = ItemsById(work, folder, self._part)

    def of(self, record: Mapping[str, Any]) -> str:
        """The reasoning behind a record, with its column `reasoning` (MedQA); empty if there is none."""
        _, item = self._items.find(record["provenance"]["anchor"]["id"])
        return "\n\n".join(filter(None, [item["reasoning"], record.get("reasoning")]))

    def _part(self, anchor: Json, item: Json) -> Json:
        last = {entry["step"]: entry for entry in item["trace"] if entry["step"] not in self._judges}
        written = (self._text(entry, anchor) for entry in last.values())
        return {"reasoning": "\n\n".join(filter(None, written))}

    def _text(self, entry: Json, anchor: Json) -> str:
        """The thought of an answer, then its fields, each as a paragraph."""
        parts = [entry.get("thought", ""), *self._fields(entry, anchor)]
        return "\n\n".join(part.strip() for part in parts if part.strip())

    def _fields(self, entry: Json, anchor: Json) -> list[str]:
        step = self._writers.get(entry["step"])
        if step is None:
            return []
        prompt = step.of(begin(self._kind, Anchor.from_dict(anchor))).prompt_at(entry.get("turn", 0))
        if prompt.sha256 != entry["prompt"]["sha256"]:
            return []
        try:
            fields = prompt.schema["properties"]
            answer = parse_json(entry["text"], fields, last_object=prompt.last_object).value
        except Unparseable:
            return []
        return [answer[name] for name in FIELDS if isinstance(answer.get(name), str)]
