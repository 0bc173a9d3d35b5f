"""What a command says on stderr beside its results: notes and progress, as much of them as the user asked for.

`kgqa -q` leaves results and errors; `kgqa -v` adds debug lines of the loggers under `kgqa_hpc`, among them what workers
write into their logs. As a library (in a notebook) the package says notes and progress, like `kgqa` without either.
"""

from __future__ import annotations

import logging
import sys

from kgqa_hpc.plain_text import plain

LOG = logging.getLogger("kgqa_hpc")
_quiet = False


def set_up(*, quiet: bool = False, verbose: bool = False) -> None:
    """Choose how much is said from now on, in this process."""
    global _quiet
    _quiet = quiet
    for handler in [each for each in LOG.handlers if isinstance(each, _ToTerminal)]:
        LOG.removeHandler(handler)
    LOG.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.NOTSET)
    if verbose:
        LOG.addHandler(_ToTerminal())


def is_quiet() -> bool:
    """Whether only results and errors are wanted."""
    return _quiet


def note(text: str) -> None:
    """One line or more that is neither result nor error; names and paths of others may stand in it."""
    if not _quiet:
        print(plain(text), file=sys.stderr, flush=True)


class _ToTerminal(logging.Handler):
    """Debug lines, each with its time and where it comes from; what others wrote cannot steer the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        print(plain(self.format(record)), file=sys.stderr, flush=True)
