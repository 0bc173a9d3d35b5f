"""Rule that decides whether a job is queued again, for the scripts in slurm/ and for submitit."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kgqa_hpc.errors import StoppedEarly
from kgqa_hpc.status.snapshot import survey

DONE, REQUEUE, GIVE_UP = 0, StoppedEarly.exit_code, 1


class Decision(NamedTuple):
    """A decision: `code` is DONE, REQUEUE or GIVE_UP, the exit code of `kgqa requeue`; `text` explains it."""

    code: int
    text: str


def progress_mark(run: Path) -> str:
    """A text that changes whenever an answer is stored. Raises InputError when there is no run."""
    return _mark(survey(run))


def brings_nothing(before: str, now: str, exit_code: int, restarts: int) -> bool:
    """Whether another start is pointless: this start stored no answer, and it failed by itself or was stopped for the
    second time (exit code 75, or above 128 for a signal).
    """
    stopped = exit_code == StoppedEarly.exit_code or exit_code > 128
    return now == before and not (stopped and restarts == 0)


def decide(run: Path, before: str, exit_code: int, restarts: int) -> Decision:
    """Decide whether a job whose workers ended with `exit_code` is queued again.

    `before` is the mark at its start, `restarts` the number of its earlier starts.
    """
    status = survey(run)
    if status["complete"]:
        return Decision(DONE, f"complete: {run}")
    if brings_nothing(before, _mark(status), exit_code, restarts):
        return Decision(
            GIVE_UP,
            f"error: this start made no progress (exit code {exit_code}); not requeued\n"
            f"       see above and {run}/logs, mend it, and submit again: what is done stays done",
        )
    return Decision(REQUEUE, f"not complete yet (exit code {exit_code}): back into the queue")


def _mark(status: dict[str, object]) -> str:
    shards = status["shards"]
    assert isinstance(shards, dict)
    return f"{shards['done']} shards, {status['journal_answers']} answers in journals"
