"""The batch engine against a stand-in of the Batch API: every request is answered, and none is paid for twice."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import Request
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.openai.replies import Trouble
from kgqa_hpc.engines.scripted import ScriptedEngine, ScriptedSettings
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.plugins.batch_api.engine import SENDINGS, OpenAIBatchSettings
from tests.command import end_tree, environment, kgqa
from tests.plugins.batch_api.conftest import Start, ask, assert_paid_once, requests
from tests.plugins.batch_api.service import KEY, BatchService, batch_service
from tests.runs import anchors, new_run
from tests.waiting import wait_for

ROOT = Path(__file__).parents[3]


def test_requests_go_out_in_batches_and_answers_come_back_by_custom_id_also_to_who_comes_later(
    service: BatchService, start: Start
) -> None:
    answers = ask(start(), 10)
    assert {answer.id: answer.text for answer in answers.values()} == {f"{i}": f"q{i}" for i in range(10)}
    assert {answer.finish for answer in answers.values()} == {"stop"}
    files = [service.files[batch["input_file_id"]].splitlines() for batch in service.batches.values()]
    assert sorted(map(len, files)) == [2, 4, 4]
    line = json.loads(files[0][0])
    assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
    assert line["body"]["response_format"]["type"] == "json_schema"
    assert answers["0"].prompt_tokens == 10
    assert ask(start(), 10) == answers
    assert_paid_once(service, 10)


def test_another_process_waits_for_the_batches_that_are_out_instead_of_sending_them_again(
    service: BatchService, start: Start
) -> None:
    service.held.clear()
    engine, mailbox, looks = start(), Mailbox(), []
    mailbox.put(requests(6))
    look = engine._batches.look

    def cancelling(server_id: str) -> Any:
        looks.append(server_id)
        mailbox.cancel()  # before an answer is there
        return look(server_id)

    engine._batches.look = cancelling  # type: ignore[method-assign]
    assert {answer.finish for answer in engine.generate(mailbox)} == {"abort"}
    engine.close()
    assert looks
    service.held.set()
    ask(start(), 6)
    assert len(service.batches) == 2
    assert_paid_once(service, 6)


@pytest.mark.parametrize(
    ("trouble", "values", "batches"),
    [
        ("expires_at", [3, 0], 3),  # its answers are kept, the rest goes out again
        ("drops", ["after"], 1),  # whose creation was not seen to end: looked for by its name
        ("drops", ["before"], 1),
        ("refuses", ["token_limit_exceeded"], 2),  # the account's queue has no room now
    ],
)
def test_after_the_servers_trouble_every_request_is_answered_and_none_is_paid_twice(
    service: BatchService, start: Start, trouble: str, values: list[Any], batches: int
) -> None:
    setattr(service, trouble, values)
    assert {answer.finish for answer in ask(start(), 4).values()} == {"stop"}
    assert len(service.batches) == batches
    assert_paid_once(service, 4)


KILLED = """
import os, signal, sys
from pathlib import Path
from kgqa_hpc.engines.mailbox import Mailbox
from tests.plugins.batch_api.conftest import engine_of, requests

url, folder, name, when = sys.argv[1:]
engine = engine_of(url, Path(folder))
name, _, state = name.partition(":")
part = engine._ledger if state else engine._batches
real = getattr(part, name)

def killed(*arguments):
    hit = not state or arguments[0].state == state
    result = real(*arguments) if when == "after" or not hit else None
    if hit:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

setattr(part, name, killed)
list(engine.generate(Mailbox.holding(requests(4))))
"""


@pytest.mark.parametrize(
    ("name", "when"),  # whatever differs on the disk or at the service
    [("record:sending", "before"), ("record:sending", "after"), ("create", "after"), ("record:sent", "after"),
     ("record:ended", "before"), ("record:ended", "after")],
)  # fmt: skip
def test_a_kill_at_any_moment_never_pays_twice(
    service: BatchService, start: Start, tmp_path: Path, name: str, when: str
) -> None:
    command = [sys.executable, "-c", KILLED, service.url, tmp_path, name, when]
    assert subprocess.run(command, env=environment(), cwd=ROOT).returncode == -signal.SIGKILL
    ask(start(), 4)
    assert_paid_once(service, 4)


def test_a_refused_request_fails_alone_a_filtered_one_refuses(service: BatchService, start: Start) -> None:
    codes = {"q1": "bad_request", "q2": "content_filter"}

    def bad(body: dict[str, Any]) -> dict[str, Any] | None:
        code = codes.get(body["messages"][-1]["content"])
        return {"status_code": 400, "body": {"error": {"code": code, "message": "no"}}} if code else None

    service.bad_lines = bad
    answers = ask(start(), 4)
    assert [answers[f"{i}"].finish for i in range(4)] == ["stop", "error", "refusal", "stop"]


def test_a_service_that_takes_no_file_is_waited_for_without_a_busy_loop(
    service: BatchService, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, waits = start(poll_s=0.3), []
    upload, wait = engine._batches.upload, Mailbox.wait

    def counted(mailbox: Mailbox, *arguments: Any) -> Any:
        waits.append(arguments)
        return wait(mailbox, *arguments)

    def refused(data: bytes) -> str:
        engine._batches.upload = upload  # type: ignore[method-assign]
        raise Trouble("HTTP 503", again=True)

    engine._batches.upload = refused  # type: ignore[method-assign]
    monkeypatch.setattr(Mailbox, "wait", counted)
    assert ask(engine, 1)["0"].finish == "stop"
    assert len(waits) < 20


def test_an_engine_that_waits_for_hours_does_not_count_as_stalled(start: Start) -> None:
    engine = start(poll_s=3600)
    before = engine.progress
    wait_for(lambda: engine.progress > before, "a sign of life between two looks")


def test_a_request_that_no_batch_answers_fails_after_some(service: BatchService, start: Start) -> None:
    service.expires_at = [0] * (SENDINGS + 5)
    assert ask(start(), 1)["0"].finish == "error"
    assert len(service.batches) == SENDINGS


def test_the_mode_is_agreed_by_a_small_question_outside_a_batch(service: BatchService, start: Start) -> None:
    service.answer = lambda body: '{"ok": true}' if "response_format" in body else "hello"
    assert start(structured="auto").info.structured == "grammar"
    assert service.live
    assert not service.batches


PROGRAM = """
import json, pathlib, sys
source, target = sys.argv[1:]
pathlib.Path(target + ".runs").open("a").write("x")
with open(target, "w") as out:
    for line in open(source):
        entry = json.loads(line)
        text = entry["body"]["messages"][-1]["content"]
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        reply = {"status_code": 200, "request_id": "r", "body": {"choices": [choice], "usage": {}}}
        out.write(json.dumps({"id": "v", "custom_id": entry["custom_id"], "response": reply, "error": None}) + "\\n")
