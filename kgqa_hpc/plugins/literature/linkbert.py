"""Exports for LinkBERT's fine-tuning scripts: multiple choice (MedQA) and yes, no or maybe (PubMedQA).

JSON Lines in SPLIT.json, as in LinkBERT's data/mc/medqa_usmle_hf and data/seqcls/pubmedqa_hf. The scripts need the
splits train, dev and test (`dataset.split`).
"""

from collections.abc import Callable
from operator import itemgetter
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
        numbers = set().union(*_write(source, folder, _medqa, len).values())
        if len(numbers) > 1:
            many = " and ".join(str(number - len(_BESIDE_ENDINGS)) for number in sorted(numbers))
            raise InputError(f"records have {many} options", "export those with one number of options")


class LinkbertPubmedqa:
    """Lines with id, sentence1 (question), sentence2 (context), and label (yes, no or maybe)."""

    name = "linkbert-pubmedqa"

    def write(self, source: ExportSource, folder: Path) -> None:
        """Raises InputError for records without a decision, or for a decision that no record of train has.

        LinkBERT's loader numbers the labels of train.json and fails at any other.
        """
        labels = _write(source, folder, _pubmedqa, itemgetter("label"))
        if missing := set().union(*labels.values()) - labels.get(TRAIN, set()):
            problem = f"no record of train says {' or '.join(sorted(missing))}"
            raise InputError(problem, "a larger share of train, or more records")


def _write(
    source: ExportSource, folder: Path, line: Line, kind: Callable[[dict[str, Any]], Any]
) -> dict[str, set[Any]]:
    """Write one file per part; returns the kinds of lines in each part."""
    kinds: dict[str, set[Any]] = {}
    for split in source.splits:
        kinds_of_split = kinds.setdefault(split, set())
        with (folder / f"{split}.json").open("wb") as file:
            for number, record in enumerate(source.records(split)):
                entry = line(split, number, record)
                kinds_of_split.add(kind(entry))
                file.write(orjson.dumps(entry) + b"\n")
    return kinds


def _medqa(split: str, number: int, record: dict[str, Any]) -> dict[str, Any]:
    options, label = record.get("options"), record.get("correct_option")
    if not options or label is None or not 0 <= label < len(options):
        raise InputError(
            f"{record['id']} has no options with a right one", "the step rephrase_medqa adds them"
        )
    endings = {f"ending{position}": option for position, option in enumerate(options)}
    texts = {"id": f"{split}-{number:05d}", "sent1": record["question"], "sent2": ""}
    return {**texts, **endings, "label": label}


def _pubmedqa(split: str, number: int, record: dict[str, Any]) -> dict[str, Any]:
    if not record.get("final_decision"):
        raise InputError(f"{record['id']} has no yes, no or maybe", "the step rephrase_pubmedqa adds it")
    texts = {"sentence1": record["question"], "sentence2": record["context"]}
    return {"id": record["id"], **texts, "label": record["final_decision"]}
