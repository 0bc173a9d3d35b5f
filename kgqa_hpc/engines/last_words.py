"""Exit status of a child process, its last line of output, and whether these point to a broken GPU."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

from kgqa_hpc.engines.clean import one_line

LOOKS, PAUSE_S = 500, 0.01
# Messages of drivers and programs about a GPU that needs a reset or a replacement.
_BROKEN_CARD = re.compile(
    r"\bxid\b|uncorrectable|\becc\b|fallen off the bus|unspecified launch failure|illegal memory access|"
    r"illegal instruction|misaligned address|hardware stack error|device not ready|devices? unavailable|"
    r"no cuda-capable device|unknown error|nvlink",
    re.IGNORECASE,
)


def exit_words(pid: int) -> str:
    """The exit status of a child in words, without reaping it: its process group must not be reused before it
    is killed.

    Counts attempts instead of seconds: if both processes were suspended, the child still gets its time to end.
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
    """The last line of the log after byte `start`, cut to a readable length."""
    with log.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 2000, start))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return next((one_line(line, 200) for line in reversed(lines) if line.strip()), "")


def without_node(words: str) -> str:
    """Advice to exclude the node, if `words` point to a broken GPU in a job of Slurm; otherwise empty."""
    node = os.environ.get("SLURMD_NODENAME")
    if not node or not _BROKEN_CARD.search(words):
        return ""
    job = os.environ.get("SLURM_JOB_ID", "JOB")
    return (
        f"; a GPU of {node} may be broken: sbatch --exclude={node} ..., or, for this job when it is requeued, "
        f"scontrol update JobId={job} ExcNodeList={node}"
    )
