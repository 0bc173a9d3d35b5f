"""An account of a stand-in's Batch API, engines with quick pauses for it, and what is asked of them."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.plugins.batch_api.engine import OpenAIBatchEngine, OpenAIBatchSettings
from tests.engines.asking import BOOLEAN, an_object, answers_of, user
from tests.plugins.batch_api.service import KEY, BatchService, batch_service

Start = Callable[..., OpenAIBatchEngine]


def engine_of(url: str, folder: Path, **settings: Any) -> OpenAIBatchEngine:
    quick = {"gather_s": 0.01, "poll_s": 0.01, "structured": "json_schema", "requests_per_batch": 4}
    account = {"model": "m", "base_url": url, "api_key_env": "TEST_KEY"}
    return OpenAIBatchEngine(OpenAIBatchSettings(**{**account, **quick, **settings}), folder=folder)


def requests(number: int) -> list[Request]:
    return [user(f"q{i}", id=f"{i}", schema=an_object(ok=BOOLEAN)) for i in range(number)]


def ask(engine: OpenAIBatchEngine, number: int) -> dict[str, Response]:
    return answers_of(engine, requests(number))


def assert_paid_once(service: BatchService, number: int) -> None:
    assert len(service.paid) == number
    assert set(service.paid.values()) == {1}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchService]:
    monkeypatch.setenv("TEST_KEY", KEY)
    with batch_service(answer=lambda body: body["messages"][-1]["content"]) as service:
        yield service


@pytest.fixture
def start(service: BatchService, tmp_path: Path) -> Start:
    """Makes engines for the account and one folder, as the processes of a run do one after the other."""
    return functools.partial(engine_of, service.url, tmp_path)
