"""A folder is replaced as a whole: a kill at any moment leaves the old one or the new one."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import pytest

from kgqa_hpc.errors import DiskFull
from kgqa_hpc.store import replace_folder as swap
from kgqa_hpc.store.atomic import TEMP_SUFFIX
from kgqa_hpc.store.cleanup import LITTER_AGE
from kgqa_hpc.store.replace_folder import replaced_folder, settle

FILES = ("a.jsonl", "b.parquet")


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
        seen = 0

        def count(event: str, _: object) -> None:
            nonlocal seen
            if event == "open" or event.startswith(("os.", "shutil.", "ctypes.")):
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        write(target, "new")
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_kill_before_any_system_call_leaves_the_old_folder_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(swap, "exchange", lambda one, other: False)
    outcomes = []
    for step in range(1, 500):
        target = tmp_path / str(step) / "dataset"
        write(target, "old")
        killed = killed_at(step, target)
        if can_exchange:
            assert target.exists(), f"step {step}: with an exchange the folder never leaves its place"
        settle(target)
        outcomes.append(content(target))
        assert outcomes[-1] in ({"old"}, {"new"}), f"step {step}: a mixture"
        write(target, "next")
        assert content(target) == {"next"}
        assert [p.name for p in target.parent.iterdir()] == ["dataset"], f"step {step}: leftovers"
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
    assert content(target) == {"old"}
    assert [p.name for p in tmp_path.iterdir()] == ["dataset"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_full_disk_is_one_clear_line_and_the_old_folder_stays(tmp_path: Path, code: int) -> None:
    target = tmp_path / "dataset"
    write(target, "old")
    with pytest.raises(DiskFull, match="dataset: "), replaced_folder(target):
        raise OSError(code, os.strerror(code))
    assert content(target) == {"old"}


def test_a_folder_that_another_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / f".dataset.new-another-machine-1{TEMP_SUFFIX}"
    elsewhere.mkdir()
    with replaced_folder(tmp_path / "dataset") as busy:
        settle(tmp_path / "dataset")
        assert busy.exists()
    assert elsewhere.exists()


def test_what_a_dead_merge_of_another_machine_left_is_swept_by_its_age(tmp_path: Path) -> None:
    elsewhere = tmp_path / f".dataset.new-another-machine-1{TEMP_SUFFIX}"
    elsewhere.mkdir()
    past = time.time() - 2 * LITTER_AGE
    os.utime(elsewhere, (past, past))
    settle(tmp_path / "dataset")
    assert not elsewhere.exists()


@pytest.mark.parametrize("can_exchange", [True, False])
def test_many_merges_at_once_of_one_host_name_and_process_id_leave_one_whole_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(swap, "exchange", lambda one, other: False)
    target = tmp_path / "dataset"
    children = []
    for number in range(6):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.getpid = lambda: 7  # as in containers, each with process ids of its own
                for round_ in range(10):
                    write(target, f"{number}-{round_} " * 1000)
                code = 0
            except BaseException:  # noqa: BLE001  a forked child must not return
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    assert len(content(target)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]
