"""Progress for people: a bar on a terminal, one plain line per minute in a log. Always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LINE_EVERY = 60.0  # s between two lines of a log

StageProgress = Callable[[int, int, str], None]


class Progress:
    """Of a run: `update(ended, total, words)`; the words say the rest. Used by one thread."""

    def __init__(self, interactive: bool | None = None) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._last_line = -LINE_EVERY
        self._last_text = ""
        if sys.stderr.isatty() if interactive is None else interactive:
            self._bar = _bar()
            self._task = self._bar.add_task("", total=None)
            self._bar.start()

    def update(self, ended: int, total: int, words: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=ended, total=total, description=words)
            return
        now = time.monotonic()
        if now - self._last_line >= LINE_EVERY:
            self._last_line = now
            self._print(ended, total, words)

    def close(self, ended: int, total: int, words: str) -> None:
        """Show how it ended."""
        if self._bar is not None:
            self.update(ended, total, words)
            self._bar.stop()
        else:
            self._print(ended, total, words)

    def _print(self, ended: int, total: int, words: str) -> None:
        text = f"run     {ended:,} of {total:,} items · {words}"
        if text != self._last_text:
            self._last_text = text
            print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@contextmanager
def stage_progress() -> Iterator[StageProgress]:
    """A `progress(done, total, label)` for a stage of its own: a bar per label, or a line per finished
    label.
    """
    if not sys.stderr.isatty():
        yield _line_when_done
        return
    bar = _bar()
    tasks: dict[str, Any] = {}

    def show(done: int, total: int, label: str) -> None:
        if label not in tasks:
            tasks[label] = bar.add_task(label, total=total)
        bar.update(tasks[label], completed=done, total=total)

    with bar:
        yield show


def _line_when_done(done: int, total: int, label: str) -> None:
    if done >= total:
        print(f"{label}: {total:,}", file=sys.stderr, flush=True)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    return Bar(
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        refresh_per_second=2,
    )
