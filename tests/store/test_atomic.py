"""atomic: a file is there whole or not at all, and a refusal of the system becomes one clear error.

tests/store/test_faults.py refuses, and kills at, every call.
"""

import errno
import os
from pathlib import Path

import pytest

from kgqa_hpc.errors import DiskFull, StoreError
from kgqa_hpc.store import atomic
from tests.disk_watch import before, counted, refuse, watch
from tests.store.conftest import at_once


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "f"


def test_the_newest_writer_wins_and_no_temp_file_stays(file: Path) -> None:
    assert atomic.write_file(file, b"one")
    with watch(lambda call, where: 3 if call == "write" else None):  # short writes are continued
        assert atomic.write_file(file, b"0123456789")
    assert file.read_bytes() == b"0123456789"
    assert os.listdir(file.parent) == ["f"]


@pytest.mark.parametrize(("exclusive", "naming"), [(False, "rename"), (True, "link")])
def test_bytes_are_durable_before_the_name_and_the_name_before_success(
    tmp_path: Path, exclusive: bool, naming: str
) -> None:
    """What a power cut may leave cannot be tested here; the order of the calls that rules it out can."""
    with counted() as calls:
        atomic.write_file(tmp_path / "f", b"data", exclusive=exclusive)
    assert calls == ["open", "write", "fsync", naming, "open", "fsync", "close", "unlink"]
    with counted() as calls:
        atomic.write_file(tmp_path / "g", b"data", exclusive=exclusive, durable=False)
    assert calls == ["open", "write", naming, "close", "unlink"]


NO_LINKS = [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV]


@pytest.mark.parametrize("number", [0, *NO_LINKS])
def test_an_exclusive_write_leaves_the_first_file_and_one_of_many_wins(tmp_path: Path, number: int) -> None:
    with watch(refuse("link", number) if number else lambda call, where: None):
        assert atomic.write_file(tmp_path / "f", b"one", exclusive=True)
        assert not atomic.write_file(tmp_path / "f", b"two", exclusive=True)
        contents = [b"%d" % own * 5000 for own in range(8)]
        won = at_once(
            8, lambda own: atomic.write_file(tmp_path / "g", contents[own], exclusive=True) and contents[own]
        )
    assert (tmp_path / "f").read_bytes() == b"one"
    assert [(tmp_path / "g").read_bytes()] == won
    assert sorted(os.listdir(tmp_path)) == ["f", "g"]


@pytest.mark.parametrize(
    ("number", "text", "cure"),
    [
        (errno.ENOSPC, "No space left", "free some space"),
        (errno.EDQUOT, "quota", "free some space"),
        (errno.EROFS, "Read-only", "another folder"),
        (errno.EIO, "Input/output error", "check it"),
        (errno.EFBIG, "File too large", "ulimit"),
        (errno.EACCES, "Permission denied", "mend it"),
    ],
)
def test_a_refusal_is_one_clear_error_with_its_cure(file: Path, number: int, text: str, cure: str) -> None:
    with watch(refuse("fsync", number)), pytest.raises(StoreError) as caught:
        atomic.write_file(file, b"data")
    assert isinstance(caught.value, DiskFull) == (number != errno.EACCES)
    assert text in caught.value.message
    assert str(file) in caught.value.message
    assert cure in caught.value.cure
    assert caught.value.exit_code == 1
    assert os.listdir(file.parent) == []


def test_a_dead_writers_guard_is_removed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "GUARD_AGE", 0.1)
    file.with_name(f".f.guard{atomic.TEMP_SUFFIX}").touch()
    with watch(refuse("link", errno.EPERM)):
        assert atomic.write_file(file, b"one", exclusive=True)
    assert os.listdir(file.parent) == ["f"]


def test_a_file_that_appears_while_waiting_for_the_guard_wins(file: Path) -> None:
    guard = file.with_name(f".f.guard{atomic.TEMP_SUFFIX}")
    guard.touch()
    tries: list[str] = []

    def probe(call: str, where: str) -> None:
        if call == "link":
            raise OSError(errno.EPERM, "no links")
        if call == "open" and where == str(guard):
            tries.append(call)
            if len(tries) == 2:  # the owner of the guard commits and goes
                file.write_bytes(b"theirs")
                guard.unlink()

    with watch(probe):
        assert not atomic.write_file(file, b"mine", exclusive=True)
    assert file.read_bytes() == b"theirs"


def test_a_lost_answer_to_a_link_that_succeeded_counts_as_success(file: Path) -> None:
    def link_first(where: str) -> None:
        temp = next(path for path in file.parent.iterdir() if path.name.endswith(atomic.TEMP_SUFFIX))
        os.link(temp, where)  # what the server did before the client asked again

    with watch(before("link", link_first)):
        assert atomic.write_file(file, b"one", exclusive=True)
    assert file.read_bytes() == b"one"


def test_a_folder_that_cannot_be_synced_is_no_error_where_it_needs_none(file: Path) -> None:
    with watch(refuse("fsync", errno.EINVAL, nth=2)):
        assert atomic.write_file(file, b"one")


def test_folders_are_made_with_their_parents_whoever_else_makes_them(tmp_path: Path) -> None:
    with watch(before("mkdir", os.mkdir)):
        atomic.make_folder(tmp_path / "a" / "b")
    atomic.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_folder_that_cannot_be_made_is_named_and_no_endless_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(StoreError, match="a: is in the way"):
        atomic.make_folder(tmp_path / "a")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(StoreError, match="No such file"):
        atomic.make_folder(Path("run"))


def test_an_answer_that_the_file_system_cannot_give_is_an_error_and_not_a_no(file: Path) -> None:
    file.touch()
    assert atomic.exists(file)
    assert not atomic.exists(file.with_name("g"))
    assert not atomic.exists(file / "g")
    file.with_name("loop").symlink_to(file.with_name("loop"))
    with pytest.raises(StoreError, match="symbolic links"):
        atomic.exists(file.with_name("loop"))
