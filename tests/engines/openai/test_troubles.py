"""Troubles of a server are seen: it is asked first, and its refusals stand in status, log and metrics."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc import stages
from kgqa_hpc.engines.openai import engine as engine_module
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.run import Run
from kgqa_hpc.status.render import metrics, render
from tests.project import CONFIG, write_graph
from tests.servers import QuietHandler, serving


class Busy(QuietHandler):
    """Refuses every third request that is asked for the first time."""

    protocol_version = "HTTP/1.1"
    seen: Counter[str] = Counter()
    refused = 0
    limits: list[int] = []
    lock = threading.Lock()

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(data)
        with Busy.lock:
            limit = body.get("max_tokens", 0)
            Busy.limits.append(limit)
            Busy.seen[data.decode()] += 1
            refuse = limit > 64 and len(Busy.seen) % 3 == 0 and Busy.seen[data.decode()] == 1
            Busy.refused += refuse
        if refuse:
            self.reply(429, b'{"error": {"message": "too many"}}', {"Retry-After": "0.01"})
            return
        texts = "question answer my_answer analysis reflection draft_question draft_answer decline_reason"
        content = dict.fromkeys([*texts.split(), "question_reasoning", "answer_reasoning"], "Why is it so?")
        flags = dict.fromkeys(["valid_question", "original_answer_valid", "worth_asking", "ok"], True)
        text = json.dumps({**content, **flags, "question_entities": ["a"], "answer_entities": ["b"]})
        message = {"message": {"content": text}, "finish_reason": "stop"}
        self.reply(200, json.dumps({"choices": [message]}).encode())


def config(folder: Path, address: str) -> Path:
    write_graph(folder)
    engine = f'kind: openai, model: m, base_url: "{address}/v1"'
    (folder / "run.yaml").write_text(
        CONFIG.replace("kind: scripted", engine).replace("per_shape: 6", "per_shape: 1"), encoding="utf-8"
    )
    return folder / "run.yaml"


def test_refusals_stand_in_status_log_and_metrics_after_the_run(tmp_path: Path) -> None:
    with serving(Busy) as address:
        Run.from_config(config(tmp_path, address), tmp_path / "run").work()
    assert Busy.limits[0] == 1  # asked for one token before anything was counted
    now = stages.standing(tmp_path / "run")
    engine = now["passes"][0]["engine"]
    assert engine["throttled"] == engine["retries"] == Busy.refused > 0
    assert engine["waited_s"] > 0
    assert f"{Busy.refused:,} refused as too many (429)" in render(now)
    assert f'kgqa_server_throttled{{run="run",pass="main"}} {Busy.refused}' in metrics(now)
    lines = [json.loads(line) for log in (tmp_path / "run/logs").rglob("*.jsonl") for line in log.open()]
    assert [x["server"]["throttled"] for x in lines if x.get("event") == "pass-left"] == [Busy.refused]


def test_a_server_that_is_down_is_noticed_before_the_graph_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(engine_module, "FOREIGN_PATIENCE_S", 0.1)
    run = Run.from_config(config(tmp_path, "http://127.0.0.1:9"), tmp_path / "run")
    with pytest.raises(EngineConfigError, match="is the server running"):
        run.preview(1)
    with pytest.raises(EngineConfigError, match="is the server running"):
        run.all()
    assert not (tmp_path / "run" / "kg.h5").exists()
    assert "no answer from http://127.0.0.1:9/v1, trying for 0.1 s" in capsys.readouterr().err
