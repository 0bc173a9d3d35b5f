"""`kgqa merge --partial` takes in what has ended in shards that are not done, and says what is waiting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.accounting import render
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.store.journal import Journal, journal_path

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


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


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
    known = {
        json.loads(line)["id"]
        for name in ("accepted", "rejected", "lost")
        for line in (run.folder.dataset / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    }
    assert known == {*run.ids[:8], *(records[n]["id"] for n in (0, 1, 2, 3, 4, 6))}
    told = "PARTIAL: 2 of 3 shards are not done yet; what has ended in them is in, 10 items are not"
    assert render(found).splitlines()[0] == told
    assert "10 items were still waiting" in (run.folder.dataset / "README.md").read_text(encoding="utf-8")


def test_a_whole_merge_after_a_partial_one_has_the_bytes_of_one_alone(make_run: Any) -> None:
    run, other = make_run(name="one"), make_run(name="other")
    journal(run, "shard-000003", run.records("shard-000003")[:4])
    merge(run.folder, partial=True, published=True)
    assert (run.folder.dataset / "biographletqa.jsonl").read_bytes().count(b"\n") == 4
    for each in (run, other):
        each.finish()
        merge(each.folder, published=True)
    assert files(run.folder.dataset) == files(other.folder.dataset)


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
