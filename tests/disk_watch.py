"""Standing in front of every file-system call of the store (kgqa_hpc/store/atomic.py)."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kgqa_hpc.store import atomic

Probe = Callable[[str, str], int | None]
# What a probe is told, the function of `atomic`, and which of its arguments says where.
_CALLS = {
    "open": ("open_", 0),
    "close": ("close", 0),
    "write": ("write", 0),
    "pwrite": ("pwrite", 0),
    "truncate": ("truncate", 0),
    "fsync": ("fsync", 0),
    "rename": ("rename", 1),
    "link": ("link", 1),
    "unlink": ("unlink", 0),
    "mkdir": ("mkdir", 0),
    "utime": ("touch", 0),
}
_REAL = {name: getattr(atomic, name) for name, _ in _CALLS.values()}


@contextmanager
def watch(probe: Probe) -> Iterator[None]:
    """Call `probe(call, path or file descriptor)` before every file-system call of the store.

    A probe may count, raise an OSError (the call then fails as the operating system would fail it), kill the
    process, or return a number: a write is then cut short to so many bytes. Of two, the inner one is asked.
    """
    before = {name: getattr(atomic, name) for name in _REAL}
    for call, (name, where) in _CALLS.items():
        setattr(atomic, name, _watched(_REAL[name], call, where, probe))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(atomic, name, function)


@contextmanager
def counted() -> Iterator[list[str]]:
    """The names of all calls of the block, in order."""
    calls: list[str] = []
    with watch(lambda call, where: calls.append(call)):
        yield calls


def refuse(refused: str, number: int = errno.ENOSPC, nth: int = 1) -> Probe:
    """A probe under which each call named `refused` fails, from the nth on."""
    seen = 0

    def probe(call: str, where: str) -> None:
        nonlocal seen
        seen += call == refused
        if call == refused and seen >= nth:
            raise OSError(number, os.strerror(number))

    return probe


def before(awaited: str, action: Callable[[str], object]) -> Probe:
    """A probe that calls `action(where)` once, right before the first call named `awaited`."""
    waiting = [action]

    def probe(call: str, where: str) -> None:
        if call == awaited and waiting:
            waiting.pop()(where)

    return probe


def _watched(real: Callable[..., Any], call: str, where: int, probe: Probe) -> Callable[..., Any]:
    def watched(*arguments: Any) -> Any:
        if call == "close":
            # The descriptor is gone whatever close reports (Linux), so a refusal comes after the real call.
            real(*arguments)
            return probe(call, str(arguments[where]))
        limit = probe(call, str(arguments[where]))
        if limit is not None and call in ("write", "pwrite"):
            arguments = (arguments[0], arguments[1][:limit], *arguments[2:])
        return real(*arguments)

    return watched
