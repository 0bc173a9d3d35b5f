"""How long a server asks to be left alone: seconds, dates, milliseconds, exhausted rate limits."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from kgqa_hpc.engines.openai.chat_api import exhausted, retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1e9"}, 3600.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0.5s"}, 360.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "120s"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "tomorrow"}, None),
        ({}, None),
    ],
)
def test_a_pause_is_read_from_any_of_the_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_is_read_as_seconds_from_now() -> None:
    seconds = retry_after({"retry-after": formatdate(time.time() + 100, usegmt=True)})
    assert 0 < (seconds or 0) <= 100
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0


def test_a_limit_that_is_not_exhausted_asks_for_no_pause() -> None:
    assert exhausted({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "60s"}) is None
