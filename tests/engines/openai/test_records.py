"""What a server says beside its answers reaches the dataset: thoughts, refusals, parameters learned in mid-run."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kgqa_hpc.dataset.combine import combine
from kgqa_hpc.dataset.explain import explain, render
from kgqa_hpc.run import Run
from kgqa_hpc.store.run_folder import RunFolder
from tests.project import CONFIG, write_graph
from tests.servers import QuietHandler, serving

REFUSAL = "I cannot write about that entity."
WORDS = "Why is this one so closely related to"
PAIR = "question answer my_answer analysis reflection draft_question draft_answer decline_reason"


class Thinking(QuietHandler):
    """Thinks before it answers. From the sixth question on it refuses `seed`; one it refuses to write."""

    protocol_version = "HTTP/1.1"
    prompts: dict[str, int] = {}
    lock = threading.Lock()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        asked = "entity" in prompt and WORDS not in prompt  # for a question, not for a verdict
        with Thinking.lock:
            number = Thinking.prompts.setdefault(prompt, len(Thinking.prompts)) if asked else 0
        if number > 5 and "seed" in body:
            error = {"message": "Unsupported parameter: 'seed'.", "param": "seed"}
            self.reply(400, json.dumps({"error": error}).encode())
            return
        flags = dict.fromkeys(["valid_question", "original_answer_valid", "worth_asking", "ok"], True)
        words = f"{WORDS} all of the others, number {number}?"
        texts = dict.fromkeys([*PAIR.split(), "question_reasoning", "answer_reasoning"], words)
        answer = texts | flags | {"question_entities": ["a"], "answer_entities": ["b"]}
        message: dict[str, Any] = {"content": json.dumps(answer), "reasoning_content": f"Thought {number}."}
        if number == 3:
            message = {"content": None, "refusal": REFUSAL}
        self.reply(200, json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())


def finished(folder: Path, address: str, name: str, passes: str = "") -> Path:
    engine = f'kind: openai, model: m, base_url: "{address}/v1", keep_thoughts: true, thinking_tokens: 100'
    config = CONFIG.replace("kind: scripted", engine).replace("6}", "1}") + passes
    (folder / f"{name}.yaml").write_text(config, encoding="utf-8")
    whole = Run.from_config(folder / f"{name}.yaml", folder / name)
    whole.work()
    whole.merge()
    return folder / name


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("thinking")
    write_graph(folder)
    with serving(Thinking) as address:
        return finished(folder, address, "run")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def records(run: Path) -> list[dict[str, Any]]:
    return lines(run / "dataset/accepted.jsonl") + lines(run / "dataset/rejected.jsonl")


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
    write_graph(tmp_path)
    with serving(Thinking) as address:
        steps = "passes: [{name: main, steps: [generate, {use: judge, as: strict}]}]\n"
        second = finished(tmp_path, address, "second", steps)
    combine(tmp_path / "both", [RunFolder(run), RunFolder(second)], mixed=True)
    for name in ("accepted", "rejected"):
        for record in lines(tmp_path / f"both/{name}.jsonl"):
            assert record["thoughts"]["generate"].startswith("Thought ")
    thoughts = pq.read_schema(next((tmp_path / "both").rglob("*.parquet"))).field("thoughts").type
    assert {field.name for field in thoughts} == {"generate", "judge", "strict"}
