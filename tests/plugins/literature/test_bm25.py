"""The k best documents: the same as an independent BM25 finds, whatever the number of shards."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.plugins.literature.bm25 import Bm25Index, analyzer
from kgqa_hpc.plugins.literature.read import read_documents
from tests.plugins.literature.builders import index
from tests.record_runs import jsonl

SEED = 20261122
WORDS = [f"w{number}" for number in range(300)] + ["the", "of", "p53", "naïve", "β"]


def build(target: Path, *documents: Path, shards: int = 1, stem: bool = False) -> Bm25Index:
    return Bm25Index(index(target, *documents, shards=shards, stem=stem))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Bm25Index]]:
    """1,000 documents of very different lengths, Zipf's words, in one, two and seven shards."""
    print("seed", SEED)
    rng, folder = random.Random(SEED), tmp_path_factory.mktemp("made")
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    rows = [
        {"id": f"d{n}", "title": "", "text": " ".join(rng.choices(WORDS, weights, k=rng.randrange(1, 200)))}
        for n in range(1000)
    ]
    path = jsonl(folder / "made.jsonl", rows)
    return path, {shards: build(folder / str(shards), path, shards=shards) for shards in (1, 2, 7)}


def _queries(number: int, rng: random.Random) -> list[str]:
    return [" ".join(rng.choices(WORDS, k=rng.randrange(1, 12))) for _ in range(number)]


@pytest.mark.parametrize("shards", [2, 7])
def test_ranks_and_scores_do_not_depend_on_the_number_of_shards(made, shards: int) -> None:
    _, indexes = made
    for query in _queries(100, random.Random(SEED)):
        one = [(hit.id, hit.score) for hit in indexes[1].search(query)]
        other = [(hit.id, hit.score) for hit in indexes[shards].search(query)]
        assert one == other, query


def test_the_ten_best_are_those_of_an_independent_bm25_over_the_same_terms(made) -> None:
    bm25s = pytest.importorskip("bm25s", reason="NO ORACLE: bm25s is not installed")
    path, indexes = made
    documents, tokenizer = list(read_documents([path])), analyzer(stem=False)
    oracle: Any = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    oracle.index([tokenizer.analyze(document.searchable) for document in documents], show_progress=False)
    shared = total = 0
    for query in _queries(100, random.Random(SEED + 1)):
        if not (words := tokenizer.analyze(query)):
            continue
        numbers, scores = oracle.retrieve([words], k=10, show_progress=False)
        theirs = {documents[n].id for n, score in zip(numbers[0], scores[0], strict=True) if score > 0}
        shared += len(theirs & {hit.id for hit in indexes[7].search(query)})
        total += len(theirs)
    assert shared / total >= 0.99


def test_scores_are_those_of_the_formula(tmp_path: Path) -> None:
    texts = ("cat cat dog", "dog", "bird bird bird bird")
    rows = [{"id": number, "text": text} for number, text in enumerate(texts, 1)]
    index = build(tmp_path / "i", jsonl(tmp_path / "a.jsonl", rows), shards=2)
    (hit,) = index.search("cat")
    idf, average = 0.9808292530117262, 8 / 3  # ln(1 + 2.5 / 1.5)
    assert hit.score == pytest.approx(idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / average)), abs=1e-6)


@pytest.mark.parametrize("shards", [1, 3])
def test_equal_scores_go_by_id_however_many_there_are(tmp_path: Path, shards: int) -> None:
    rows = [{"id": f"{n:03d}", "text": "the same words"} for n in random.Random(SEED).sample(range(200), 200)]
    index = build(tmp_path / "i", jsonl(tmp_path / "a.jsonl", rows), shards=shards)
    assert [hit.id for hit in index.search("same")] == [f"{n:03d}" for n in range(10)]


@given(query=st.text(max_size=80))
def test_a_query_is_text_and_never_a_syntax(made, query: str) -> None:
    _, indexes = made
    for text in (f"w7 {query}", f'"w7 AND (w8:* {query}'):
        assert indexes[1].search(text), text


def test_stop_words_of_a_query_find_nothing(made) -> None:
    _, indexes = made
    assert indexes[2].search("the of and") == []
    assert indexes[2].search("") == []


def test_words_are_cut_to_their_stems_only_when_asked_for(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"id": 1, "text": "Mutations were found"}])
    assert build(tmp_path / "plain", path).search("mutation") == []
    assert [hit.id for hit in build(tmp_path / "stem", path, stem=True).search("mutation")] == ["1"]


def test_searching_writes_nothing_that_stays_into_the_index_or_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links in the temporary folder go as soon as a shard is open, so a killed search leaves none there."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    target = tmp_path / "i"
    build(target, jsonl(tmp_path / "a.jsonl", [{"id": n, "text": f"cat {n}"} for n in range(50)]), shards=4)
    before = {path: path.stat().st_mtime_ns for path in [target, *target.rglob("*")]}
    opened = [Bm25Index(target) for _ in range(5)]
    assert not list((tmp_path / "temporary").iterdir())
    assert all(len(index.search("cat", 50)) == 50 for index in opened)
    assert before == {path: path.stat().st_mtime_ns for path in [target, *target.rglob("*")]}
