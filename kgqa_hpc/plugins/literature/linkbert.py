"""Exports for LinkBERT's fine-tuning scripts: multiple choice (MedQA) and yes, no or maybe (PubMedQA).

JSON Lines in SPLIT.json, as in LinkBERT's data/mc/medqa_usmle_hf and data/seqcls/pubmedqa_hf. The scripts need the
splits train, dev and test (`dataset.split`).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.dataset.files import TRAIN, ExportSource
from kgqa_hpc.errors import InputError

Line = Callable[[str, int, dict[str, Any]], dict[str, Any]]
_BESIDE_ENDINGS = ("id", "sent1", "sent2", "label")


class LinkbertMedqa:
    """Lines with id, sent1 (question), sent2 (empty), ending0 … ending4, and label (number of the right ending)."""

    name = "linkbert-medqa"

    def write(self, source: ExportSource, folder: Path) -> None:
        """Raises InputError for records without options or with different numbers of options.

        LinkBERT's loader expects the endings of train.json in every record and reads a missing one as "None".
        """
        numbers = {len(line) - len(_BESIDE_ENDINGS) for _, line in _written(source, folder, self._line)}
        if len(numbers) > 1:
            many = " and ".join(map(str, sorted(numbers)))
            raise InputError(f"records have {many} options", "export those with one number of options")

    def _line(self, split: str, number: int, record: dict[str, Any]) -> dict[str, Any]:
        options, label = record.get("options"), record.get("correct_option")
        if not options or label is None or not 0 <= label < len(options):
            problem = f"{record['id']} has no options with a right one"
            raise InputError(problem, "the step rephrase_medqa adds them")
        endings = {f"ending{position}": option for position, option in enumerate(options)}
        texts = {"id": f"{split}-{number:05d}", "sent1": record["question"], "sent2": ""}
        return {**texts, **endings, "label": label}


class LinkbertPubmedqa:
    """Lines with id, sentence1 (question), sentence2 (context), and label (yes, no or maybe)."""

    name = "linkbert-pubmedqa"

    def write(self, source: ExportSource, folder: Path) -> None:
        """Raises InputError for records without a decision, or for a decision that no record of train has.

        LinkBERT's loader numbers the labels of train.json and fails at any other.
        """
        labels = {(split, line["label"]) for split, line in _written(source, folder, self._line)}
        if missing := {label for _, label in labels if (TRAIN, label) not in labels}:
            problem = f"no record of train says {' or '.join(sorted(missing))}"
            raise InputError(problem, "a larger share of train, or more records")

    def _line(self, split: str, number: int, record: dict[str, Any]) -> dict[str, Any]:
        if not record.get("final_decision"):
            raise InputError(f"{record['id']} has no yes, no or maybe", "the step rephrase_pubmedqa adds it")
        texts = {"sentence1": record["question"], "sentence2": record["context"]}
        return {"id": record["id"], **texts, "label": record["final_decision"]}


def _written(source: ExportSource, folder: Path, line_of: Line) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write the file of each part of the split; yields the part and the line of every record."""
    for split in source.splits:
        with (folder / f"{split}.json").open("wb") as file:
            for number, record in enumerate(source.records(split)):
                line = line_of(split, number, record)
                file.write(orjson.dumps(line) + b"\n")
                yield split, line
