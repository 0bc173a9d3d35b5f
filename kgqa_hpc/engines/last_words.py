"""How a child process ended, the last thing it said, and whether that blames the card."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

from kgqa_hpc.engines.clean import one_line

LOOKS, PAUSE_S = 500, 0.01
# What a driver says of a card that needs a reset or an exchange, and what programs see of it.
_BROKEN_CARD = re.compile(
    r"\bxid\b|uncorrectable|\becc\b|fallen off the bus|unspecified launch failure|illegal memory access|"
    r"illegal instruction|misaligned address|hardware stack error|device not ready|devices? unavailable|"
    r"no cuda-capable device|unknown error|nvlink",
    re.IGNORECASE,
)


def exit_words(pid: int) -> str:
    """How a child ended, without reaping it: its process group must not be reused before it is killed.

    Looks are counted and not seconds: when both were suspended, the child still gets its time to end.
    """
    for _ in range(LOOKS):
        state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if state is not None:
            by_signal = state.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
            name = signal.Signals(state.si_status).name if by_signal else ""
            return f"killed by {name}" if by_signal else f"exit code {state.si_status}"
        time.sleep(PAUSE_S)
    return ""


def last_line(log: Path, start: int) -> str:
    """The last thing printed after byte `start`, cut to a readable length."""
    with log.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 2000, start))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return next((one_line(line, 200) for line in reversed(lines) if line.strip()), "")


def without_node(words: str) -> str:
    """More for a cure, in a job of Slurm and where `words` are of a broken card: how to do without its node."""
    node = os.environ.get("SLURMD_NODENAME")
    if not node or not _BROKEN_CARD.search(words):
        return ""
    job = os.environ.get("SLURM_JOB_ID", "JOB")
    return (
        f"; a GPU of {node} may be broken: sbatch --exclude={node} ..., or, for this job when it is requeued, "
        f"scontrol update JobId={job} ExcNodeList={node}"
    )
