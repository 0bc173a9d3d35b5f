"""`kgqa` called in this process."""

from __future__ import annotations

from dataclasses import dataclass

from typer.testing import CliRunner

from kgqa_hpc.cli import app
from kgqa_hpc.errors import KgqaError


@dataclass
class Done:
    """How a command ended."""

    exit_code: int
    stdout: str
    message: str


def kgqa(*arguments: object) -> Done:
    """Call a command as `main` does: the project's errors become their exit code."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(done.exception, KgqaError):
        return Done(done.exception.exit_code, done.stdout, str(done.exception))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, "")
