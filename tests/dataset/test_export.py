"""The published form has the published names, types and order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from kgqa_hpc.dataset.merge import PUBLISHED as FILE
from kgqa_hpc.dataset.merge import merge

PUBLISHED = """
id nodes edges graphlet_id edge_labels node_names graphlet_text num_nodes graphlet_index text question
answer json_parsed filtering_text
"""
REAL = Path(__file__).parents[2] / "../shared/data/shapes/bgqa_real_record.json"


def exported(run: Any) -> list[dict[str, Any]]:
    run.finish()
    merge(run.folder, published=True)
    return [orjson.loads(line) for line in (run.folder.dataset / FILE).read_bytes().split(b"\n")[:-1]]


def test_the_fields_are_those_of_the_published_records(make_run: Any) -> None:
    records = exported(make_run())
    assert all(list(record) == PUBLISHED.split() for record in records)


@pytest.mark.skipif(not REAL.exists(), reason="the published record is not at hand")
def test_names_and_types_equal_a_real_published_record(make_run: Any) -> None:
    real = json.loads(REAL.read_text(encoding="utf-8"))
    ours = exported(make_run())[0]
    assert list(ours) == list(real)
    assert [type(value) for value in ours.values()] == [type(value) for value in real.values()]
    for name in ("nodes", "edges", "edge_labels", "node_names", "graphlet_text"):
        assert type(ours[name][0]) is type(real[name][0])
    assert real["graphlet_text"] == [f" - {i}: {name} \n" for i, name in enumerate(real["node_names"])]
    assert ours["graphlet_text"] == [f" - {i}: {name} \n" for i, name in enumerate(ours["node_names"])]


def test_exactly_the_accepted_pairs_are_exported_with_their_raw_answers(make_run: Any) -> None:
    run = make_run()
    records = exported(run)
    accepted = (run.folder.dataset / "accepted.jsonl").read_bytes().split(b"\n")[:-1]
    assert len(records) == len(accepted)
    for record, line in zip(records, accepted, strict=True):
        twin = orjson.loads(line)
        assert (record["question"], record["edges"]) == (twin["question"], twin["edges"])
        assert json.loads(record["text"])["question"] == record["question"]
        assert json.loads(record["filtering_text"])["valid_question"] is True


def test_a_dataset_in_the_order_of_a_column_is_exported_with_each_pairs_own_answers(make_run: Any) -> None:
    plain = {record["question"]: record for record in exported(make_run())}
    run = make_run(name="ordered", dataset={"order": "answer"})
    records = exported(run)
    assert [one["answer"] for one in records] == sorted(one["answer"] for one in records)
    assert {record["question"]: record for record in records} == plain
    assert [record["id"] for record in records] != sorted(record["id"] for record in records)


def test_id_is_the_place_in_the_sample_and_index_the_ordinal_of_the_shape_within_its_size(
    make_run: Any,
) -> None:
    run = make_run()
    for record in exported(run):
        assert make_id(record) == run.ids[record["id"]]
        # 3 nodes: shapes 1, 2; 4 nodes: 4, 3, 6, 5, 7, 8
        assert record["graphlet_index"] == {1: 0, 2: 1, 3: 1}[record["graphlet_id"]]


def make_id(record: dict[str, Any]) -> str:
    number = int(record["nodes"][0].split(":")[1])
    return f"g{record['graphlet_id']:02d}-{number:016x}"


@pytest.mark.skipif(not REAL.exists(), reason="the published record is not at hand")
def test_the_published_index_of_the_real_record_is_ours() -> None:
    from kgqa_hpc.dataset.exports.biographletqa import _ORDINAL

    real = json.loads(REAL.read_text(encoding="utf-8"))
    assert _ORDINAL[real["graphlet_id"]] == real["graphlet_index"]
    assert sorted(_ORDINAL) == list(range(1, 30))


def test_once_asked_for_it_follows_every_later_merge(make_run: Any) -> None:
    run = make_run()
    before = exported(run)
    merge(run.folder)
    after = [orjson.loads(line) for line in (run.folder.dataset / FILE).read_bytes().split(b"\n")[:-1]]
    assert after == before


def test_without_the_wish_there_is_no_published_form(make_run: Any) -> None:
    run = make_run(items=8)
    run.finish()
    merge(run.folder)
    assert not (run.folder.dataset / FILE).exists()
