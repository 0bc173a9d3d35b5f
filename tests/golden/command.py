"""`kgqa` called in this process, through the entry point of the installed command."""

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from kgqa_hpc.cli import main


@dataclass(frozen=True)
class Ended:
    """Exit code, standard output, and the error that stderr ends with (empty after exit code 0)."""

    code: int
    stdout: str
    error: str


def kgqa(*arguments: object) -> Ended:
    """Run a command as a shell does."""
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in "oe")
    code = 0
    with (
        patch.object(sys, "argv", ["kgqa", *map(str, arguments)]),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    written, said = (stream.buffer.getvalue().decode() for stream in (stdout, stderr))  # type: ignore[attr-defined]
    error = re.search(r"^error:.*", said, re.S | re.M | re.I) if code else None
    return Ended(code, written, error[0].strip() if error else "")


def succeed(*arguments: object) -> Ended:
    """Run a command that must end with exit code 0."""
    ended = kgqa(*arguments)
    assert ended.code == 0, f"kgqa {' '.join(map(str, arguments))}: {ended.code}: {ended.error}"
    return ended
