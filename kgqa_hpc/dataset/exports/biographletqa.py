"""The 14 fields of the published BioGraphletQA records.

`id` is the graphlet's position in the shuffled sample, `graphlet_index` the ordinal of its shape within its size, as
the authors' code numbers them. docs/guide/dataset.md names the differences. `text` and
`filtering_text` are the raw answers of the models, which only the run's results contain.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.dataset.exports.items import ItemsById, items_of
from kgqa_hpc.dataset.exports.source import ExportSource
from kgqa_hpc.dataset.read import open_work
from kgqa_hpc.errors import InputError
from kgqa_hpc.store.run_folder import RunFolder

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


def _lines(run: RunFolder, records: Iterator[dict[str, Any]], folder: Path) -> Iterator[bytes]:
    work = open_work(run)
    # Without an order of its own, the dataset is in the order of the sample: one pass over the results.
    by_id = None if work.config.dataset.order is None else ItemsById(work, folder, _raw_answers)
    in_order = items_of(work)
    for record in records:
        if "graphlet_id" not in record:
            raise InputError(f"{record['id']} is no graphlet", "this format is for graphlets alone")
        anchor = record["provenance"]["anchor"]["id"]
        if by_id is not None:
            row, item = by_id.find(anchor)
        else:
            row, _, item = next((entry for entry in in_order if entry[2]["id"] == anchor), (-1, {}, {}))
        if not item:
            raise InputError(
                f"{anchor} does not stand in the order of the sample",
                "merge again, with dataset.order as it is",
            )
        yield orjson.dumps(_published(row, record, item)) + b"\n"


def _raw_answers(anchor: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    """The raw answers of an item by step."""
    return {"trace": [{"step": entry["step"], "text": entry["text"]} for entry in item["trace"]]}


def _published(row: int, record: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    """The published form of an accepted record; `row` is its anchor's row in anchors.h5, `item` holds the raw
    answers.
    """
    names = [node["name"] for node in record["nodes"]]
    steps = list(record["provenance"]["attempts"])
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
        "text": _raw_text(item, [step for step in steps if step not in record["verdicts"]]),
        "question": record["question"],
        "answer": record["answer"],
        "json_parsed": True,
        "filtering_text": _raw_text(item, list(record["verdicts"])),
    }


def _raw_text(item: dict[str, Any], steps: list[str]) -> str:
    """The model's text in the last request of the first of these `steps` that ran; empty when none ran."""
    for step in steps:
        for entry in reversed(item["trace"]):
            if entry["step"] == step:
                return str(entry["text"])
    return ""
