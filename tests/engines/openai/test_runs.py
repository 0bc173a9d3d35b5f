"""Whole runs by a server: its troubles stand in status, log and metrics, and what it says beside its answers in the
dataset (thoughts, refusals, parameters learned in mid-run).
"""

import json
import threading
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kgqa_hpc import stages
from kgqa_hpc.dataset.combine import combine
from kgqa_hpc.dataset.explain import explain, render
from kgqa_hpc.engines.openai import agreement
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.run import Run
from kgqa_hpc.status import render as status_render
from kgqa_hpc.store.run_folder import RunFolder
from tests.chat_program import ANSWER, TEXT
from tests.dataset.conftest import records_of
from tests.project import CONFIG, write_project
from tests.servers import chat_server, completion

REFUSAL = "I cannot write about that entity."
WORDS = "Why is this one so closely related to"


class Moody:
    """Thinks before it answers; refuses each third new request at first, `seed` from the sixth question on, and one
    question for good.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.questions: dict[str, int] = {}
        self.bodies: Counter[str] = Counter()
        self.limits: list[int] = []
        self.throttled = 0

    def __call__(self, handler: Any, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        prompt, limit, data = body["messages"][-1]["content"], body["max_tokens"], json.dumps(body)
        asked = "entity" in prompt and WORDS not in prompt  # for a question, not for a verdict
        with self.lock:
            number = self.questions.setdefault(prompt, len(self.questions)) if asked else 0
            self.limits.append(limit)
            self.bodies[data] += 1
            throttled = limit > 200 and len(self.bodies) % 3 == 0 and self.bodies[data] == 1
            self.throttled += throttled
        if throttled:
            return 429, {"error": {"message": "too many"}}, {"Retry-After": "0.01"}
        if number > 5 and "seed" in body:
            return 400, {"error": {"message": "Unsupported parameter: 'seed'.", "param": "seed"}}, {}
        if number == 3:
            return 200, completion({"content": None, "refusal": REFUSAL}), {}
        words = f"{WORDS} all of the others, number {number}?"
        answer = {name: words if value == TEXT else value for name, value in ANSWER.items()}
        message = {"content": json.dumps(answer), "reasoning_content": f"Thought {number}."}
        return 200, completion(message), {}


def project(folder: Path, address: str, passes: str = "") -> Run:
    """A run that is not started yet."""
    engine = f'kind: openai, model: m, base_url: "{address}/v1", keep_thoughts: true, thinking_tokens: 100'
    config = CONFIG.replace("kind: scripted", engine).replace("per_shape: 6", "per_shape: 1") + passes
    return Run.from_config(write_project(folder, config), folder / "run")


def merged(folder: Path, server: Moody, passes: str = "") -> Path:
    serving: AbstractContextManager[str] = chat_server(server)
    with serving as address:
        run = project(folder, address, passes)
        run.work()
    run.merge()
    return folder / "run"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Moody]:
    server = Moody()
    return merged(tmp_path_factory.mktemp("moody"), server), server


@pytest.fixture
def run(served: tuple[Path, Moody]) -> Path:
    return served[0]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def records(run: Path) -> list[dict[str, Any]]:
    return records_of(run / "dataset", "accepted", "rejected")


def test_refusals_stand_in_status_log_and_metrics_after_the_run(served: tuple[Path, Moody]) -> None:
    run, server = served
    assert server.limits[0] == 1 + 100  # asked for one token, besides a thought, before anything was counted
    now = stages.standing(run)
    engine = now["passes"][0]["engine"]
    assert engine["throttled"] == engine["retries"] == server.throttled > 0
    assert engine["waited_s"] > 0
    assert f"{server.throttled:,} refused as too many (429)" in status_render.render(now)
    assert f'kgqa_server_throttled{{run="run",pass="main"}} {server.throttled}' in status_render.metrics(now)
    log = [line for path in (run / "logs").rglob("*.jsonl") for line in lines(path)]
    assert [x["server"]["throttled"] for x in log if x.get("event") == "pass-left"] == [server.throttled]


def test_kept_thoughts_are_a_column_by_step_and_stand_in_explain(run: Path) -> None:
    written = records(run)
    assert all(record["thoughts"]["generate"].startswith("Thought ") for record in written)
    assert {*written[0]["thoughts"]} == {"generate", "judge"}
    assert written[0]["thoughts"]["generate"] in render(explain(run, written[0]["id"]))


def test_a_parameter_refused_in_mid_run_stands_in_the_records_after_it_and_in_explain(run: Path) -> None:
    omitted = {r["id"]: r["provenance"]["engine"]["generate"].get("omitted") for r in records(run)}
    assert "seed" in omitted.values()
    learned = next(name for name, parameters in omitted.items() if parameters == "seed")
    assert "omitted seed" in render(explain(run, learned))


def test_a_refusal_is_an_outcome_with_its_text(run: Path) -> None:
    refused = [item for item in lines(run / "dataset/lost.jsonl") if item["reason"] == "generate: refused"]
    assert [item["refusal"] for item in refused] == [REFUSAL]
    accounting = json.loads((run / "dataset/accounting.json").read_text(encoding="utf-8"))
    assert accounting["invalid"] == {"generate: refused": 1}


def test_runs_with_thoughts_of_different_steps_are_combined(run: Path, tmp_path: Path) -> None:
    steps = "passes: [{name: main, steps: [generate, {use: judge, as: strict}]}]\n"
    second = merged(tmp_path, Moody(), steps)
    combine(tmp_path / "both", [RunFolder(run), RunFolder(second)], mixed=True)
    for record in records_of(tmp_path / "both", "accepted", "rejected"):
        assert record["thoughts"]["generate"].startswith("Thought ")
    thoughts = pq.read_schema(next((tmp_path / "both").rglob("*.parquet"))).field("thoughts").type
    assert {field.name for field in thoughts} == {"generate", "judge", "strict"}


def test_a_server_that_is_down_is_noticed_before_the_graph_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(agreement, "FOREIGN_PATIENCE_S", 0.1)
    run = project(tmp_path, "http://127.0.0.1:9")
    for command in (lambda: run.preview(1), run.all):
        with pytest.raises(EngineConfigError, match="is the server running"):
            command()
    assert not (tmp_path / "run" / "kg.h5").exists()
    assert "no answer from http://127.0.0.1:9/v1, trying for 0.1 s" in capsys.readouterr().err
