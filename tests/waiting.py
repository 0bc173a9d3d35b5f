"""Waiting for a condition, with a limit so long that only a fault reaches it; and whether a process is gone."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

PATIENCE = 420.0  # s; for what takes half a minute on an idle machine


def wait_for(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, f"waited {patience:.0f} s in vain for {what}"
        time.sleep(0.02)


@contextmanager
def when(condition: Callable[[], bool], act: Callable[[], object]) -> Iterator[None]:
    """`act()` is called in a thread as soon as `condition()` is true, and in the end anyway."""

    def wait_and_act() -> None:
        try:
            wait_for(condition, "the moment to act", PATIENCE / 2)
        finally:
            act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    yield
    thread.join()


def gone(process: psutil.Process) -> bool:
    """It has ended, also when nobody asked for its exit code yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # between the two
        return True
