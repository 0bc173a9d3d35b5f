"""Items of a run behind its records, for exports that need more than a record: raw answers and reasoning.

`kgqa export --with reasoning` adds the reasoning of the model that wrote a pair: the thought of a reasoning
model (`keep_thoughts: true`) and the fields of its answer that are not in the record (analysis, draft and
reflection). Both are read from the raw answers in the run's results.

The published BioGraphletQA records have 14 fields: `id` is the graphlet's position in the shuffled sample,
`graphlet_index` the ordinal of its shape within its size, as the authors' code numbers them; `text` and
`filtering_text` are the raw answers of the models. docs/guide/dataset.md names the differences.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.dataset.files import ExportSource
from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.errors import InputError, PromptError
from kgqa_hpc.runs import kept_prompts
from kgqa_hpc.runs.chain import build_chain, kind_of
from kgqa_hpc.steps.answer_json import Unparseable, parse_json
from kgqa_hpc.steps.item import begin
from kgqa_hpc.steps.step import Step
from kgqa_hpc.store.run_folder import RunFolder

Json = dict[str, Any]
FIELDS = ("analysis", "draft_question", "draft_answer", "reflection")


def parts_by_id(
    work: FinishedWork, folder: Path, part: Callable[[Json, Json], Json]
) -> Callable[[str], tuple[int, Json]]:
    """A function from the id of a finished item to its row in anchors.h5 and its `part(anchor, item)`.

    The parts are in a temporary database in `folder`. The function raises InputError for an id of another run.
    """
    path = folder / ".items.sqlite"
    items = sqlite3.connect(path)
    items.execute("PRAGMA journal_mode = OFF")  # no journal: the database is deleted afterwards
    items.execute("CREATE TABLE item (id TEXT PRIMARY KEY, number INTEGER, part BLOB)")
    pairs = enumerate(chain.from_iterable(map(work.pairs, work.manifest.shards)))
    rows = ((item["id"], row, orjson.dumps(part(anchor, item))) for row, (anchor, item) in pairs if item)
    items.executemany("INSERT INTO item VALUES (?, ?, ?)", rows)
    path.unlink()

    def find(item_id: str) -> tuple[int, Json]:
        row = items.execute("SELECT number, part FROM item WHERE id = ?", (item_id,)).fetchone()
        if row is None:
            raise InputError(f"{item_id} is none of this run's items", "merge again")
        return row[0], orjson.loads(row[1])

    return find


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
                continue  # the pass's prompts cannot be loaded any more, but its thoughts are in the trace
            self._writers |= {step.label: step for step in steps if step.asks and step.adds == "output"}
        self._judges = {step.label for step in work.config.steps} - self._writers.keys()
        self._find = parts_by_id(work, folder, self._part)

    def of(self, record: Mapping[str, Any]) -> str:
        """The reasoning behind a record, with its column `reasoning` (MedQA); empty if there is none."""
        _, item = self._find(record["provenance"]["anchor"]["id"])
        return "\n\n".join(filter(None, [item["reasoning"], record.get("reasoning")]))

    def _part(self, anchor: Json, item: Json) -> Json:
        last = {entry["step"]: entry for entry in item["trace"] if entry["step"] not in self._judges}
        written = (self._text(entry, anchor) for entry in last.values())
        return {"reasoning": "\n\n".join(filter(None, written))}

    def _text(self, entry: Json, anchor: Json) -> str:
        """The thought of an answer, then its fields, each as a paragraph."""
        parts, step = [entry.get("thought", "")], self._writers.get(entry["step"])
        if step is not None:
            prompt = step.of(begin(self._kind, Anchor.from_dict(anchor))).prompt_at(entry.get("turn", 0))
            if prompt.sha256 == entry["prompt"]["sha256"]:
                with suppress(Unparseable):
                    fields = prompt.schema["properties"]
                    answer = parse_json(entry["text"], fields, last_object=prompt.last_object).value
                    parts += [answer[name] for name in FIELDS if isinstance(answer.get(name), str)]
        return "\n\n".join(part.strip() for part in parts if part.strip())


# The published ids of the shapes of each size, in the order in which the authors' code numbers them.
_ORDER = {
    3: (1, 2),
    4: (4, 3, 6, 5, 7, 8),
    5: (11, 10, 9, 14, 12, 16, 13, 15, 17, 19, 18, 20, 21, 23, 22, 24, 25, 26, 27, 28, 29),
}
_ORDINAL = {shape: ordinal for shapes in _ORDER.values() for ordinal, shape in enumerate(shapes)}


class BioGraphletQA:
    """SPLIT.jsonl under the published field names. Raises InputError for records that are no graphlets."""

    name = "biographletqa"
    needs_results = True

    def write(self, source: ExportSource, folder: Path) -> None:
        for split in source.splits:
            with (folder / f"{split}.jsonl").open("wb") as file:
                file.writelines(_lines(source.run, source.records(split), folder))


def write_published(run: RunFolder, accepted: Path, target: Path) -> None:
    """Write one file in the published format, from a file of accepted records."""
    with accepted.open("rb") as lines, target.open("wb") as file:
        file.writelines(_lines(run, map(orjson.loads, lines), target.parent))


def _lines(run: RunFolder, records: Iterator[Json], folder: Path) -> Iterator[bytes]:
    find = parts_by_id(open_work(run), folder, _raw_answers)
    for record in records:
        if "graphlet_id" not in record:
            raise InputError(f"{record['id']} is no graphlet", "this format is for graphlets alone")
        row, item = find(record["provenance"]["anchor"]["id"])
        yield orjson.dumps(_published(row, record, item)) + b"\n"


def _raw_answers(anchor: Json, item: Json) -> Json:
    """The raw answers of an item by step."""
    return {"trace": [{"step": entry["step"], "text": entry["text"]} for entry in item["trace"]]}


def _published(row: int, record: Json, item: Json) -> Json:
    """The published form of an accepted record; `row` is its anchor's row in anchors.h5, `item` holds the raw answers.

    `text` is the last answer of the first step that wrote, `filtering_text` that of the first judge; else empty.
    """
    names, verdicts = [node["name"] for node in record["nodes"]], record["verdicts"]
    last = {entry["step"]: str(entry["text"]) for entry in item["trace"]}
    writers = [step for step in record["provenance"]["attempts"] if step not in verdicts]
    return {
        "id": row,
        "nodes": [node["id"] for node in record["nodes"]],
        "edges": record["edges"],
        "graphlet_id": record["graphlet_id"],
        "edge_labels": record["edge_labels"],
        "node_names": names,
        "graphlet_text": [f" - {i}: {name} \n" for i, name in enumerate(names)],
        "num_nodes": len(names),
        "graphlet_index": _ORDINAL[record["graphlet_id"]],
        "text": next((last[step] for step in writers if step in last), ""),
        "question": record["question"],
        "answer": record["answer"],
        "json_parsed": True,
        "filtering_text": next((last[step] for step in verdicts if step in last), ""),
    }
