"""One example of foreign input may take seconds of processor time, never more; and how many examples are tried.

Processor time, not the clock: a loaded machine is not a defect. What holds the interpreter itself, and so
hears no signal, ends the process with a traceback of where it stood.
"""

import faulthandler
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# CONTRIBUTING.md: KGQA_EXAMPLES=100000 is the whole; the ordinary suite tries fewer.
EXAMPLES = int(os.environ.get("KGQA_EXAMPLES", "300"))
SECONDS = 10.0  # of processor time for one example; the slowest take hundredths
DEAF = 600.0  # s by the clock, for what hears no signal


class Hangs(AssertionError):
    """An example took too long."""


@contextmanager
def watched(what: object = "an example", seconds: float = SECONDS) -> Iterator[None]:
    """Fails when the block takes more than so many seconds of processor time."""

    def bark(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"more than {seconds:.0f} s of processor time for {str(what)[:200]!r}")

    before = signal.signal(signal.SIGPROF, bark)
    faulthandler.dump_traceback_later(DEAF, exit=True)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGPROF, before)
