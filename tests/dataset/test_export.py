"""The published form has the published names, types and order."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from kgqa_hpc.dataset.exports.items import _ORDINAL
from kgqa_hpc.dataset.merge import PUBLISHED as FILE
from kgqa_hpc.dataset.merge import merge
from tests.dataset.conftest import records_of

PUBLISHED = """
id nodes edges graphlet_id edge_labels node_names graphlet_text num_nodes graphlet_index text question
answer json_parsed filtering_text
"""
REAL = Path(__file__).parents[2] / "../shared/data/shapes/bgqa_real_record.json"


def published(run: Any) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (run.folder.dataset / FILE).read_bytes().split(b"\n")[:-1]]


def test_exactly_the_accepted_pairs_are_exported_with_their_raw_answers(merged: Any) -> None:
    run = merged[0]
    for record, pair in zip(published(run), records_of(run.folder.dataset), strict=True):
        assert list(record) == PUBLISHED.split()
        assert (record["question"], record["edges"]) == (pair["question"], pair["edges"])
        assert json.loads(record["text"])["question"] == record["question"]
        assert json.loads(record["filtering_text"])["valid_question"] is True
        # The place in the sample, and the ordinal of the shape within its size:
        # 3 nodes: shapes 1, 2; 4 nodes: 4, 3, 6, 5, 7, 8
        assert pair["id"] == run.ids[record["id"]]
        assert record["graphlet_index"] == {1: 0, 2: 1, 3: 1}[record["graphlet_id"]]


@pytest.mark.skipif(not REAL.exists(), reason="the published record is not at hand")
def test_names_types_and_index_equal_a_real_published_record(merged: Any) -> None:
    real = json.loads(REAL.read_text(encoding="utf-8"))
    ours = published(merged[0])[0]
    assert list(ours) == list(real)
    assert [type(value) for value in ours.values()] == [type(value) for value in real.values()]
    for name in ("nodes", "edges", "edge_labels", "node_names", "graphlet_text"):
        assert type(ours[name][0]) is type(real[name][0])
    for record in (real, ours):
        texts = [f" - {i}: {name} \n" for i, name in enumerate(record["node_names"])]
        assert record["graphlet_text"] == texts
    assert _ORDINAL[real["graphlet_id"]] == real["graphlet_index"]
    assert sorted(_ORDINAL) == list(range(1, 30))


def test_a_dataset_in_the_order_of_a_column_is_exported_with_each_pairs_own_answers(
    merged: Any, make_merged: Any
) -> None:
    plain = {record["question"]: record for record in published(merged[0])}
    records = published(make_merged(published=True, dataset={"order": "answer"})[0])
    assert [one["answer"] for one in records] == sorted(one["answer"] for one in records)
    assert {record["question"]: record for record in records} == plain
    assert [record["id"] for record in records] != sorted(record["id"] for record in records)


def test_once_asked_for_it_follows_every_later_merge_and_not_before(make_merged: Any) -> None:
    run, _ = make_merged(items=8)
    assert not (run.folder.dataset / FILE).exists()
    merge(run.folder, published=True)
    before = published(run)
    merge(run.folder)
    assert published(run) == before
