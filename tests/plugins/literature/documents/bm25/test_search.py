"""The k best documents: the same as an independent BM25 finds, whatever the number of shards."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.plugins.literature.bm25 import terms
from kgqa_hpc.plugins.literature.bm25.search import Bm25Index
from kgqa_hpc.plugins.literature.documents.read import read_documents
from tests.plugins.literature.documents.files import index, jsonl

SEED = 20261122
WORDS = [f"w{number}" for number in range(300)] + ["the", "of", "p53", "naïve", "β"]


def build(target: Path, *documents: Path, shards: int = 1, stem: bool = False) -> Bm25Index:
    return Bm25Index(index(target, *documents, shards=shards, stem=stem))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Bm25Index]]:
    """3,000 documents of very different lengths, Zipf's words, in one, two and seven shards."""
    print("seed", SEED)
    rng, folder = random.Random(SEED), tmp_path_factory.mktemp("made")
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    rows = [
        {"id": f"d{n}", "title": "", "text": " ".join(rng.choices(WORDS, weights, k=rng.randrange(1, 200)))}
        for n in range(3000)
    ]
    path = jsonl(folder / "made.jsonl", rows)
    return path, {shards: build(folder / str(shards), path, shards=shards) for shards in (1, 2, 7)}


def _queries(number: int, rng: random.Random) -> list[str]:
    return [" ".join(rng.choices(WORDS, k=rng.randrange(1, 12))) for _ in range(number)]


@pytest.mark.parametrize("shards", [2, 7])
def test_ranks_and_scores_do_not_depend_on_the_number_of_shards(made, shards: int) -> None:
    _, indexes = made
    for query in _queries(300, random.Random(SEED)):
        one = [(hit.id, hit.score) for hit in indexes[1].search(query)]
        other = [(hit.id, hit.score) for hit in indexes[shards].search(query)]
        assert one == other, query


def test_the_ten_best_are_those_of_an_independent_bm25_over_the_same_terms(made) -> None:
    bm25s = pytest.importorskip("bm25s", reason="NO ORACLE: bm25s is not installed")
    path, indexes = made
    analyzer = terms.analyzer(stem=False)
    documents = list(read_documents([path]))
    oracle = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    oracle.index([analyzer.analyze(document.searchable) for document in documents], show_progress=False)
    shared = total = 0
    for query in _queries(300, random.Random(SEED + 1)):
        wanted = analyzer.analyze(query)
        if not wanted:
            continue
        found, scores = oracle.retrieve([wanted], k=10, show_progress=False)
        theirs = {documents[n].id for n, score in zip(found[0], scores[0], strict=True) if score > 0}
        shared += len(theirs & {hit.id for hit in indexes[7].search(query)})
        total += len(theirs)
    assert shared / total >= 0.99


def test_scores_are_those_of_the_formula(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "text": "cat cat dog"},
        {"id": 2, "text": "dog"},
        {"id": 3, "text": "bird bird bird bird"},
    ]
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


def test_a_document_is_found_by_its_id_in_any_shard(made) -> None:
    _, indexes = made
    found = indexes[7].document("d123")
    assert found is not None
    assert found == indexes[1].document("d123")
    assert indexes[7].document("nobody") is None


def test_an_open_index_has_nothing_in_the_temporary_folder_that_a_kill_could_leave_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    target = tmp_path / "i"
    build(target, jsonl(tmp_path / "a.jsonl", [{"id": n, "text": f"cat {n}"} for n in range(50)]), shards=4)
    opened = [Bm25Index(target) for _ in range(5)]
    assert not list(tmp_path.glob("kgqa-shard-*"))
    assert all(len(index.search("cat", 50)) == 50 for index in opened)
    assert opened[0].document("7")


def test_searching_writes_nothing_into_the_index(tmp_path: Path) -> None:
    target = tmp_path / "i"
    index = build(target, jsonl(tmp_path / "a.jsonl", [{"id": 1, "text": "cat"}]), shards=2)
    before = {path: path.stat().st_mtime_ns for path in [target, *target.rglob("*")]}
    assert index.search("cat")
    assert Bm25Index(target).document("1")
    assert before == {path: path.stat().st_mtime_ns for path in [target, *target.rglob("*")]}


def test_a_document_is_the_first_hit_of_its_own_title(sample: Path, tmp_path: Path) -> None:
    index = build(tmp_path / "i", sample, shards=3)
    documents = [document for document in read_documents([sample]) if document.title]
    first = sum(index.search(document.title, 1)[0].id == document.id for document in documents)
    assert first / len(documents) >= 0.97


@pytest.mark.slow
def test_a_thousand_real_queries_have_the_same_ten_documents_everywhere(wheel: Path, tmp_path: Path) -> None:
    bm25s = pytest.importorskip("bm25s", reason="NO ORACLE: bm25s is not installed")
    print("seed", SEED)
    path, rng = wheel / "data" / "pubmed21n1298.xml.gz", random.Random(SEED)
    documents = list(read_documents([path]))
    one, two, seven = (build(tmp_path / str(shards), path, shards=shards) for shards in (1, 2, 7))
    analyzer = terms.analyzer(stem=False)
    oracle = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    oracle.index([analyzer.analyze(document.searchable) for document in documents], show_progress=False)
    chosen = rng.sample([document for document in documents if len(document.text) > 300], 1000)
    same = itself = 0
    for number, document in enumerate(chosen):
        query = document.title if number % 2 else " ".join(rng.sample(document.text.split(), 12))
        found = [hit.id for hit in one.search(query)]
        for other in (two, seven):
            assert found == [hit.id for hit in other.search(query)], query
        theirs, _ = oracle.retrieve([analyzer.analyze(query)], k=10, show_progress=False)
        same += len({documents[n].id for n in theirs[0]} & set(found))
        itself += number % 2 and document.id in found
    assert same >= 0.99 * 10 * 1000
    assert itself >= 0.99 * 500