"""


def test_a_program_of_vllms_form_answers_batches_and_they_are_kept(start: Start, tmp_path: Path) -> None:
    for _ in range(2):
        engine = start(command=[sys.executable, "-c", PROGRAM, "{input}", "{output}"])
        answers = ask(engine, 6)
        engine.close()
        assert answers["5"].text == "q5"
    runs = [path.read_text() for path in tmp_path.glob("*.runs")]
    assert runs == ["x", "x"], "each of the two batches was worked on once"


def test_a_program_that_fails_or_lacks_a_file_is_an_error(start: Start) -> None:
    with pytest.raises(EngineConfigError, match="exit code 3"):
        ask(start(command=[sys.executable, "-c", "import sys; sys.exit(3)", "{input}", "{output}"]), 1)
    with pytest.raises(ValidationError, match=r"must hold \{output\}"):
        OpenAIBatchSettings(model="m", command=["vllm", "run-batch", "{input}"])


def scripted(body: dict[str, Any]) -> str:
    schema = body["response_format"]["json_schema"]["schema"]
    request = Request("r", tuple(body["messages"]), 1000, body["temperature"], body["seed"], schema)
    return next(ScriptedEngine(ScriptedSettings()).generate(Mailbox.holding([request]))).text


def new_batch_run(folder: Path, service: BatchService, **more: int) -> Path:
    account = {"kind": "openai_batch", "model": "m", "base_url": service.url, "api_key_env": "TEST_KEY"}
    pace = {"structured": "json_schema", "requests_per_batch": 6, "gather_s": 0.2, "poll_s": 0.2}
    engine = account | pace
    runtime = {"shard_size": 6, "commit_every": 1, "lease": 5, **more}
    config = parse_config({"graph": {"source": "hpo"}, "engine": engine, "runtime": runtime}, "the test")
    return new_run(folder, config, anchors(12), {"seed": 1}).path


def test_a_wrong_key_ends_the_run_before_any_item_is_given_up(tmp_path: Path) -> None:
    with batch_service(answer=scripted) as service:
        run = new_batch_run(tmp_path / "run", service)
        result = kgqa("run", run, "--trust-config", code=2, TEST_KEY="wrong")
    assert "bad key" in result.stderr
    assert json.loads(kgqa("status", run, "--json").stdout)["verdicts"]["failed"] == 0


def test_batches_refused_after_the_first_answers_end_the_run_and_its_items_stay_open(tmp_path: Path) -> None:
    with batch_service(answer=scripted) as service:
        run = new_batch_run(tmp_path / "run", service, engine_restarts=3, window=6)
        answer, codes = service.completion, ["invalid_json_line"] * 50

        def then_refuse(body: dict[str, Any]) -> dict[str, Any]:
            service.refuses = codes
            return answer(body)

        service.completion = then_refuse  # type: ignore[method-assign]
        result = kgqa("run", run, "--trust-config", code=2, TEST_KEY=KEY)
        assert "refused for this reason" in result.stderr
        status = json.loads(kgqa("status", run, "--json").stdout)
        assert status["verdicts"]["failed"] == 0
        assert not status["complete"]
        service.refuses.clear()
        service.completion = answer  # type: ignore[method-assign]
        kgqa("run", run, "--trust-config", TEST_KEY=KEY)
    assert json.loads(kgqa("status", run, "--json").stdout)["complete"]


def test_a_run_killed_while_batches_are_out_goes_on_with_them_and_pays_once(tmp_path: Path) -> None:
    with batch_service(answer=scripted) as service:
        run = new_batch_run(tmp_path / "run", service)
        service.held.clear()
        words = [sys.executable, "-m", "kgqa_hpc", "run", str(run), "--trust-config"]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(words, env=environment(TEST_KEY=KEY), **silent)
        try:
            wait_for(lambda: len(service.batches) == 2, "both shards to be sent")
        finally:
            end_tree(process)
        service.held.set()
        kgqa("run", run, "--trust-config", TEST_KEY=KEY)
        files = (service.files[batch["input_file_id"]] for batch in service.batches.values())
        asked = sum(len(file.splitlines()) for file in files)
    status = json.loads(kgqa("status", run, "--json").stdout)
    assert status["complete"]
    assert status["verdicts"]["accepted"] + status["verdicts"]["rejected"] > 0
    assert asked == len(service.paid)
    assert set(service.paid.values()) == {1}
