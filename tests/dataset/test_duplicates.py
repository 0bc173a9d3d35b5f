"""Repeated questions are found, exact ones and near ones, and nothing else is."""

import random
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.config import parse_config
from kgqa_hpc.dataset import duplicates
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.candidates import repeated
from kgqa_hpc.dataset.duplicates import band_shape, grams_of_words, near_duplicates, words
from kgqa_hpc.dataset.filters import apply_filters
from tests.runs import CONFIG

SEED = 20261122


def sentence(rng: random.Random, length: int = 30) -> list[str]:
    return ["".join(rng.choices("abcdefghij", k=rng.randint(3, 9))) for _ in range(length)]


@cache  # each question is compared with hundreds
def grams_of(text: str) -> set[str]:
    return set(grams_of_words(" ".join(words(text))))


def jaccard(one: str, other: str) -> float:
    return len(grams_of(one) & grams_of(other)) / len(grams_of(one) | grams_of(other))


def near(folder: Path, rows_of: Any, questions: list[str], threshold: float = 0.8) -> list[int]:
    rows = rows_of(folder, [{"question": q} for q in questions], near=threshold)
    return near_duplicates(rows.staged, rows.accepted, threshold, folder).tolist()


def test_case_punctuation_and_line_breaks_hide_no_repetition(tmp_path: Path, rows_of: Any) -> None:
    questions = ["What is BRCA1?", "Which one?", "what  is\nbrca1", "WHAT IS “BRCA1” ?", "which two?"]
    rows = rows_of(tmp_path, [{"question": q} for q in questions], shard=2)
    assert rows.rows(repeated("status = 'accepted'")).tolist() == [2, 3]


def planted(rng: random.Random) -> list[str]:
    """200 questions; every fifth also with one word changed, every seventh with half of them changed."""
    questions = []
    for number in range(200):
        words = sentence(rng)
        questions.append(" ".join(words))
        if number % 5 == 0:
            near = [*words]
            near[rng.randrange(len(near))] = "changed"
            questions.append(" ".join(near))
        if number % 7 == 0:
            questions.append(" ".join(words[:15] + sentence(rng, 15)))
    return questions


def test_near_duplicates_are_exactly_those_that_all_pairs_compared_give(tmp_path: Path, rows_of: Any) -> None:
    pytest.importorskip("rensa")
    print("seed", SEED)
    questions = planted(random.Random(SEED))
    found = near(tmp_path, rows_of, questions)
    expected = [
        later
        for later in range(len(questions))
        if any(jaccard(questions[earlier], questions[later]) >= 0.8 for earlier in range(later))
    ]
    assert len(expected) == 40
    assert found == expected


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text("ab", max_size=30), max_size=12), st.sampled_from([0.3, 0.5, 0.75, 0.8, 0.9, 1.0]))
def test_leaders_found_by_rare_grams_are_those_of_all_comparisons(texts: list[str], threshold: float) -> None:
    bucket = list(range(len(texts)))

    def grams(question: int) -> set[str]:
        return set(grams_of_words(texts[question]))

    def similar(earlier: int, later: int) -> bool:
        one, other = grams(earlier), grams(later)
        return len(one & other) / len(one | other) >= threshold

    small = duplicates.leaders_of(bucket, grams, similar, threshold)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "FEW", -1)
        patch.setattr(duplicates, "COMMON", 1)
        assert duplicates.leaders_of(bucket, grams, similar, threshold) == small
        patch.setattr(duplicates, "FEW", 1)
        patch.setattr(duplicates, "COMMON", 3)
        assert duplicates.leaders_of(bucket, grams, similar, threshold) == small


@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.8, 0.9, 0.95])
def test_bands_miss_less_than_one_of_a_thousand_pairs_at_the_threshold(threshold: float) -> None:
    bands, height = band_shape(threshold)
    assert bands * height <= 128
    assert (1 - threshold**height) ** bands <= 1e-3


def test_no_question_is_its_own_duplicate_and_none_of_none(tmp_path: Path, rows_of: Any) -> None:
    pytest.importorskip("rensa")
    assert near(tmp_path, rows_of, []) == near(tmp_path, rows_of, ["?"]) == []


@pytest.mark.parametrize("text", ["", "a", "gene", "five!", "Ünïcödé 日本語の質問 𝔸𝔹𝔾 ñ", "tab\tand\nline"])
def test_grams_are_the_slices_of_the_words(text: str) -> None:
    plain = " ".join(words(text))
    assert grams_of(text) == ({plain[i : i + 5] for i in range(len(plain) - 4)} or {plain})


def test_the_search_holds_few_numbers_of_a_question_however_alike(tmp_path: Path, rows_of: Any) -> None:
    pytest.importorskip("rensa")
    base = " ".join(sentence(random.Random(SEED)))
    peaks = []
    for size in (500, 3000):
        rows = rows_of(tmp_path, [{"question": f"{base} {i}"} for i in range(size)], shard=500, near=0.9)
        tracemalloc.start()
        found = near_duplicates(rows.staged, rows.accepted, 0.9, tmp_path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(found) > size / 2
    print(peaks)
    assert peaks[1] - peaks[0] < 2500 * 600  # grams take 20,000 bytes of each


@pytest.mark.parametrize("exact", [True, False])
def test_the_search_is_spared_what_is_the_same_word_for_word(
    tmp_path: Path, rows_of: Any, monkeypatch: pytest.MonkeyPatch, exact: bool
) -> None:
    pytest.importorskip("rensa")
    texts = [" ".join(sentence(random.Random(number))) for number in range(3)]
    questions = [*texts, texts[0].upper(), f"{texts[1]} x", texts[0], f"{texts[1]} x?", texts[0]]
    rows = rows_of(tmp_path, [{"question": q} for q in questions], near=0.9)
    compared: list[int] = []
    hashes = duplicates._hashes
    monkeypatch.setattr(
        duplicates, "_hashes", lambda of, rows, band: compared.append(len(rows)) or hashes(of, rows, band)
    )
    wish = {"duplicates": {"exact": exact, "near": 0.9}}
    config = parse_config({**CONFIG, "dataset": wish}, "test")
    accounting = Accounting(shards=1, missing_shards=0)
    apply_filters(rows, config.dataset, 0, tmp_path, accounting)
    assert set(compared) == {4}
    assert rows.accepted.tolist() == [0, 1, 2]
    found = accounting.filters["duplicates"]
    assert (found.get("duplicate"), found["near duplicate"]) == ((4, 1) if exact else (None, 5))


def test_a_merge_counts_near_duplicates(merged: Any, make_merged: Any) -> None:
    pytest.importorskip("rensa")
    before = merged[1].total
    _, accounting = make_merged(dataset={"duplicates": {"near": 0.5}})
    found = accounting.total.rejected["near duplicate"]
    assert found > 0
    assert accounting.total.accepted == before.accepted - found
    assert accounting.filters["duplicates"]["near duplicate"] == found
