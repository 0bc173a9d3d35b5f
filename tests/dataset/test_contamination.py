"""A record that contains a test item is found however it was wrapped, and no other is."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pandas
import pytest

from kgqa_hpc.config.sections import EvaluationSet
from kgqa_hpc.dataset.contamination import contaminated, read_test_sets
from kgqa_hpc.dataset.duplicates import words
from kgqa_hpc.errors import InputError
from tests.dataset.conftest import records_of
from tests.record_runs import jsonl

SEED = 7
LONG = (
    "A 45-year-old woman presents with fatigue, weight gain and cold intolerance over the last six months; "
    "which of the following is the most likely cause of her symptoms?"
)
SHORT = "Is aspirin safe in pregnancy?"


def hits(
    tmp_path: Path, rows_of: Any, records: list[dict[str, Any]], items: list[dict[str, Any]]
) -> list[int]:
    tests = read_test_sets([str(jsonl(tmp_path / "test.jsonl", items))])
    return contaminated(rows_of(tmp_path, records), tests, 13).tolist()


def test_thirteen_words_of_an_item_are_found_however_wrapped_not_twelve(tmp_path: Path, rows_of: Any) -> None:
    part = " ".join(LONG.split()[4:17])
    records = [
        {"question": f"Consider this: {LONG}"},
        {"question": LONG.upper().replace(" ", "\n")},
        {"question": "Fine.", "answer": f"As they say: {part.replace(',', '')}!"},
        {"question": "… is ASPIRIN,\nsafe in   pregnancy — or not?"},
        {"question": "Is aspirin safe in early pregnancy?"},
        {"question": " ".join(LONG.split()[4:12])},
        *({"question": "x " + " ".join(words(LONG)[3 : 3 + number]) + " y"} for number in (11, 12, 13, 14)),
        {"question": LONG.replace("a", "a\u00ad").replace("e", "\u200be")},  # signs that nobody sees
    ]
    items = [{"question": LONG}, {"question": SHORT}]
    assert hits(tmp_path, rows_of, records, items) == [0, 1, 2, 3, 8, 9, 10]


def test_long_answers_count_and_no_window_spans_question_and_answer(tmp_path: Path, rows_of: Any) -> None:
    plain = words(LONG)
    records = [
        {"question": " ".join(plain[:7]), "answer": " ".join(plain[7:15])},
        {"question": "Why?", "answer": " ".join(plain[:15])},
    ]
    assert hits(tmp_path, rows_of, records, [{"QUESTION": "What then?", "LONG_ANSWER": LONG}]) == [1]


def test_every_planted_item_is_found_and_nothing_else(tmp_path: Path, rows_of: Any) -> None:
    print("seed", SEED)
    rng = random.Random(SEED)
    vocabulary = ["".join(rng.choices("abcdefghij", k=4)) for _ in range(300)]
    items = [{"question": " ".join(rng.choices(vocabulary, k=rng.randint(5, 40)))} for _ in range(50)]
    records, planted = [], []
    for number in range(300):
        text = rng.choices(vocabulary, k=30)
        if number % 3 == 0:
            item = words(rng.choice(items)["question"])
            start = rng.randint(0, max(0, len(item) - 13))
            text[10:10] = item[start : start + 13]
            planted.append(number)
        records.append({"question": " ".join(text)})
    assert hits(tmp_path, rows_of, records, items) == planted


def test_fields_are_guessed_or_named_and_parquet_is_read(tmp_path: Path, rows_of: Any) -> None:
    path = tmp_path / "test.parquet"
    pandas.DataFrame({"number": [1], "stem": [LONG]}).to_parquet(path)
    with pytest.raises(InputError, match="no field for the question among number, stem"):
        read_test_sets([str(path)])
    (tests,) = read_test_sets([EvaluationSet(path=str(path), question="stem")])
    assert contaminated(rows_of(tmp_path, [{"question": LONG}]), [tests], 13).tolist() == [0]


@pytest.mark.parametrize("name", ["test.jsonl", "test.jsonl.gz", "test.json", "test.json.gz"])
def test_packed_files_and_byte_order_marks_are_read(tmp_path: Path, rows_of: Any, name: str) -> None:
    items = [{"question": LONG}]
    text = json.dumps(items) if ".json." in f"{name}." else "".join(f"{json.dumps(one)}\n" for one in items)
    data = b"\xef\xbb\xbf" + text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    tests = read_test_sets([str(tmp_path / name)])
    assert contaminated(rows_of(tmp_path, [{"question": LONG}]), tests, 13).tolist() == [0]


def test_items_without_text_are_counted_and_a_set_of_them_is_refused(tmp_path: Path, rows_of: Any) -> None:
    """Else a test set whose items are called otherwise than the first one would be searched for nothing."""
    items = [{"question": None}, {"question": LONG}, {"query": LONG}, {"question": "Why so?"}]
    (tests,) = read_test_sets([str(jsonl(tmp_path / "test.jsonl", items))])
    assert (tests.question, tests.answer, tests.left_aside(13)) == ("question", None, 3)
    nested = str(jsonl(tmp_path / "nested.jsonl", [{"question": {"stem": LONG}}] * 2))
    (tests,) = read_test_sets([EvaluationSet(path=nested, question="question")])
    with pytest.raises(InputError, match=r"nested.jsonl: no item has 3 words in 'question'"):
        contaminated(rows_of(tmp_path, [{"question": LONG}]), [tests], 13)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("bad.jsonl", '{"question": "A b c?"}\n{oops\n', r"bad.jsonl line 2: not JSON"),
        ("bad.json", "{oops", r"bad.json: not JSON"),
        ("bad.parquet", "PAR1", r"bad.parquet: not Parquet, or damaged"),
        ("empty.jsonl", "\n", "is empty"),
        ("list.json", "[[1]]", "list.json item 1: is no object with fields"),
        ("nothing.json", "[]", "nothing.json: holds no test item"),
        ("none.jsonl", None, "no such file"),
    ],
)
def test_unreadable_text_is_told_by_its_line(tmp_path: Path, name: str, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=words):
        read_test_sets([str(tmp_path / name)])


def test_a_merge_rejects_them_under_their_reason(make_merged: Any, tmp_path: Path) -> None:
    path = str(jsonl(tmp_path / "test.jsonl", [{"question": "what links the nodes of number 0000"}]))
    run, accounting = make_merged(dataset={"decontaminate": [path]})
    assert accounting.total.rejected["contaminated"] == 1
    rejected = records_of(run.folder.dataset, "rejected")
    assert [record["id"] for record in rejected if record["reason"] == "contaminated"] == [run.ids[0]]
    assert accounting.filters["decontaminate"]["test_sets"] == [
        {"file": "test.jsonl", "question": "question", "answer": None, "items": 1, "left_aside": 0}
    ]
