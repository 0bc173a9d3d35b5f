"""An item yields no record, one or many: items add up, records add up, ids are distinct."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kgqa_hpc.dataset.explain import explain, render
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.errors import AccountingError, InputError
from kgqa_hpc.store.results import read_result, write_result


def finish_with_lists(run: Any, change: Any = lambda records: None) -> None:
    """Item i of every shard yields i % 4 records; every third record is rejected; the last item is invalid."""
    run.finish()
    for name in run.manifest.names:
        path = run.folder.result("main", name)
        records = read_result(path)
        for number, record in enumerate(records):
            entries = [
                {
                    "question": f"Question {number}.{i}?",
                    "answer": "An answer.",
                    "reason": "unclear" if i % 3 == 2 else None,
                }
                for i in range(number % 4)
            ]
            record |= {"status": "accepted", "reason": None, "output": {}, "verdicts": {}, "decided": False}
            record |= {"features": {"length": number}, "annotations": {}, "records": entries}
        records[-1] |= {"status": "invalid", "reason": "extract: not_json", "records": []}
        change(records)
        path.unlink()
        write_result(path, records, run.folder.origin("main").header(name, ""))


def test_items_and_records_have_an_identity_each(make_run: Any) -> None:
    run = make_run(items=32, dataset={"z_score": None})
    finish_with_lists(run)
    accounting = merge(run.folder)
    document = accounting.to_dict()
    assert (document["sampled"], document["accepted"], document["invalid"]) == (
        32,
        28,
        {"extract: not_json": 4},
    )
    # items 0..6 of each of four shards yield 0, 1, 2, 3, 0, 1, 2 records; one of three is rejected
    records = document["records"]
    assert (records["records"], records["accepted"], records["rejected"]) == (36, 32, {"unclear": 4})
    per_group = records["groups"].values()
    assert sum(one["records"] for one in per_group) == 36
    assert all(one["records"] == one["accepted"] + sum(one["rejected"].values()) for one in per_group)


def test_records_of_one_item_are_numbered_and_know_their_anchor(make_run: Any) -> None:
    run = make_run(items=32, dataset={"z_score": None})
    finish_with_lists(run)
    merge(run.folder)
    lines = []
    for name in ("accepted", "rejected"):
        text = (run.folder.dataset / f"{name}.jsonl").read_text(encoding="utf-8")
        lines += [json.loads(line) for line in text.splitlines()]
    assert len({line["id"] for line in lines}) == 36
    mine = sorted(line["id"] for line in lines if line["provenance"]["anchor"]["id"] == run.ids[3])
    assert mine == [f"{run.ids[3]}.{number}" for number in (1, 2, 3)]
    assert all(line["features"] == {"length": 3} for line in lines if line["id"] in mine)
    lost = (run.folder.dataset / "lost.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["reason"] for line in lost] == ["extract: not_json"] * 4


def test_a_record_of_several_is_explained_by_its_own_id(make_run: Any) -> None:
    run = make_run(items=32, dataset={"z_score": None})
    finish_with_lists(run)
    story = explain(run.folder.path, f"{run.ids[3]}.2")
    assert story["id"] == run.ids[3]
    assert story["record"]["number"] == 2
    assert story["record"]["question"] == "Question 3.1?"
    assert "Question 3.1?" in render(story)
    assert "record" not in explain(run.folder.path, run.ids[3])
    for wrong in (f"{run.ids[3]}.4", f"{run.ids[3]}.0"):
        with pytest.raises(InputError, match="no such record") as refused:
            explain(run.folder.path, wrong)
        assert "has 3 so far" in str(refused.value.cure)


def test_a_record_without_a_question_stops_the_merge(make_run: Any) -> None:
    run = make_run(items=8, dataset={"z_score": None})

    def spoil(records: list[dict[str, Any]]) -> None:
        del records[1]["records"][0]["question"]

    finish_with_lists(run, spoil)
    with pytest.raises(AccountingError, match="record 1 has no question"):
        merge(run.folder)
