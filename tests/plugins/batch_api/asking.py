"""Engines with quick pauses, and what is asked of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.plugins.batch_api.engine import OpenAIBatchEngine, OpenAIBatchSettings
from tests.engines.asking import answers_of, user
from tests.plugins.batch_api.service import BatchService

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def engine_of(url: str, folder: Path, **settings: Any) -> OpenAIBatchEngine:
    quick = {"gather_s": 0.01, "poll_s": 0.01, "structured": "json_schema", "requests_per_batch": 4}
    account = {"model": "m", "base_url": url, "api_key_env": "TEST_KEY"}
    return OpenAIBatchEngine(OpenAIBatchSettings(**{**account, **quick, **settings}), folder=folder)


Start = Callable[..., OpenAIBatchEngine]


def requests(number: int) -> list[Request]:
    return [user(f"q{i}", id=f"{i}", schema=SCHEMA) for i in range(number)]


def ask(engine: OpenAIBatchEngine, number: int) -> dict[str, Response]:
    return answers_of(engine, requests(number))


def assert_paid_once(service: BatchService, number: int) -> None:
    assert len(service.paid) == number
    assert set(service.paid.values()) == {1}
