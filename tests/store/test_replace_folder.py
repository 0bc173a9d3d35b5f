"""A folder is replaced as a whole: a kill at any moment leaves the old one or the new one."""

import errno
import os
import signal
import sys
from pathlib import Path

import pytest

from kgqa_hpc.errors import DiskFull
from kgqa_hpc.store import replace_folder
from kgqa_hpc.store.atomic import TEMP_SUFFIX
from kgqa_hpc.store.cleanup import LITTER_AGE
from kgqa_hpc.store.replace_folder import replaced_folder, settle
from tests.store.conftest import age, in_children

FILES = ("a.jsonl", "b.parquet")


@pytest.fixture(params=[True, False], ids=["exchange", "two renames"])
def can_exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(replace_folder, "exchange", lambda folder, counterpart: False)
    return bool(request.param)


def write(target: Path, text: str) -> None:
    with replaced_folder(target) as folder:
        for name in FILES:
            (folder / name).write_text(text)


def content(target: Path) -> set[str]:
    return {(target / name).read_text() for name in FILES}


def killed_at(step: int, target: Path) -> bool:
    """Replace the folder in a child that kills itself before its step-th system call; whether it did."""
    child = os.fork()
    if child == 0:
        calls = 0

        def count(event: str, _: object) -> None:
            nonlocal calls
            if event == "open" or event.startswith(("os.", "shutil.", "ctypes.")):
                calls += 1
                if calls == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        write(target, "new")
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_a_kill_before_any_system_call_leaves_old_or_new_folder(tmp_path: Path, can_exchange: bool) -> None:
    outcomes = []
    for step in range(1, 500):
        target = tmp_path / str(step) / "dataset[1]"  # a name that is a pattern, too
        write(target, "old")
        killed = killed_at(step, target)
        if can_exchange:
            assert target.exists(), f"step {step}: with an exchange the folder never leaves its place"
        settle(target)
        outcomes.append(content(target))
        assert outcomes[-1] in ({"old"}, {"new"}), f"step {step}: a mixture"
        write(target, "next")
        assert content(target) == {"next"}
        assert [p.name for p in target.parent.iterdir()] == ["dataset[1]"], f"step {step}: leftovers"
        if not killed:
            break
    assert outcomes[0] == {"old"}
    assert outcomes[-1] == {"new"}
    assert len(outcomes) > 10


def test_a_failure_leaves_the_old_folder_and_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "dataset"
    write(target, "old")
    with pytest.raises(TypeError), replaced_folder(target) as folder:
        (folder / FILES[0]).write_text(5)  # type: ignore[arg-type]  # after the file was created
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
        with pytest.raises(DiskFull, match="dataset: "), replaced_folder(target):
            raise OSError(code, os.strerror(code))
    assert content(target) == {"old"}
    assert [p.name for p in tmp_path.iterdir()] == ["dataset"]


def test_a_folder_in_use_stays_and_one_of_a_dead_merge_is_swept_by_its_age(tmp_path: Path) -> None:
    elsewhere = tmp_path / f".dataset.new-another-machine-1{TEMP_SUFFIX}"
    elsewhere.mkdir()
    with replaced_folder(tmp_path / "dataset") as busy:
        settle(tmp_path / "dataset")
        assert busy.exists()
    assert elsewhere.exists()
    age(elsewhere, seconds=2 * LITTER_AGE)
    settle(tmp_path / "dataset")
    assert not elsewhere.exists()


@pytest.mark.usefixtures("can_exchange")
def test_many_merges_at_once_of_one_host_name_and_process_id_leave_one_whole_folder(tmp_path: Path) -> None:
    def merge(number: int) -> None:
        os.getpid = lambda: 7  # as in containers, each with process ids of its own
        for round_ in range(10):
            write(tmp_path / "dataset", f"{number}-{round_} " * 1000)

    in_children(6, merge)
    assert len(content(tmp_path / "dataset")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]
