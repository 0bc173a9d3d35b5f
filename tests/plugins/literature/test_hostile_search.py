"""A search service that answers to harm is one line of trouble."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kgqa_hpc.errors import InputError, StoreError
from kgqa_hpc.plugins.literature.documents import opensearch
from kgqa_hpc.plugins.literature.documents.opensearch import OpenSearchIndex
from tests.foreign.test_hostile_replies import Raw, chunked, nested, with_length
from tests.foreign.watchdog import watched

HITS = {
    "1,010 levels": nested(1010),
    "a list": b"[]",
    "hits that are none": b'{"hits": 1}',
    "a hit without a score": b'{"hits": {"hits": [{"_id": "a", "_score": null}]}}',
    "a hit that is a text": b'{"hits": {"hits": ["a"]}}',
    "a source that is a list": b'{"hits": {"hits": [{"_id": "a", "_score": 1, "_source": [1]}]}}',
    "no JSON": b"\xff",
}


def searched(reply: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(opensearch, "ATTEMPTS", 1)

    async def search() -> Any:
        async with await asyncio.start_server(Raw(reply), "127.0.0.1", 0) as listener:
            url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            return await asyncio.to_thread(OpenSearchIndex(url, "i", pause=0).search, "cat")

    with watched(), pytest.raises((StoreError, InputError)) as caught:
        asyncio.run(search())
    return caught.value.message


@pytest.mark.parametrize("name", HITS)
def test_a_search_service_that_answers_to_harm_is_one_line(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = searched(with_length(HITS[name]), monkeypatch)
    assert message.isprintable()
    assert len(message) < 1_000


@pytest.mark.parametrize("reply", [b"HTTP/1.1 2\x1b[2J\r\n\r\n", b"x\r\n", b"", chunked(b"{", end=b"zz\r\n")])
def test_what_is_no_http_is_one_line_too(reply: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(reply, monkeypatch).isprintable()


def test_a_search_service_that_floods_is_given_up_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opensearch, "LARGEST_REPLY", 1 << 20)
    assert "more than 1 MiB" in searched(chunked(*[b" " * (1 << 20)] * 4), monkeypatch)
