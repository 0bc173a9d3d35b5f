"""Caller of step code, which may come from an extension: an exception fails its item and nothing else."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from kgqa_hpc.errors import KgqaError
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Retry, Step
from kgqa_hpc.terminal import LOG

Given = TypeVar("Given")


class Guard:
    """Calls step code; logs the traceback of a step's first exception of each type.

    `around` encloses each call: a stop interrupts the code there (cluster/stop.py).
    """

    def __init__(self, around: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._around = around
        self._reported: set[tuple[str, str]] = set()

    def __call__(self, step: Step, item: Item, work: Callable[[], Given]) -> Given | Retry:
        """Return the result of `work`; an unexpected exception becomes a failure of this item."""
        try:
            with self._around():
                return work()
        except KgqaError:
            raise
        except (Exception, SystemExit) as problem:  # noqa: BLE001  it may be the code of an extension
            kind = type(problem).__name__
            if (step.label, kind) not in self._reported:
                self._reported.add((step.label, kind))
                LOG.warning("%s: item %s: %s: %s", step.entry, item.id, kind, problem, exc_info=True)
            return Retry(kind, lost_as="failed")
