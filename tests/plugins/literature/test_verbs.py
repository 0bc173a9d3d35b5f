"""The verbs about documents, as a user calls them."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.command import kgqa
from tests.plugins.literature.builders import medline, record
from tests.record_runs import jsonl


@pytest.fixture
def index(tmp_path: Path) -> Path:
    records = record(11, "Cats \x85 purr", "The cat."), record(22, "Dogs bark", "A dog, a cat.")
    path = medline(tmp_path / "a.xml.gz", *records)
    kgqa("index", "build", tmp_path / "index", path, "--workers", 1)
    return tmp_path / "index"


def test_building_reports_counts_cost_and_projection(tmp_path: Path) -> None:
    path = medline(tmp_path / "a.xml", record(1, "x"), record(2, "y"))
    build = partial(kgqa, "index", "build", tmp_path / "index", path, "--shards", 2)
    found = json.loads(build("--json").stdout)
    assert found["counts"]["documents"] == 2
    assert found["parameters"]["shards"] == 2
    assert found["projection"]["documents"] == 38_000_000
    assert "38,000,000" in build().stdout


def test_a_file_of_queries_is_answered_in_its_order(index: Path, tmp_path: Path) -> None:
    rows = [{"id": "b", "query": "dog"}, {"id": 1, "query": "nothing"}, {"query": "cats"}]
    asked = jsonl(tmp_path / "queries.jsonl", rows)
    lines = kgqa("index", "search", index, "--queries", asked, "--json").stdout.splitlines()
    answers = [json.loads(line) for line in lines]
    names = [(answer["id"], answer["query"]) for answer in answers]
    assert names == [("b", "dog"), ("1", "nothing"), ("3", "cats")]
    assert [[hit["id"] for hit in answer["hits"]] for answer in answers] == [["22"], [], ["11"]]
    assert set(answers[0]["hits"][0]) == {"id", "score"}


def test_what_is_printed_for_people_moves_no_cursor(index: Path) -> None:
    assert "Cats   purr" in kgqa("index", "search", index, "purr").stdout
    assert kgqa("index", "search", index, "zebra").stdout == "no document has a word of the query\n"


@pytest.mark.parametrize("arguments", [[], ["x", "--queries", "y.jsonl"], ["--queries", "missing.jsonl"]])
def test_a_search_that_asks_nothing_or_twice_is_refused(index: Path, arguments: list[str]) -> None:
    kgqa("index", "search", index, *arguments, code=2)


def test_mentions_are_printed_for_every_document_and_what_was_dropped_is_counted(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "title": "On TP53", "text": "β: p53 binds p53."},
        {"id": "b", "title": "", "text": "A cat, a CAT, DNA."},
    ]
    documents = jsonl(tmp_path / "a.jsonl", rows)
    (tmp_path / "names.tsv").write_text("protein_name\tgene_names\nTumor antigen p53\tTP53 P53 CAT T DNA\n")
    result = kgqa("mentions", documents, "--names", tmp_path / "names.tsv", "--json")
    spans = {"a": [(3, 6, "p53"), (13, 16, "p53")], "b": [(9, 12, "CAT")]}
    keys = ("start", "end", "text")
    mentions = {name: [dict(zip(keys, span, strict=True)) for span in spans[name]] for name in spans}
    title = [{"start": 3, "end": 7, "text": "TP53"}]
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"id": "a", "mentions": mentions["a"], "title_mentions": title},
        {"id": "b", "mentions": mentions["b"], "title_mentions": []},
    ]
    assert json.loads(result.stderr.splitlines()[-1]) == {
        "documents": 2,
        "names": {"read": 6, "kept": 4, "dropped": {"too short": 1, "stop word": 1}},
        "mentions": {"found": 4, "dropped": {"case": 1}},
    }
