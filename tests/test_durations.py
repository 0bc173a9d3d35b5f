"""Durations are read and told in one way everywhere."""

from __future__ import annotations

import pytest

from kgqa_hpc.text.durations import clock_seconds, duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("15m", 900),
        ("2h", 7200),
        ("1.5d", 129600),
        ("00:10:00", 600),
        ("2-00:00:00", 172800),
        ("90", 90),
    ],
)
def test_a_duration_reads_like_slurm_and_like_people(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["soon", "12:30", "1:2:3:4", "", "2 weeks"])
def test_what_could_mean_two_things_or_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("2:03\n", 123), ("1:02:03", 3723), ("1-02:03:04", 93_784), ("UNLIMITED", None)]
)
def test_the_time_left_as_slurm_writes_it_is_understood(text: str, seconds: float | None) -> None:
    assert clock_seconds(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (3.66, "3.7 s"),
        (40, "40 s"),
        (600, "10 min"),
        (11_100, "3 h 5 min"),
        (90_000, "1 day 1 h"),
        (250_000, "2 days 21 h"),
        (1e9, "32 years"),
    ],
)
def test_durations_are_told_in_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text
