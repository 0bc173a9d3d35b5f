"""LinkBERT's exports, read as its run_multiple_choice.py and run_seqcls.py read their files.

Both open the three files with load_dataset. The one counts the columns of train whose names begin with `ending`, pairs
sent1 with sent2, a blank and each ending, and takes `int(label)` for the number of the right one. The other sorts the
different labels of train and numbers them in that order.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.dataset.exports import EXPORTS
from kgqa_hpc.dataset.files import ExportSource
from kgqa_hpc.errors import InputError
from kgqa_hpc.store.run_folder import RunFolder

PARTS = ("train", "dev", "test")


def exported(folder: Path, format: str, records: Iterable[dict[str, Any]]) -> Path:
    """These records as a dataset in three parts, in this form."""
    (folder / "dataset").mkdir()
    (folder / "out").mkdir()
    lines = (json.dumps({"id": f"r{n}", "split": PARTS[n % 3]} | record) for n, record in enumerate(records))
    (folder / "dataset" / "accepted.jsonl").write_text("".join(f"{line}\n" for line in lines))
    EXPORTS.get(format)().write(ExportSource(RunFolder(folder), PARTS), folder / "out")
    return folder / "out"


def loaded(folder: Path) -> Any:
    import datasets

    names = zip(("train", "validation", "test"), PARTS, strict=True)
    files = {name: str(folder / f"{part}.json") for name, part in names}
    return datasets.load_dataset("json", data_files=files, cache_dir=str(folder / "cache"))


def choices(number: int, options: int = 5) -> dict[str, Any]:
    texts = [f"option {place} of {number}" for place in range(options)]
    return {"question": f"Which of {number}?", "options": texts, "correct_option": number % options}


def decision(word: str, number: int = 0) -> dict[str, Any]:
    return {"question": f"Is it {number}?", "context": f"It is {number}.", "final_decision": word}


def test_multiple_choice_is_read_with_every_right_ending_where_its_label_says(tmp_path: Path) -> None:
    data = loaded(exported(tmp_path, "linkbert-medqa", map(choices, range(60))))
    endings = [name for name in data["train"].features if name.startswith("ending")]
    assert endings == [f"ending{n}" for n in range(5)]
    seen = {part: set() for part in data}
    for part, rows in data.items():
        for row in rows:
            pairs = [(row["sent1"], f"{row['sent2']} {row[ending]}") for ending in endings]
            number = int(row["sent1"].removeprefix("Which of ").removesuffix("?"))
            label = int(row["label"])
            assert pairs[label] == (f"Which of {number}?", f" option {number % 5} of {number}")
            seen[part].add(label)
    assert all(labels == {0, 1, 2, 3, 4} for labels in seen.values())


def test_decisions_get_the_numbers_that_the_benchmarks_own_file_gives_them(tmp_path: Path) -> None:
    words = ("yes", "no", "maybe")
    records = (decision(words[n // 3 % 3], n) for n in range(36))
    data = loaded(exported(tmp_path, "linkbert-pubmedqa", records))
    labels = sorted(data["train"].unique("label"))
    assert labels == ["maybe", "no", "yes"]
    assert {"sentence1", "sentence2"} <= set(data["train"].column_names)
    for part in data.values():
        for row in part:
            number = int(row["sentence1"].removeprefix("Is it ").removesuffix("?"))
            assert row["sentence2"] == f"It is {number}."
            assert labels.index(row["label"]) == labels.index(words[number // 3 % 3])


@pytest.mark.parametrize(
    ("format", "records", "message"),
    [
        ("linkbert-medqa", [choices(0), decision("yes")], "r1 has no options with a right one"),
        ("linkbert-pubmedqa", [choices(0)], "r0 has no yes, no or maybe"),
        # The loader would read the text "None" for the fifth option of an item with four.
        ("linkbert-medqa", [choices(0), choices(1), choices(2, options=4)], "records have 4 and 5 options"),
        # The loader numbers the labels of train, and stops at another one.
        ("linkbert-pubmedqa", map(decision, ("yes", "maybe", "no", "no")), "no record of train says maybe"),
    ],
)
def test_records_of_another_shape_and_what_the_loader_would_misread_are_refused(
    tmp_path: Path, format: str, records: Iterable[dict[str, Any]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        exported(tmp_path, format, records)
