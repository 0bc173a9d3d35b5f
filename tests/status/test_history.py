"""How many items a day, from the notes of a run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kgqa_hpc.status import history
from kgqa_hpc.status.render import render
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.store.run_folder import RunFolder
from tests.status.written import done


def test_rates_leave_out_the_time_nobody_worked(tmp_path: Path) -> None:
    for now, ended in ((0, 0), (60, 60), (120, 120), (90_000, 120), (90_060, 240)):
        history.note(tmp_path, ended, now=float(now))
    speed = history.rate(tmp_path, now=90_061)
    assert speed.overall == pytest.approx(240 / 180 * 86_400)
    assert speed.last_hour == pytest.approx(120 / 60 * 86_400)


def test_the_rate_is_told_a_day_and_for_the_last_hour(run: RunFolder) -> None:
    done(run, "shard-000000")
    began = time.time() - 90_060
    for now, ended in ((0, 0), (60, 30), (90_000, 30), (90_060, 90)):
        history.note(run.logs, ended, now=began + now)
    assert "items     20 of 100 · 45.0 a minute" in render(survey(run.path))


def test_a_damaged_history_costs_a_note(tmp_path: Path) -> None:
    for now, ended in ((0, 0), (60, 60)):
        history.note(tmp_path, ended, now=float(now))
    with (tmp_path / history.NAME).open("ab") as file:
        file.write(b'\xff\x00\n{"time": 3}\n[1]\n{"time":')
    assert history.rate(tmp_path, now=61).overall == pytest.approx(86_400)
    assert history.rate(tmp_path / "empty") == history.Rate()
