"""How a child process ended."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from kgqa_hpc.engines.last_words import exit_words


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
