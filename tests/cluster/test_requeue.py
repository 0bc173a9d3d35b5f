"""Whether a job goes back into the queue: `kgqa requeue`, which slurm/common.sh obeys."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kgqa_hpc.cli import app
from kgqa_hpc.cluster.submit import DONE, GIVE_UP, REQUEUE, decide, progress_mark
from kgqa_hpc.store.journal import Journal
from kgqa_hpc.store.run_folder import RunFolder
from tests.runs import make_run

FAILED, STOPPED, KILLED = 1, 75, 137  # exit codes of `kgqa run`


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return make_run(tmp_path / "run", 30)


def keep_an_answer(run: RunFolder) -> None:
    run.results("main").mkdir(parents=True, exist_ok=True)
    path = run.results("main") / "shard-000000.w0.journal"
    with Journal(path, run.origin("main").header("shard-000000", "")) as journal:
        journal.append({"id": "i0", "status": "open"})


@pytest.mark.parametrize(
    ("progress", "code", "restarts", "then"),
    [
        (True, FAILED, 0, REQUEUE),
        (True, STOPPED, 50, REQUEUE),
        (True, KILLED, 1, REQUEUE),
        (False, FAILED, 0, GIVE_UP),
        (False, STOPPED, 0, REQUEUE),
        (False, STOPPED, 1, GIVE_UP),
        (False, KILLED, 0, REQUEUE),
        (False, KILLED, 1, GIVE_UP),
    ],
)
def test_a_start_that_kept_an_answer_goes_back_and_without_progress_a_stop_may_be_repeated_once(
    run: RunFolder, progress: bool, code: int, restarts: int, then: int
) -> None:
    before = progress_mark(run.path)
    assert progress_mark(run.path) == before
    if progress:
        keep_an_answer(run)
    assert decide(run.path, before, code, restarts).code == then


def test_the_command_prints_the_mark_and_then_decides_by_it(run: RunFolder) -> None:
    def kgqa(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["requeue", str(run.path), *words])
        return done.exit_code, done.output

    code, mark = kgqa()
    assert code == DONE
    assert kgqa("--since", mark.strip(), "--exit-code", "1")[0] == GIVE_UP
    assert "made no progress (exit code 1)" in kgqa("--since", mark.strip(), "--exit-code", "1")[1]
    assert kgqa("--since", mark.strip(), "--exit-code", "75")[0] == REQUEUE
    assert kgqa("--since", mark.strip(), "--exit-code", "75", "--restarts", "1")[0] == GIVE_UP
    keep_an_answer(run)
    assert kgqa("--since", mark.strip(), "--exit-code", "75", "--restarts", "1")[0] == REQUEUE
