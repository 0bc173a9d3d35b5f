"""The verbs called in this process; `tests.foreign.watchdog` is found however pytest was started."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kgqa_hpc import cli

sys.path.insert(0, str(Path(__file__).parents[2]))
Kgqa = Callable[..., tuple[int, str]]


@pytest.fixture
def kgqa(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Kgqa:
    """Exit code of a verb and what it said, in this process."""

    def call(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["kgqa", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        sys.stdout.flush()
        return code, "".join(capfd.readouterr())

    return call
