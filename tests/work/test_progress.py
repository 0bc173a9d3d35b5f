"""What people see while it runs: plain lines in a log, a bar on a terminal; and the worker's own log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgqa_hpc.errors import StoreError
from kgqa_hpc.terminal import LINE_EVERY, Progress, StageProgress, stage_progress
from kgqa_hpc.work.session import Logbook


def test_a_log_gets_the_first_line_at_once_and_then_one_per_interval(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("kgqa_hpc.terminal.time.monotonic", lambda: now[0])
    progress = Progress(interactive=False)
    for step in range(300):
        now[0] += 1
        progress.update(step, 300, "shards 1 of 9")
    progress.close(300, 300, "shards 9 of 9")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 + int(299 / LINE_EVERY) + 1
    assert lines[0].endswith("run     0 of 300 items · shards 1 of 9")
    assert lines[-1].endswith("run     300 of 300 items · shards 9 of 9")


def test_a_terminal_gets_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(interactive=True)
    progress.update(30, 300, "shards 1 of 9")
    progress.close(300, 300, "shards 9 of 9")
    assert "300/300" in capsys.readouterr().err


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that passes, in its only element."""
    now = [1000.0]
    monkeypatch.setattr("kgqa_hpc.terminal.time.monotonic", lambda: now[0])
    return now


def play(progress: StageProgress, clock: list[float], label: str, seconds: float) -> None:
    """A thousand parts of work, told every hundred."""
    for done in range(100, 1001, 100):
        clock[0] += seconds / 10
        progress(done, 1000, label)


@pytest.mark.parametrize("interactive", [False, True])
def test_a_stage_of_less_than_two_seconds_shows_nothing(
    capsys: pytest.CaptureFixture[str], clock: list[float], interactive: bool
) -> None:
    with stage_progress(interactive) as progress:
        for label in ("triangles", "edges", "links"):
            play(progress, clock, label, 0.5)
    assert capsys.readouterr().err == ""


def test_in_a_log_a_longer_label_tells_how_far_it_is_and_when_it_is_done(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with stage_progress(interactive=False) as progress:
        play(progress, clock, "counting", 1.0)
        play(progress, clock, "sampling", 10.0)
        play(progress, clock, "writing", 1.5)
    lines = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["sampling: 200 of 1,000, 2 s", "sampling: 1,000 of 1,000, 10 s"]


def test_the_first_part_of_a_label_counts_from_the_end_of_the_label_before(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with stage_progress(interactive=False) as progress:
        clock[0] += 5
        progress(1, 1, "triangles")
        clock[0] += 1
        progress(1, 1, "edges")
    assert [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()] == [
        "triangles: 1 of 1, 5 s"
    ]


def test_in_a_log_long_work_is_heard_of_every_minute(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with stage_progress(interactive=False) as progress:
        for done in range(1, 601):
            clock[0] += 1
            progress(done, 600, "counting")
    assert len(capsys.readouterr().err.splitlines()) == 1 + int(600 / LINE_EVERY)


def test_on_a_terminal_what_is_still_at_work_after_two_seconds_gets_a_bar(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with stage_progress(interactive=True) as progress:
        play(progress, clock, "counting", 1.0)
        play(progress, clock, "sampling", 10.0)
    shown = capsys.readouterr().err
    assert "1000/1000" in shown
    assert "sampling" in shown
    assert "counting" not in shown


def test_a_log_line_is_an_object_with_time_worker_and_event(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "w0.jsonl"
    with Logbook(path, "w0") as log:
        log.write("shard-done", shard="shard-000003", items=20)
    log.write("after its end")
    (line,) = path.read_text().splitlines()
    entry = json.loads(line)
    assert entry.pop("time") > 0
    assert entry == {"worker": "w0", "event": "shard-done", "shard": "shard-000003", "items": 20}


def test_a_log_that_cannot_be_written_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "w0.jsonl").mkdir()
    with pytest.raises(StoreError, match=r"w0\.jsonl"):
        Logbook(tmp_path / "w0.jsonl", "w0")
