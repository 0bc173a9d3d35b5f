"""journal: a finished item survives whatever kills its writer; a damaged line is never taken for a record."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import DiskFull, NewerFormat, StoreError
from kgqa_hpc.store import canonical, journal
from kgqa_hpc.store.journal import Journal, journals_of, open_next, read_journal, remove_journals
from tests.disk_watch import watch

Make = Callable[..., dict[str, Any]]
HEADER = {"fingerprint": "f1", "pass": "main", "shard": "shard-000000"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shard-000000.w0.journal"


def filled(path: Path, make_record: Make, number: int = 3) -> list[dict[str, Any]]:
    records = [make_record(f"g01-{k:x}") for k in range(number)]
    with Journal(path, {**HEADER, "worker": "w7"}) as own:
        for record in records:
            own.append(record)
    return records


def test_records_come_back_without_damage(path: Path, make_record: Make) -> None:
    records = filled(path, make_record)
    found, damage = read_journal(path, HEADER)
    assert found == records
    assert (damage.torn, damage.lines, damage.refused, bool(damage)) == (0, (), "", False)


def test_a_torn_tail_is_cut_wherever_it_tears(path: Path, make_record: Make) -> None:
    records = filled(path, make_record)
    data = path.read_bytes()
    ends = [position + 1 for position, byte in enumerate(data) if byte == ord("\n")]
    for size in range(len(data)):
        path.write_bytes(data[:size])
        found, damage = read_journal(path, HEADER)
        whole = sum(end <= size for end in ends)
        assert found == records[: max(whole - 1, 0)]
        assert damage.torn == size - max([0, *(end for end in ends if end <= size)])
        assert not damage


def test_a_damaged_inner_line_costs_that_line_only(path: Path, make_record: Make) -> None:
    records = filled(path, make_record)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"Because", b"Becauze")
    path.write_bytes(b"".join(lines))
    found, damage = read_journal(path, HEADER)
    assert found == [records[0], records[2]]
    assert damage.lines == (3,)
    assert bool(damage)
    assert "1 damaged lines [3]" in str(damage)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"00000000",
        b"deadbeef {}",
        b"zzzzzzzz {}",
        journal._line(canonical.dumps({"no": "id"}))[:-1],
        b"%08x [1]" % journal.zlib.crc32(b"[1]"),
        b"%08x {" % journal.zlib.crc32(b"{"),
        journal._line(canonical.dumps({"id": "x"})).upper()[:-1],
    ],
)
def test_lines_that_are_no_records_are_damage(path: Path, make_record: Make, line: bytes) -> None:
    records = filled(path, make_record, 1)
    path.write_bytes(path.read_bytes() + line + b"\n")
    found, damage = read_journal(path, HEADER)
    assert (found, damage.lines) == (records, (3,))


def test_another_runs_journal_is_refused_and_says_why(path: Path, make_record: Make) -> None:
    filled(path, make_record)
    found, damage = read_journal(path, {**HEADER, "fingerprint": "f2"})
    assert found == []
    assert damage.refused == "belongs to another fingerprint: 'f1' instead of 'f2'"
    assert str(damage).startswith(str(path))


def test_a_damaged_header_refuses_the_whole_journal(path: Path, make_record: Make) -> None:
    filled(path, make_record)
    path.write_bytes(path.read_bytes().replace(b"main", b"mein", 1))
    found, damage = read_journal(path, HEADER)
    assert (found, damage.refused) == ([], "the header line is damaged")


def test_another_kind_of_file_is_refused(path: Path) -> None:
    path.write_bytes(journal._line(canonical.dumps({"format": "kgqa-other", "version": 1})))
    assert "not a kgqa-journal" in read_journal(path, {})[1].refused


def test_a_newer_journal_says_so(path: Path) -> None:
    path.write_bytes(journal._line(canonical.dumps({"format": "kgqa-journal", "version": 2})))
    with pytest.raises(NewerFormat, match="version 2 of kgqa-journal"):
        read_journal(path, {})


def test_a_missing_journal_is_a_store_error(path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        read_journal(path, HEADER)


def test_an_append_survives_the_kill_that_follows_it(path: Path, make_record: Make) -> None:
    child = os.fork()
    if child == 0:
        own = Journal(path, HEADER)
        own.append(make_record("g01-a"))
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert read_journal(path, HEADER)[0] == [make_record("g01-a")]


def test_fsyncs_come_in_groups(path: Path, make_record: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    calls: list[str] = []
    with watch(lambda call, where: calls.append(call)):
        own = Journal(path, HEADER, commit_every=30)
        for second in range(100):
            now = 1000.0 + second
            own.append(make_record(f"g01-{second:x}"))
        assert calls.count("fsync") == 4  # three groups, and the folder once
        own.sync()
        own.sync()
        assert calls.count("fsync") == 5
        own.close()
        own.close()
    assert calls.count("fsync") == 5
    assert calls.count("close") == 1


def test_an_empty_journal_costs_no_fsync(path: Path) -> None:
    calls: list[str] = []
    with watch(lambda call, where: calls.append(call)), Journal(path, HEADER):
        pass
    assert "fsync" not in calls
    assert read_journal(path, HEADER)[0] == []


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_after_a_refused_call_a_journal_takes_no_more(path: Path, make_record: Make, call: str) -> None:
    own = Journal(path, HEADER)
    own.append(make_record("g01-a"))

    def probe(name: str, where: str) -> int | None:
        if name == call:
            raise OSError(errno.ENOSPC, "full")
        return None

    def append_and_sync() -> None:
        own.append(make_record("g01-b"))
        own.sync()

    with watch(probe), pytest.raises(DiskFull, match="No space left"):
        append_and_sync()
    with pytest.raises(StoreError, match="the journal is closed"):
        own.append(make_record("g01-c"))
    own.close()
    found, damage = read_journal(path, HEADER)
    assert make_record("g01-a") in found
    assert not damage


def test_a_short_write_before_a_full_disk_leaves_a_torn_tail_only(path: Path, make_record: Make) -> None:
    own = Journal(path, HEADER)
    own.append(make_record("g01-a"))
    writes: list[str] = []

    def probe(name: str, where: str) -> int | None:
        writes.append(name)
        if len(writes) > 1:
            raise OSError(errno.EDQUOT, "quota")
        return 10

    with watch(probe), pytest.raises(DiskFull, match="quota"):
        own.append(make_record("g01-b"))
    found, damage = read_journal(path, HEADER)
    assert (found, damage.torn) == ([make_record("g01-a")], 10)


def test_a_journal_that_cannot_be_created_is_disk_full(path: Path) -> None:
    def probe(name: str, where: str) -> None:
        raise OSError(errno.ENOSPC, "full")

    with watch(probe), pytest.raises(DiskFull):
        Journal(path, HEADER)


def test_each_writer_opens_the_next_number_and_learns_of_those_before(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "main"
    first, none = open_next(folder, "s", HEADER)
    second, one = open_next(folder, "s", HEADER)
    assert [first.path.name, second.path.name] == ["s.w0.journal", "s.w1.journal"]
    assert (none, one) == ([], [first.path])
    assert journals_of(folder, "s") == [first.path, second.path]
    assert journals_of(folder, "t") == []


def test_a_number_taken_behind_a_stale_cache_is_stepped_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = open_next(tmp_path, "s", HEADER)
    monkeypatch.setattr(journal, "journals_of", lambda *_: [])
    second, before = open_next(tmp_path, "s", HEADER)
    assert second.path.name == "s.w1.journal"
    assert before == [first.path]


def test_journals_are_removed_newest_first_so_that_no_gap_arises(tmp_path: Path) -> None:
    for _ in range(3):
        open_next(tmp_path, "s", HEADER)[0].close()
    other, _ = open_next(tmp_path, "t", HEADER)
    removed: list[str] = []
    with watch(lambda call, where: removed.append(Path(where).name)):
        remove_journals(tmp_path, "s")
    assert removed == ["s.w2.journal", "s.w1.journal", "s.w0.journal"]
    assert list(tmp_path.iterdir()) == [other.path]
