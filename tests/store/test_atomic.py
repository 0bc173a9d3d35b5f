"""atomic: a file is there whole or not at all, and a refusal of the system becomes one clear error."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from kgqa_hpc.errors import DiskFull, StoreError
from kgqa_hpc.store import atomic, cleanup
from tests.disk_watch import Probe, watch


def test_a_file_holds_what_was_written_and_no_temp_file_stays(tmp_path: Path) -> None:
    assert atomic.write_file(tmp_path / "f", b"one")
    assert atomic.write_file(tmp_path / "f", b"two")
    assert (tmp_path / "f").read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize(("exclusive", "naming"), [(False, "rename"), (True, "link")])
def test_bytes_are_durable_before_the_name_and_the_name_before_success(
    tmp_path: Path, exclusive: bool, naming: str
) -> None:
    """What a power cut may leave cannot be tested here; the order of the calls that rules it out can."""
    calls: list[str] = []
    with watch(lambda call, where: calls.append(call)):
        atomic.write_file(tmp_path / "f", b"data", exclusive=exclusive)
    assert calls == ["open", "write", "fsync", naming, "open", "fsync", "close", "unlink"]
    calls.clear()
    with watch(lambda call, where: calls.append(call)):
        atomic.write_file(tmp_path / "g", b"data", exclusive=exclusive, durable=False)
    assert calls == ["open", "write", naming, "close", "unlink"]


def test_an_exclusive_write_leaves_the_first_file_alone(tmp_path: Path) -> None:
    assert atomic.write_file(tmp_path / "f", b"one", exclusive=True)
    assert not atomic.write_file(tmp_path / "f", b"two", exclusive=True)
    assert (tmp_path / "f").read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["f"]


def test_of_many_exclusive_writers_exactly_one_wins(tmp_path: Path) -> None:
    start, won = threading.Barrier(8), []

    def write(number: int) -> None:
        start.wait()
        if atomic.write_file(tmp_path / "f", b"%d" % number * 5000, exclusive=True):
            won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert (tmp_path / "f").read_bytes() == b"%d" % won[0] * 5000
    assert os.listdir(tmp_path) == ["f"]


def test_short_writes_are_continued(tmp_path: Path) -> None:
    with watch(lambda call, where: 3 if call == "write" else None):
        atomic.write_file(tmp_path / "f", b"0123456789")
    assert (tmp_path / "f").read_bytes() == b"0123456789"


@pytest.mark.parametrize(
    ("number", "text", "cure"),
    [
        (errno.ENOSPC, "No space left", "free some space"),
        (errno.EDQUOT, "quota", "free some space"),
        (errno.EROFS, "Read-only", "another folder"),
        (errno.EIO, "Input/output error", "check it"),
        (errno.EFBIG, "File too large", "ulimit"),
    ],
)
def test_a_full_or_failing_disk_is_one_clear_error(tmp_path: Path, number: int, text: str, cure: str) -> None:
    with watch(_refuse("fsync", number)), pytest.raises(DiskFull) as caught:
        atomic.write_file(tmp_path / "f", b"data")
    assert text in caught.value.message
    assert str(tmp_path / "f") in caught.value.message
    assert cure in caught.value.cure
    assert caught.value.exit_code == 1
    assert os.listdir(tmp_path) == []


def test_another_refusal_is_a_store_error_with_the_path(tmp_path: Path) -> None:
    with watch(_refuse("open", errno.EACCES)), pytest.raises(StoreError) as caught:
        atomic.write_file(tmp_path / "f", b"data")
    assert not isinstance(caught.value, DiskFull)
    assert "Permission denied" in caught.value.message


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV])
def test_without_hard_links_the_first_writer_still_wins(tmp_path: Path, number: int) -> None:
    with watch(_refuse("link", number)):
        assert atomic.write_file(tmp_path / "f", b"one", exclusive=True)
        assert not atomic.write_file(tmp_path / "f", b"two", exclusive=True)
    assert (tmp_path / "f").read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["f"]


def test_without_hard_links_many_writers_leave_one_whole_file(tmp_path: Path) -> None:
    start, won = threading.Barrier(4), []

    def write(number: int) -> None:
        start.wait()
        if atomic.write_file(tmp_path / "f", b"%d" % number * 100, exclusive=True):
            won.append(number)

    with watch(_refuse("link", errno.EPERM)):
        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(won) == 1
    assert (tmp_path / "f").read_bytes() == b"%d" % won[0] * 100


def test_a_dead_writers_guard_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "GUARD_AGE", 0.1)
    (tmp_path / f".f.guard{atomic.TEMP_SUFFIX}").touch()
    with watch(_refuse("link", errno.EPERM)):
        assert atomic.write_file(tmp_path / "f", b"one", exclusive=True)
    assert os.listdir(tmp_path) == ["f"]


def test_a_file_that_appears_while_waiting_for_the_guard_wins(tmp_path: Path) -> None:
    guard = tmp_path / f".f.guard{atomic.TEMP_SUFFIX}"
    guard.touch()
    seen: list[str] = []

    def probe(call: str, where: str) -> None:
        if call == "link":
            raise OSError(errno.EPERM, "no links")
        if call == "open" and where == str(guard):
            seen.append(call)
            if len(seen) == 2:  # the owner of the guard commits and goes
                (tmp_path / "f").write_bytes(b"theirs")
                guard.unlink()

    with watch(probe):
        assert not atomic.write_file(tmp_path / "f", b"mine", exclusive=True)
    assert (tmp_path / "f").read_bytes() == b"theirs"


def test_a_lost_answer_to_a_link_that_succeeded_counts_as_success(tmp_path: Path) -> None:
    def probe(call: str, where: str) -> None:
        if call == "link":
            temp = next(path for path in tmp_path.iterdir() if path.name.endswith(atomic.TEMP_SUFFIX))
            os.link(temp, where)  # what the server did before the client asked again

    with watch(probe):
        assert atomic.write_file(tmp_path / "f", b"one", exclusive=True)
    assert (tmp_path / "f").read_bytes() == b"one"


def test_a_folder_that_cannot_be_synced_is_no_error_where_it_needs_none(tmp_path: Path) -> None:
    calls = []

    def probe(call: str, where: str) -> None:
        calls.append(call)
        if call == "fsync" and calls.count("fsync") == 2:
            raise OSError(errno.EINVAL, "not on this file system")

    with watch(probe):
        assert atomic.write_file(tmp_path / "f", b"one")


def test_folders_are_made_with_their_parents_and_again(tmp_path: Path) -> None:
    atomic.make_folder(tmp_path / "a" / "b")
    atomic.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_folder_that_another_process_makes_first_is_fine(tmp_path: Path) -> None:
    def probe(call: str, where: str) -> None:
        if call == "mkdir":
            os.mkdir(where)

    with watch(probe):
        atomic.make_folder(tmp_path / "a")
    assert (tmp_path / "a").is_dir()


def test_a_folder_below_one_that_was_removed_is_an_error_and_no_endless_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(StoreError, match="No such file"):
        atomic.make_folder(Path("run"))


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(StoreError, match="a: is in the way"):
        atomic.make_folder(tmp_path / "a")


def test_what_the_file_system_cannot_tell_is_an_error_and_not_a_no(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    assert atomic.exists(tmp_path / "f")
    assert not atomic.exists(tmp_path / "g")
    assert not atomic.exists(tmp_path / "f" / "g")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StoreError, match="symbolic links"):
        atomic.exists(tmp_path / "loop")


def test_old_temp_files_are_swept_and_young_ones_stay(tmp_path: Path) -> None:
    names = [f".{name}{atomic.TEMP_SUFFIX}" for name in ("old", "young", "old-folder", "busy-folder")]
    old, young, folder, busy = (tmp_path / name for name in names)
    folder.mkdir()
    busy.mkdir()
    for path in (old, young, folder / "f", busy / "f", tmp_path / "data.h5"):
        path.touch()
    past = time.time() - 2 * cleanup.LITTER_AGE
    for path in (old, folder / "f", folder, busy, tmp_path / "data.h5"):
        os.utime(path, (past, past))
    assert cleanup.sweep_temps(tmp_path) == 2
    assert {path.name for path in tmp_path.iterdir()} == {young.name, busy.name, "data.h5"}
    assert cleanup.sweep_temps(tmp_path / "nowhere") == 0


def test_a_temp_file_that_somebody_else_sweeps_first_is_not_counted(tmp_path: Path) -> None:
    temp = tmp_path / f".f{atomic.TEMP_SUFFIX}"
    temp.touch()
    with watch(lambda call, where: os.unlink(where)):
        assert cleanup.sweep_temps(tmp_path, older_than=-1) == 0


def _refuse(refused: str, number: int) -> Probe:
    def probe(call: str, where: str) -> None:
        if call == refused:
            raise OSError(number, os.strerror(number))

    return probe
