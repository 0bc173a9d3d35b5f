"""When the job ends, as Slurm tells it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kgqa_hpc.cluster.slurm import job_end, own_job


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A squeue that prints what the returned file holds."""
    answer = tmp_path / "answer"
    program = tmp_path / "squeue"
    program.write_text(f"#!/bin/sh\ncat {answer}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return answer


def test_outside_a_job_there_is_no_end() -> None:
    assert job_end({"SLURM_JOB_END_TIME": "12"}, ask=True) is None
    assert own_job({}) is None


def test_the_end_that_slurm_tells_is_believed() -> None:
    assert job_end({"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": "1900000000"}, ask=False) == 1_900_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("4:59", 299), ("1:00:00", 3600), ("2-01:00:05", 176_405), ("UNLIMITED", None), ("", None)],
)
def test_an_older_slurm_is_asked_for_the_time_left(squeue: Path, text: str, seconds: float | None) -> None:
    squeue.write_text(f"{text}\n")
    before = time.time()
    end = job_end({"SLURM_JOB_ID": "7"}, ask=True)
    if seconds is None:
        assert end is None
    else:
        assert end is not None
        assert before - 1 <= end - seconds <= time.time() + 1
    assert job_end({"SLURM_JOB_ID": "7"}, ask=False) is None


def test_the_tasks_of_an_array_belong_to_one_job() -> None:
    assert own_job({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7"}) == "7"
