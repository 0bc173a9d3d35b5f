"""Whole runs over the Batch API: a kill -9 while batches are out pays for nothing twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import Request
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.scripted.engine import ScriptedEngine, ScriptedSettings
from tests.command import end_tree, environment, kgqa
from tests.engines.openai_batch.batch_server import KEY, BatchService, batch_service
from tests.runs import anchors, new_run
from tests.waiting import wait_for

ITEMS = 12


def scripted(body: dict[str, Any]) -> str:
    schema = body["response_format"]["json_schema"]["schema"]
    request = Request("r", tuple(body["messages"]), 1000, body["temperature"], body["seed"], schema)
    return next(ScriptedEngine(ScriptedSettings()).generate(Mailbox.holding([request]))).text


def new_batch_run(folder: Path, service: BatchService) -> Path:
    engine = {
        "kind": "openai_batch",
        "model": "m",
        "base_url": service.url,
        "api_key_env": "TEST_KEY",
        "structured": "json_schema",
        "requests_per_batch": 6,
        "gather_s": 0.2,
        "poll_s": 0.2,
    }
    runtime = {"shard_size": 6, "commit_every": 1, "lease": 5}
    config = parse_config({"graph": {"source": "hpo"}, "engine": engine, "runtime": runtime}, "the test")
    return new_run(folder, config, anchors(ITEMS), {"seed": 1}).path


def test_a_run_killed_while_batches_are_out_goes_on_with_them_and_pays_once(tmp_path: Path) -> None:
    with batch_service(answer=scripted) as service:
        run = new_batch_run(tmp_path / "run", service)
        service.held.clear()
        words = [sys.executable, "-m", "kgqa_hpc", "run", str(run), "--trust-config"]
        process = subprocess.Popen(
            words, env=environment(TEST_KEY=KEY), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_for(lambda: len(service.batches) == 2, "both shards to be sent")
        finally:
            end_tree(process)
        service.held.set()
        kgqa("run", run, "--trust-config", TEST_KEY=KEY)
        asked = sum(
            len(service.files[batch["input_file_id"]].splitlines()) for batch in service.batches.values()
        )
    status = json.loads(kgqa("status", run, "--json").stdout)
    assert status["complete"]
    assert status["verdicts"]["accepted"] + status["verdicts"]["rejected"] > 0
    assert asked == len(service.paid)
    assert set(service.paid.values()) == {1}
