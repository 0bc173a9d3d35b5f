"""Quick pauses for all tests of the engine."""

import pytest

from kgqa_hpc.engines.openai import agreement


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "PAUSE_S", 0.01)
