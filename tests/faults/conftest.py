"""`Commands`: kgqa commands in forked processes whose disk fails or that die (tests/faults/forked.py)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command import environment

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """How a command ended: `calls` of the file system could have been struck."""

    code: int
    calls: int
    said: str


class Commands:
    """Each call runs one command to its end; calls below `root` may fail."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forked.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(PYTHONPATH=os.pathsep.join([str(ROOT), *sys.path])),
        )

    def __call__(
        self,
        *words: object,
        fault: str = "",
        root: Path | None = None,
        user: int | None = None,
        version: str = "",
    ) -> Ended:
        output = self.root.parent / f"said-{os.getpid()}.txt"
        order = {
            "words": [str(word) for word in words],
            "output": str(output),
            "fault": fault,
            "root": str(root or self.root),
            "user": user,
            "version": version,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Ended(answer["code"], answer["calls"], output.read_text())

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    started = Commands(tmp_path_factory.mktemp("faults") / "root")
    started.root.mkdir()
    yield started
    started.end()
