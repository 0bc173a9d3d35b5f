"""inflight: a successor goes on where its predecessors were stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kgqa_hpc.errors import StoreError
from kgqa_hpc.store import inflight
from kgqa_hpc.store.inflight import InFlight, finish, resume
from kgqa_hpc.store.partition import read_shards_manifest
from kgqa_hpc.store.result import read_result
from kgqa_hpc.store.run import RunFolder

Make = Callable[..., dict[str, Any]]
SHARD = "shard-000002"


def begin(run: RunFolder, worker: str) -> InFlight:
    entry = read_shards_manifest(run).entry(SHARD)
    return resume(run, "main", entry, run.manifest().digest, worker)


def test_a_successor_takes_over_every_finished_item_once(cut_run: RunFolder, make_record: Make) -> None:
    first = begin(cut_run, "w1")
    first.journal.append(make_record("g01-8", "first"))
    second = begin(cut_run, "w2")
    assert second.records == {"g01-8": make_record("g01-8", "first")}
    second.journal.append(make_record("g01-8", "second"))
    second.journal.append(make_record("g01-9"))
    third = begin(cut_run, "w3")
    assert third.records == {
        "g01-8": make_record("g01-8", "first"),
        "g01-9": make_record("g01-9"),
    }
    assert third.damages == ()


def test_damage_is_reported_and_a_copy_kept_once(cut_run: RunFolder, make_record: Make) -> None:
    first = begin(cut_run, "w1")
    for name in ("g01-8", "g01-9"):
        first.journal.append(make_record(name))
    path = first.journal.path
    path.write_bytes(path.read_bytes().replace(b"Because", b"Becauze", 1))
    for worker in ("w2", "w3"):
        taken = begin(cut_run, worker)
        assert taken.records == {"g01-9": make_record("g01-9")}
        assert [damage.lines for damage in taken.damages] == [(2,)]
    copies = sorted(file.name.split(".", 2)[0] for file in cut_run.quarantine.iterdir())
    assert copies == ["main-shard-000002", "main-shard-000002"]  # the copy and its reason
    assert path.exists()


def test_the_result_ends_the_journals(cut_run: RunFolder, make_record: Make) -> None:
    first, second = begin(cut_run, "w1"), begin(cut_run, "w2")
    records = [make_record(f"g01-{k}") for k in range(4)]
    assert finish(cut_run, "main", SHARD, records, {"pass": "main"}, second.journal)
    assert [path.name for path in cut_run.results("main").iterdir()] == [f"{SHARD}.h5"]
    first.journal.append(make_record("g01-0", "zombie"))
    zombie = [make_record(f"g01-{k}", "zombie") for k in range(4)]
    assert not finish(cut_run, "main", SHARD, zombie, {"pass": "main"}, first.journal)
    assert read_result(cut_run.result("main", SHARD)) == records


def test_a_journal_removed_between_finding_and_reading_is_no_error(
    cut_run: RunFolder, make_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begin(cut_run, "w1")
    first.journal.append(make_record("g01-8"))
    real = inflight.read_journal

    def removed_just_now(path: Any, header: Any) -> Any:
        path.unlink()
        return real(path, header)

    monkeypatch.setattr(inflight, "read_journal", removed_just_now)
    taken = begin(cut_run, "w2")
    assert (taken.records, taken.damages) == ({}, ())


def test_a_journal_that_cannot_be_read_stops_the_worker(cut_run: RunFolder) -> None:
    folder = cut_run.results("main") / f"{SHARD}.w0.journal"
    folder.mkdir(parents=True)
    with pytest.raises(StoreError, match="Is a directory"):
        begin(cut_run, "w1")
