"""`Commands`: kgqa commands in forked processes whose disk fails or that die (tests/faults/forked.py)."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command import JsonChild


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
        self._child = JsonChild(Path(__file__).with_name("forked.py"))
        self.end = self._child.end

    def __call__(self, *words: object, root: Path | None = None, **order: object) -> Ended:
        """Run `kgqa WORDS`; `order`: fault, user and version, as tests/faults/forked.py takes them."""
        output = self.root.parent / f"said-{os.getpid()}.txt"
        order |= {"words": [*map(str, words)], "output": str(output), "root": str(root or self.root)}
        answer = self._child.ask(order)
        return Ended(answer["code"], answer["calls"], output.read_text())


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    started = Commands(tmp_path_factory.mktemp("faults") / "root")
    started.root.mkdir()
    yield started
    started.end()
