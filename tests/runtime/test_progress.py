"""What people see while it runs: plain lines in a log, a bar on a terminal; and the worker's own log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgqa_hpc.errors import StoreError
from kgqa_hpc.runtime.logbook import Logbook
from kgqa_hpc.runtime.progress import LINE_EVERY, Progress, stage_progress


def test_a_log_gets_the_first_line_at_once_and_then_one_per_interval(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("kgqa_hpc.runtime.progress.time.monotonic", lambda: now[0])
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


def test_a_stage_in_a_log_tells_each_label_when_it_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    with stage_progress() as progress:
        for label in ("counting", "sampling"):
            for done in range(0, 1001, 100):
                progress(done, 1000, label)
    assert capsys.readouterr().err.splitlines() == ["counting: 1,000", "sampling: 1,000"]


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
