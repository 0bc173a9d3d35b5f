"""Cleaning of an engine's texts: secrets and control characters are removed; and the reason of its end.

A server may repeat the key of a request in an error or an answer; a model may write escape
sequences. The engine's child cleans answers and errors before they reach the worker, and the worker cleans
the child's output before it reaches the log.
"""

import codecs
import os
import re
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from kgqa_hpc.engines.engine import Response
from kgqa_hpc.text import plain_text, streams

MASK = "***"
# Smallest length of a secret that is masked: masking "none" or "1" would damage every text.
SHORTEST_SECRET = 6
LONGEST_WORDS = 300
LOOKS, PAUSE_S = 500, 0.01
# Messages of drivers and programs about a GPU that needs a reset or a replacement.
_BROKEN_CARD = re.compile(
    r"\bxid\b|uncorrectable|\becc\b|fallen off the bus|unspecified launch failure|illegal memory access|"
    r"illegal instruction|misaligned address|hardware stack error|device not ready|devices? unavailable|"
    r"no cuda-capable device|unknown error|nvlink",
    re.IGNORECASE,
)


def one_line(text: str, limit: int = LONGEST_WORDS) -> str:
    """Foreign text for a message: one line of at most `limit` characters, without control, bidi or escape
    characters.
    """
    return " ".join(plain_text.printable(text[: 4 * limit]).split())[:limit]


class Redactor:
    """Replaces the values of secret environment variables in texts."""

    def __init__(self, names: Iterable[str], environ: Mapping[str, str] = os.environ) -> None:
        values = {environ.get(name, "").strip() for name in names}
        self._secrets = sorted((v for v in values if len(v) >= SHORTEST_SECRET), key=len, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def text(self, text: str) -> str:
        """The text with secrets replaced."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def response(self, response: Response) -> Response:
        """The response without secrets in text, thought and error; the error becomes one printable line."""
        error = None if response.error is None else one_line(self.text(response.error))
        text, thought = map(self.text, (response.text, response.thought))
        return response._replace(text=text, thought=thought, error=error)

    def copy(self, source: IO[bytes], log: Path) -> None:
        """Append the cleaned output of a pipe to a log, until the pipe ends."""
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        # Keep back the end of an unfinished line that may be the beginning of a secret.
        overlap, held = max(map(len, self._secrets), default=1) - 1, ""
        piece = b"\n"
        with source:
            while piece:
                piece = source.readline(1 << 16)
                held = self.text(held + decode(piece, not piece))
                whole = held.endswith("\n") or not piece
                end = len(held) if whole else max(len(held) - overlap, 0)
                # Reading goes on if the log cannot be written, because a full pipe would block the engine.
                with suppress(OSError), open(streams.open_append(log), "ab") as file:
                    file.write(held[:end].encode())
                held = held[end:]


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
