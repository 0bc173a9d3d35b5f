"""`kgqa` called in this process, through the entry point of the installed command."""

import re
from dataclasses import dataclass

from tests import command


@dataclass(frozen=True)
class Ended:
    """Exit code, standard output, and the error that stderr ends with (empty after exit code 0)."""

    code: int
    stdout: str
    error: str


def kgqa(*arguments: object) -> Ended:
    """Run a command as a shell does."""
    done = command.kgqa(*arguments, code=None)
    error = re.search(r"^error:.*", done.stderr, re.S | re.M | re.I) if done.returncode else None
    return Ended(done.returncode, done.stdout, error[0].strip() if error else "")


def succeed(*arguments: object) -> Ended:
    """Run a command that must end with exit code 0."""
    ended = kgqa(*arguments)
    assert ended.code == 0, f"kgqa {' '.join(map(str, arguments))}: {ended.code}: {ended.error}"
    return ended
