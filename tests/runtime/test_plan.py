"""The forecast agrees with what the published run took, and states what it assumes."""

from __future__ import annotations

import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.runtime.plan import DAY, PUBLISHED_TOKENS, forecast, item_pace, render

GENERATED, JUDGED = 269_574, 264_373  # sections 3.1.3 and 3.3: questions generated, pairs judged


def _days(items: int, step: str, **known: float) -> float:
    document = forecast(items, item_pace([step], None, **known), 1, 2 * DAY, 900)
    return document["wall_seconds"] / DAY


def test_the_published_generation_took_just_under_ten_days() -> None:
    assert 9.5 < _days(GENERATED, "generate") < 10


def test_the_same_follows_from_the_published_tokens_per_second() -> None:
    assert 9.5 < _days(GENERATED, "generate", tokens_per_s=241) < 10
    assert PUBLISHED_TOKENS["generate"] == pytest.approx(748, abs=1)


def test_the_published_judging_took_six_days() -> None:
    assert 5.5 < _days(JUDGED, "judge") < 6.2


def test_more_gpus_divide_the_time_and_keep_the_gpu_hours() -> None:
    pace = item_pace(["generate", "judge"], None)
    one, many = (forecast(GENERATED, pace, gpus, 2 * DAY, 900) for gpus in (1, 16))
    assert many["wall_seconds"] == pytest.approx(one["wall_seconds"] / 16, rel=0.02)
    assert many["gpu_hours"] == pytest.approx(one["gpu_hours"], rel=0.1)
    assert many["jobs"] == 16


def test_a_shorter_limit_means_more_jobs() -> None:
    pace = item_pace(["generate"], None)
    long, short = (forecast(GENERATED, pace, 1, limit, 900)["jobs"] for limit in (2 * DAY, 4 * 3600))
    assert long == 5
    assert short > 60


def test_a_pilot_outweighs_the_published_figures() -> None:
    measured = {
        "run": "pilot",
        "rate": {"per_day": 86_400.0},
        "passes": [{"items": 100, "tokens": {"completion": 30_000}}],
    }
    pace = item_pace(["generate", "judge"], measured, pilot_gpus=2)
    assert pace.seconds == pytest.approx(2.0)
    assert pace.tokens == pytest.approx(300)
    assert "pilot pilot" in pace.source


def test_a_limit_that_leaves_no_time_is_refused() -> None:
    with pytest.raises(InputError, match="leaves no time"):
        forecast(10, item_pace(["generate"], None), 1, 600, 900)


def test_every_assumption_is_printed() -> None:
    document = forecast(1000, item_pace(["generate"], None), 4, 2 * DAY, 900)
    text = render(document)
    assert all(assumption in text for assumption in document["assumptions"])
