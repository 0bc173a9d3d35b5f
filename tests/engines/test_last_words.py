"""How a child process ended."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from kgqa_hpc.engines.last_words import exit_words, without_node


def test_an_end_is_seen_also_when_both_were_suspended_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    def suspended(seconds: float) -> None:
        later = real() + 3600
        monkeypatch.setattr(time, "monotonic", lambda: later)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    real = time.monotonic
    with subprocess.Popen(["sleep", "600"]) as child:
        monkeypatch.setattr(time, "sleep", suspended)
        assert exit_words(child.pid) == "killed by SIGKILL"


def test_a_broken_card_names_the_line_that_excludes_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "CUDA error: uncorrectable ECC error encountered"
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    assert without_node(words) == ""
    monkeypatch.setenv("SLURMD_NODENAME", "gpu07")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    assert "sbatch --exclude=gpu07" in without_node(words)
    assert "scontrol update JobId=4711 ExcNodeList=gpu07" in without_node(words)
    assert without_node("CUDA out of memory") == ""
