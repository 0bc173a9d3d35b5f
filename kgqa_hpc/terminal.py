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

LINE_EVERY = 60.0  # seconds between two progress lines in a log
SHORT = 2.0  # seconds; a stage that ends sooner shows no progress

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
        handler = _ToTerminal()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
        LOG.addHandler(handler)


def note(text: str) -> None:
    """Print a note, unless quiet; control characters of foreign names and paths are removed."""
    if not _quiet:
        print(plain(text), file=sys.stderr, flush=True)


class _ToTerminal(logging.Handler):
    """Handler that prints debug lines; control characters are removed."""

    def emit(self, record: logging.LogRecord) -> None:
        print(plain(self.format(record)), file=sys.stderr, flush=True)


class Progress:
    """Progress display of a run: `update(ended, total, words)`, with further text in `words`. Not thread-safe.

    `drawn`: whether bars are shown, one for each key of `show`: on a terminal, unless the command is quiet.
    """

    def __init__(self, interactive: bool | None = None) -> None:
        self.drawn = not _quiet and (sys.stderr.isatty() if interactive is None else interactive)
        self.tasks: dict[str, Any] = {}
        self._bars: Any = None
        self._last_line = -LINE_EVERY
        self._last_text = ""

    def show(self, key: str, done: int, total: int, words: str) -> None:
        if self._bars is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bars

            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.description}"),
            )
            self._bars = Bars(*columns, console=Console(stderr=True), refresh_per_second=2)
            self._bars.start()
        if key not in self.tasks:
            self.tasks[key] = self._bars.add_task(words, total=total)
        self._bars.update(self.tasks[key], completed=done, total=total, description=words)

    def update(self, ended: int, total: int, words: str, *, last: bool = False) -> None:
        """Show the progress; with `last`, the final state in any case, and end the bars."""
        now = time.monotonic()
        if self.drawn:
            self.show("run", ended, total, words)
        elif last or now - self._last_line >= LINE_EVERY:
            self._last_line = now
            text = f"run     {ended:,} of {total:,} items · {words}"
            if text != self._last_text:
                note(f"{time.strftime('%H:%M:%S')} {text}")
            self._last_text = text
        if last:
            self.stop()

    def stop(self) -> None:
        if self._bars is not None:
            self._bars.stop()


@contextmanager
def stage_progress(interactive: bool | None = None) -> Iterator[StageProgress]:
    """The function `progress(done, total, label)` for one stage, silent for its first `SHORT` seconds.

    After that, on a terminal: a bar for each unfinished label; in a log: a line for each label that takes longer than
    `SHORT`, first at that time, then every `LINE_EVERY` seconds, and at its end. The work of a label is assumed to
    begin at the previous label's last report.
    """
    bars = Progress(interactive)
    began = label_began = heard = time.monotonic()
    current, next_line = "", 0.0

    def update(done: int, total: int, label: str) -> None:
        nonlocal label_began, heard, current, next_line
        now = time.monotonic()
        if bars.drawn:
            if label in bars.tasks or (done < total and now - began >= SHORT):
                bars.show(label, done, total, label)
            return
        if label != current:
            current, label_began, next_line = label, heard, SHORT
        heard, spent = now, now - label_began
        if spent >= next_line or (done >= total and spent >= SHORT):
            next_line = spent + LINE_EVERY
            note(f"{time.strftime('%H:%M:%S')} {label}: {done:,} of {total:,}, {spent:.0f} s")

    try:
        yield update
    finally:
        bars.stop()
