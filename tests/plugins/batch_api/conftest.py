"""Quick pauses, an account, and engines for it."""

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgqa_hpc.engines.openai import agreement
from tests.plugins.batch_api.asking import Start, engine_of
from tests.plugins.batch_api.service import KEY, BatchService, batch_service


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "PAUSE_S", 0.01)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchService]:
    monkeypatch.setenv("TEST_KEY", KEY)
    with batch_service(answer=lambda body: body["messages"][-1]["content"]) as service:
        yield service


@pytest.fixture
def start(service: BatchService, tmp_path: Path) -> Start:
    """Makes engines for the account and one folder, as the processes of a run do one after the other."""
    return functools.partial(engine_of, service.url, tmp_path)
