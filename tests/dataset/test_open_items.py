"""Items beside the common ones: of shards that are not done (`kgqa merge --partial`), and of several records."""

from typing import Any

import pytest

from kgqa_hpc.dataset.explain import explain, render
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.errors import InputError
from kgqa_hpc.report.findings import read_findings
from kgqa_hpc.store.journal import Journal, journal_path
from tests.dataset.conftest import contents, records_of, rewrite
from tests.runs import SyntheticRun, synthetic

JUDGED_TWICE = [
    {"name": "main", "steps": ["generate", "judge"]},
    {"name": "again", "steps": [{"use": "judge", "as": "second"}]},
]


def journal(run: Any, shard: str, records: list[dict[str, Any]], number: int = 0, name: str = "main") -> None:
    entry = run.manifest.entry(shard)
    path = journal_path(run.folder.results(name), shard, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    with Journal(path, {**run.folder.origin(name).header(shard, entry.sha256), "worker": "w"}) as open_one:
        for record in records:
            open_one.append({**record, "at": [2, 0, 0]})


def test_what_has_ended_in_an_open_shard_is_in_the_dataset_and_the_rest_is_waiting(make_run: Any) -> None:
    run = make_run(items=24, shard_size=8, dataset={"z_score": None})
    run.finish("shard-000000")
    records = run.records("shard-000001")
    half_way = {**records[5], "status": "open", "reason": None}
    journal(run, "shard-000001", [*records[:5], half_way])
    journal(run, "shard-000001", [records[2], records[6]], number=1)
    found = merge(run.folder, partial=True)
    counts = found.to_dict()
    assert (counts["sampled"], counts["waiting"], counts["missing_shards"]) == (24, 8 - 6 + 8, 2)
    known = {record["id"] for record in records_of(run.folder.dataset, "accepted", "rejected", "lost")}
    assert known == {*run.ids[:8], *(records[n]["id"] for n in (0, 1, 2, 3, 4, 6))}
    told = "PARTIAL: 2 of 3 shards are not done yet; what has ended in them is in, 10 items are not"
    assert str(found).splitlines()[0] == told
    assert "10 items were still waiting" in (run.folder.dataset / "README.md").read_text(encoding="utf-8")


def test_a_whole_merge_after_a_partial_one_has_the_bytes_of_one_alone(make_run: Any) -> None:
    run, other = make_run(name="one"), make_run(name="other")
    journal(run, "shard-000003", run.records("shard-000003")[:4])
    merge(run.folder, partial=True, published=True)
    assert (run.folder.dataset / "biographletqa.jsonl").read_bytes().count(b"\n") == 4
    for each in (run, other):
        each.merge(published=True)
    assert contents(run.folder.dataset) == contents(other.folder.dataset)


def test_an_item_that_a_later_pass_may_still_change_is_waiting(make_run: Any) -> None:
    run = make_run(items=24, shard_size=12, passes=JUDGED_TWICE, dataset={"z_score": None})
    records = run.records("shard-000000")
    journal(run, "shard-000000", records)
    counts = merge(run.folder, partial=True).to_dict()
    final = [record for record in records if record["status"] in ("invalid", "failed")]
    assert final
    assert counts["waiting"] == 24 - len(final)
    assert counts["accepted"] == 0


def test_a_journal_of_another_run_is_not_taken_in(make_run: Any) -> None:
    run, other = make_run(items=8, name="one"), make_run(items=8, name="other", seed=8)
    journal(other, "shard-000000", other.records("shard-000000"))
    path = journal_path(run.folder.results("main"), "shard-000000", 0)
    path.parent.mkdir(parents=True)
    path.write_bytes(journal_path(other.folder.results("main"), "shard-000000", 0).read_bytes())
    assert merge(run.folder, partial=True).to_dict()["waiting"] == 8


EMPTY = {"status": "accepted", "reason": None, "records": [], "decided": False}


def finish_with_lists(run: Any) -> None:
    """Item i of every shard yields i % 4 records; every third record is rejected; the last item is lost."""
    run.finish()

    def with_lists(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for number, record in enumerate(records):
            reasons = [None, None, "unclear"][: number % 4]
            entries = [
                {"question": f"Question {number}.{i}?", "answer": "An answer.", "reason": reason}
                for i, reason in enumerate(reasons)
            ]
            record |= {"status": "accepted", "reason": None, "output": {}, "verdicts": {}, "decided": False}
            record |= {"features": {"length": number}, "annotations": {}, "records": entries}
        records[-1] |= {"status": "invalid", "reason": "organism: not_json"}
        return records

    for name in run.manifest.names:
        rewrite(run.folder.result("main", name), with_lists)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> tuple[SyntheticRun, dict[str, Any]]:
    """A merged run of items with lists of records, and its accounting. Read by tests, changed by none."""
    run = synthetic(tmp_path_factory.mktemp("lists"), items=32, dataset={"z_score": None})
    finish_with_lists(run)
    return run, merge(run.folder).to_dict()


Listed = tuple[SyntheticRun, dict[str, Any]]


def test_items_and_records_have_an_identity_each(listed: Listed) -> None:
    document = listed[1]
    assert (document["sampled"], document["accepted"]) == (32, 28)
    assert document["invalid"] == {"organism: not_json": 4}
    # items 0..6 of each of four shards yield 0, 1, 2, 3, 0, 1, 2 records; one of three is rejected; item 7 is lost
    records = document["records"]
    assert (records["records"], records["accepted"], records["rejected"]) == (36, 32, {"unclear": 4})
    per_group = records["groups"].values()
    assert sum(one["records"] for one in per_group) == 36
    assert all(one["records"] == one["accepted"] + sum(one["rejected"].values()) for one in per_group)


def test_a_run_whose_items_have_no_record_is_merged_and_has_a_page(make_run: Any) -> None:
    run = make_run(items=8)
    run.finish()
    for name in run.manifest.names:
        rewrite(run.folder.result("main", name), lambda items: [{**item, **EMPTY} for item in items])
    assert "\n0 records = 0 accepted + 0 rejected" in str(merge(run.folder))
    assert read_findings(run.folder).samples == []


def test_records_of_one_item_are_numbered_and_know_their_anchor(listed: Listed) -> None:
    run = listed[0]
    lines = records_of(run.folder.dataset, "accepted", "rejected")
    assert len({line["id"] for line in lines}) == 36
    mine = sorted(line["id"] for line in lines if line["provenance"]["anchor"]["id"] == run.ids[3])
    assert mine == [f"{run.ids[3]}.{number}" for number in (1, 2, 3)]
    assert all(line["features"] == {"length": 3} for line in lines if line["id"] in mine)
    lost = records_of(run.folder.dataset, "lost")
    assert [record["reason"] for record in lost] == ["organism: not_json"] * 4


def test_a_record_of_several_is_explained_by_its_own_id(listed: Listed) -> None:
    run = listed[0]
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
