"""Quick pauses for all tests of the engine."""

import pytest

from kgqa_hpc.engines.openai import modes


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "PAUSE_S", 0.01)
