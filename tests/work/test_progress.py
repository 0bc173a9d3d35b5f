"""What people see while it runs: plain lines in a log, a bar on a terminal; and the worker's own log."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from kgqa_hpc.errors import StoreError
from kgqa_hpc.terminal import LINE_EVERY, Progress, stage_progress
from kgqa_hpc.work.session import Logbook


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that passes, in its only element."""
    now = [1000.0]
    monkeypatch.setattr("kgqa_hpc.terminal.time.monotonic", lambda: now[0])
    return now


def test_a_log_gets_the_first_line_at_once_and_then_one_per_interval(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    progress = Progress(interactive=False)
    for step in range(300):
        clock[0] += 1
        progress.update(step, 300, "shards 1 of 9")
    progress.update(300, 300, "shards 9 of 9", last=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 + int(299 / LINE_EVERY) + 1
    assert lines[0].endswith("run     0 of 300 items · shards 1 of 9")
    assert lines[-1].endswith("run     300 of 300 items · shards 9 of 9")


def test_a_terminal_gets_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(interactive=True)
    progress.update(30, 300, "shards 1 of 9")
    progress.update(300, 300, "shards 9 of 9", last=True)
    assert "300/300" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        # Label, number of parts that are told one by one, seconds of each.
        ([("triangles", 10, 0.05), ("edges", 10, 0.05), ("links", 10, 0.05)], []),
        (
            [("counting", 10, 0.1), ("sampling", 10, 1.0), ("writing", 10, 0.15)],
            ["sampling: 2 of 10, 2 s", "sampling: 10 of 10, 10 s"],
        ),
        ([("triangles", 1, 5), ("edges", 1, 1)], ["triangles: 1 of 1, 5 s"]),
        (
            [("counting", 121, 1)],
            ["counting: 2 of 121, 2 s", "counting: 62 of 121, 62 s", "counting: 121 of 121, 121 s"],
        ),
    ],
    ids=["short", "one longer", "the first part counts", "every minute"],
)
def test_in_a_log_a_label_that_takes_longer_than_two_seconds_tells_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
    clock: list[float],
    parts: list[tuple[str, int, float]],
    lines: list[str],
) -> None:
    with stage_progress(interactive=False) as progress:
        for label, number, seconds in parts:
            for done in range(1, number + 1):
                clock[0] += seconds
                progress(done, number, label)
    assert [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()] == lines


def test_on_a_terminal_a_label_that_takes_longer_than_two_seconds_gets_a_bar(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with stage_progress(interactive=True) as progress:
        for label, seconds in (("counting", 0.1), ("sampling", 1.0)):
            for done in range(100, 1001, 100):
                clock[0] += seconds
                progress(done, 1000, label)
    shown = capsys.readouterr().err
    assert "1000/1000" in shown
    assert "sampling" in shown
    assert "counting" not in shown


def test_a_log_line_is_an_object_with_time_worker_and_event(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "w0.jsonl"
    with closing(Logbook(path, "w0")) as log:
        log.write("shard-done", shard="shard-000003", items=20)
    log.write("after its end")
    (line,) = path.read_text().splitlines()
    entry = json.loads(line)
    assert entry.pop("time") > 0
    assert entry == {"worker": "w0", "event": "shard-done", "shard": "shard-000003", "items": 20}
    (tmp_path / "w1.jsonl").mkdir()
    with pytest.raises(StoreError, match=r"w1\.jsonl"):
        Logbook(tmp_path / "w1.jsonl", "w1")
