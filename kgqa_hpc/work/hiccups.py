"""Errors of the file system that pass by themselves, and for how long they are tried again.

A parallel file system that fails over answers nothing but errors for seconds; NFS calls a file stale that
another node has just replaced. What is done every few seconds anyway (heartbeats,
states, claims) is then tried again, unless the trouble lasts, or is one that stays until somebody mends it: a
full disk.
"""

from __future__ import annotations

import errno
import time

from kgqa_hpc.errors import CorruptFile, KgqaError, NewerFormat, StoreError

LONGEST = 60.0  # s; a fail-over takes tens of seconds
_LASTING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


class Hiccups:
    """The errors of one thread: call `bear` with each, and `well` when something worked."""

    def __init__(self, patience: float = LONGEST) -> None:
        self._patience = patience
        self._since: float | None = None

    def well(self) -> None:
        self._since = None

    def bear(self, problem: Exception) -> None:
        """Returns when it is worth another try; else, or when it has lasted too long, raises `problem`."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if not may_pass(problem) or now - self._since > self._patience:
            raise problem


def may_pass(problem: Exception) -> bool:
    """Whether it may be over in a moment."""
    if isinstance(problem, StoreError) and not isinstance(problem, CorruptFile | NewerFormat):
        cause = problem.__cause__
        return not (isinstance(cause, OSError) and cause.errno in _LASTING)
    if isinstance(problem, KgqaError):
        return False
    return isinstance(problem, OSError) and problem.errno not in _LASTING
