"""Asking an engine, as every test of one does."""

from collections.abc import Iterator
from typing import Any

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.mailbox import Mailbox


def user(text: str, **settings: Any) -> Request:
    """A request with one message; its id is the text unless `id` says another."""
    return Request(settings.pop("id", text), ({"role": "user", "content": text},), **settings)


def answers_of(engine: Any, requests: list[Request]) -> dict[str, Response]:
    """The answers by id: exactly one to each request."""
    answers: Iterator[Response] = engine.generate(Mailbox.holding(requests))
    by_id = {}
    for answer in answers:
        assert answer.id not in by_id, f"{answer.id} was answered twice"
        by_id[answer.id] = answer
    assert by_id.keys() == {request.id for request in requests}
    return by_id
