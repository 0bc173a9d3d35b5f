"""Notes and progress of a command on stderr, in the amount the user asked for.

Progress is a bar on a terminal, and one plain line per minute in a log.

`kgqa -q` prints results and errors only; `kgqa -v` adds debug lines of the loggers under `kgqa_hpc`, among them the
entries of worker logs. Used as a library (in a notebook), the package prints notes and progress, like plain `kgqa`.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kgqa_hpc.text.plain_text import plain

LINE_EVERY = 60.0  # s between two lines of a log
SHORT = 2.0  # s; stages that are done sooner show nothing

# Called as progress(done, total, label) by the thread that asked for the work; `done` and `total` count its parts.
StageProgress = Callable[[int, int, str], None]

LOG = logging.getLogger("kgqa_hpc")
_quiet = False


def set_up(*, quiet: bool = False, verbose: bool = False) -> None:
    """Set the verbosity of this process."""
    global _quiet
    _quiet = quiet
    for handler in [handler for handler in LOG.handlers if isinstance(handler, _ToTerminal)]:
        LOG.removeHandler(handler)
    LOG.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.NOTSET)
    if verbose:
        LOG.addHandler(_ToTerminal())


def note(text: str) -> None:
    """Print a note, unless quiet; control characters of foreign names and paths are removed."""
    if not _quiet:
        print(plain(text), file=sys.stderr, flush=True)


class _ToTerminal(logging.Handler):
    """Handler that prints debug lines with time and logger name; control characters are removed."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        print(plain(self.format(record)), file=sys.stderr, flush=True)


class Progress:
    """Progress display of a run: `update(ended, total, words)`, with further text in `words`. Not thread-safe."""

    def __init__(self, interactive: bool | None = None) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._last_line = -LINE_EVERY
        self._last_text = ""
        if _interactive(interactive):
            self._bar = _bar()
            self._task = self._bar.add_task("", total=None)
            self._bar.start()

    def update(self, ended: int, total: int, words: str, *, last: bool = False) -> None:
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._task, completed=ended, total=total, description=words)
        elif last or now - self._last_line >= LINE_EVERY:
            self._last_line = now
            text = f"run     {ended:,} of {total:,} items · {words}"
            if text != self._last_text:
                note(f"{time.strftime('%H:%M:%S')} {text}")
            self._last_text = text

    def close(self, ended: int, total: int, words: str) -> None:
        """Show the final state of the progress."""
        self.update(ended, total, words, last=True)
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def stage_progress(interactive: bool | None = None) -> Iterator[StageProgress]:
    """The function `progress(done, total, label)` for one stage, silent for its first `SHORT` seconds.

    After that, on a terminal: a bar for each unfinished label; in a log: a line for each label that takes longer than
    `SHORT`, first at that time, then every `LINE_EVERY` seconds, and at its end.
    """
    if not _interactive(interactive):
        yield _StageLines().update
        return
    bars = _StageBars()
    try:
        yield bars.update
    finally:
        bars.close()


class _StageLines:
    """Progress as log lines; the work of a label is assumed to begin at the previous label's last report."""

    def __init__(self) -> None:
        self._label = ""
        self._began = self._heard = time.monotonic()
        self._next = 0.0

    def update(self, done: int, total: int, label: str) -> None:
        now = time.monotonic()
        if label != self._label:
            self._label, self._began, self._next = label, self._heard, SHORT
        self._heard = now
        spent = now - self._began
        if spent >= self._next or (done >= total and spent >= SHORT):
            self._next = spent + LINE_EVERY
            text = f"{label}: {done:,} of {total:,}, {spent:.0f} s"
            note(f"{time.strftime('%H:%M:%S')} {text}")


class _StageBars:
    def __init__(self) -> None:
        self._began = time.monotonic()
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}

    def update(self, done: int, total: int, label: str) -> None:
        if label not in self._tasks:
            if done >= total or time.monotonic() - self._began < SHORT:
                return
            if self._bar is None:
                self._bar = _bar()
                self._bar.start()
            self._tasks[label] = self._bar.add_task(label, total=total)
        self._bar.update(self._tasks[label], completed=done, total=total)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _interactive(requested: bool | None) -> bool:
    """Whether to draw progress bars."""
    return not _quiet and (sys.stderr.isatty() if requested is None else requested)


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
