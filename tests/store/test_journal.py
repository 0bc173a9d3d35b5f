"""journal: a finished item survives whatever kills its writer; a damaged line is never taken for a record."""

import zlib
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import DiskFull, NewerFormat, StoreError
from kgqa_hpc.store import canonical, journal
from kgqa_hpc.store.journal import Journal, journals_of, open_next, read_journal, remove_journals
from tests.disk_watch import counted, refuse, watch
from tests.store.conftest import record

HEADER = {"fingerprint": "f1", "pass": "main", "shard": "shard-000000"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shard-000000.w0.journal"


def line(document: dict[str, Any]) -> bytes:
    json = canonical.dumps(document)
    return b"%08x %b\n" % (zlib.crc32(json), json)


def filled(path: Path, number: int = 3) -> list[dict[str, Any]]:
    records = [record(f"g01-{k:x}") for k in range(number)]
    with Journal(path, {**HEADER, "worker": "w7"}) as own:
        for row in records:
            own.append(row)
    return records


def test_a_torn_tail_is_cut_wherever_it_tears(path: Path) -> None:
    records = filled(path)
    data = path.read_bytes()
    ends = [position + 1 for position, byte in enumerate(data) if byte == ord("\n")]
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        found, damage = read_journal(path, HEADER)
        whole = sum(end <= size for end in ends)
        assert found == records[: max(whole - 1, 0)]
        assert damage.torn == size - max([0, *(end for end in ends if end <= size)])
        assert not damage


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"00000000",
        b"deadbeef {}",
        b"zzzzzzzz {}",
        line({"no": "id"})[:-1],
        b"%08x [1]" % journal.zlib.crc32(b"[1]"),
        b"%08x {" % journal.zlib.crc32(b"{"),
        line({"id": "x"}).upper()[:-1],
    ],
)
def test_lines_that_are_no_records_are_damage(path: Path, line: bytes) -> None:
    records = filled(path, 1)
    path.write_bytes(path.read_bytes() + line + b"\n")
    found, damage = read_journal(path, HEADER)
    assert (found, damage.lines, bool(damage)) == (records, (3,), True)
    assert "1 damaged lines [3]" in str(damage)


@pytest.mark.parametrize(
    ("header", "refused"),
    [
        ({**HEADER, "fingerprint": "f2"}, "belongs to another fingerprint: 'f2' instead of 'f1'"),
        ({"format": "kgqa-other"}, "not a kgqa-journal"),
        (None, "the header line is damaged"),
    ],
)
def test_a_journal_with_another_or_a_damaged_header_is_refused_and_says_why(
    path: Path, header: dict[str, Any] | None, refused: str
) -> None:
    filled(path)
    first, _, records = path.read_bytes().partition(b"\n")
    if header is None:
        path.write_bytes(first.replace(b"main", b"mein") + b"\n" + records)
    else:
        fields = {"format": "kgqa-journal", "version": 1, **header}
        path.write_bytes(line(fields) + records)
    found, damage = read_journal(path, HEADER)
    assert found == []
    assert refused in damage.refused
    assert str(damage).startswith(str(path))


def test_a_newer_or_missing_journal_says_so(path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        read_journal(path, HEADER)
    path.write_bytes(line({"format": "kgqa-journal", "version": 2}))
    with pytest.raises(NewerFormat, match="version 2 of kgqa-journal"):
        read_journal(path, {})


def test_only_a_sync_of_new_lines_costs_an_fsync_and_an_empty_journal_costs_none(path: Path) -> None:
    with counted() as calls:
        own = Journal(path, HEADER)
        for number in range(100):
            own.append(record(f"g01-{number:x}"))
            if number % 30 == 29:
                own.sync()
        assert calls.count("fsync") == 4  # three groups, and the folder once
        own.sync()
        own.sync()
        assert calls.count("fsync") == 5
        own.close()
        own.close()
        Journal(path.with_name("empty"), HEADER).close()
    assert (calls.count("fsync"), calls.count("close")) == (5, 2)
    assert read_journal(path.with_name("empty"), HEADER)[0] == []


@pytest.mark.parametrize(("call", "short"), [("write", 0), ("write", 10), ("fsync", 0)])
def test_after_a_refused_call_a_journal_takes_no_more(path: Path, call: str, short: int) -> None:
    """`short`: the disk took so many bytes of the line before it refused."""
    own = Journal(path, HEADER)
    own.append(record("g01-a"))
    refusing, writes = refuse(call), []

    def probe(name: str, where: str) -> int | None:
        writes.append(name)
        return short if short and writes == ["write"] else refusing(name, where)

    def append_and_sync() -> None:
        own.append(record("g01-b"))
        own.sync()

    with watch(probe), pytest.raises(DiskFull, match="No space left"):
        append_and_sync()
    with pytest.raises(StoreError, match="the journal is closed"):
        own.append(record("g01-c"))
    own.close()
    found, damage = read_journal(path, HEADER)
    assert found[0] == record("g01-a")
    assert damage.torn == short
    assert not damage


def test_each_writer_opens_the_next_number_and_learns_of_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results" / "main"
    first, before_first = open_next(folder, "s", HEADER)
    second, before_second = open_next(folder, "s", HEADER)
    assert [first.path.name, second.path.name] == ["s.w0.journal", "s.w1.journal"]
    assert (before_first, before_second) == ([], [first.path])
    assert journals_of(folder, "s") == [first.path, second.path]
    assert journals_of(folder, "t") == []
    monkeypatch.setattr(journal, "journals_of", lambda *_: [])  # a stale cache of a network file system
    third, before_third = open_next(folder, "s", HEADER)
    assert third.path.name == "s.w2.journal"
    assert before_third == [first.path, second.path]


def test_journals_are_removed_newest_first_so_that_no_gap_arises(tmp_path: Path) -> None:
    for _ in range(3):
        open_next(tmp_path, "s", HEADER)[0].close()
    other, _ = open_next(tmp_path, "t", HEADER)
    removed: list[str] = []
    with watch(lambda call, where: removed.append(Path(where).name)):
        remove_journals(tmp_path, "s")
    assert removed == ["s.w2.journal", "s.w1.journal", "s.w0.journal"]
    assert list(tmp_path.iterdir()) == [other.path]
