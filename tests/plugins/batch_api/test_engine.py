"""The batch engine against a stand-in of the Batch API: every request is answered, and none is paid for twice."""

import functools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.openai.replies import Trouble
from kgqa_hpc.engines.scripted import ScriptedEngine, ScriptedSettings
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.plugins.batch_api.batches import Batch, BatchServer, Ledger
from kgqa_hpc.plugins.batch_api.engine import SENDINGS, OpenAIBatchEngine, OpenAIBatchSettings
from tests.command import end_tree, environment, kgqa
from tests.engines.asking import answers_of, user
from tests.plugins.batch_api.service import KEY, BatchService, batch_service
from tests.runs import anchors, new_run
from tests.waiting import wait_for

ROOT = Path(__file__).parents[3]
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchService]:
    monkeypatch.setenv("TEST_KEY", KEY)
    with batch_service(answer=lambda body: body["messages"][-1]["content"]) as service:
        yield service


def engine_of(url: str, folder: Path, **settings: Any) -> OpenAIBatchEngine:
    quick = {"gather_s": 0.01, "poll_s": 0.01, "structured": "json_schema", "requests_per_batch": 4}
    account = {"model": "m", "base_url": url, "api_key_env": "TEST_KEY"}
    return OpenAIBatchEngine(OpenAIBatchSettings(**{**account, **quick, **settings}), folder=folder)


Start = Callable[..., OpenAIBatchEngine]


@pytest.fixture
def start(service: BatchService, tmp_path: Path) -> Start:
    """Makes engines for the account and one folder, as the processes of a run do one after the other."""
    return functools.partial(engine_of, service.url, tmp_path)


def requests(number: int) -> list[Request]:
    return [user(f"q{i}", id=f"{i}", schema=SCHEMA) for i in range(number)]


def ask(engine: OpenAIBatchEngine, number: int) -> dict[str, Response]:
    return answers_of(engine, requests(number))


def assert_paid_once(service: BatchService, number: int) -> None:
    assert len(service.paid) == number
    assert set(service.paid.values()) == {1}


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
from tests.plugins.batch_api.test_engine import engine_of, requests

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


def test_a_batch_that_another_living_process_is_sending_is_not_lost(start: Start) -> None:
    sender, other = start(), start()
    batch = sender._ledger.record(
        Batch("name", (sender._ledger.key(requests(1)[0]),), "sending", time.time())
    )
    other._ledger.read()
    assert other._ledger.is_being_sent(batch)
    sender.close()
    assert not other._ledger.is_being_sent(batch)


def test_a_request_is_looked_up_without_a_walk_through_its_batch(tmp_path: Path) -> None:
    """Of a batch of 50,000 such walks took a minute, each time that batches were looked at."""

    class Key(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Key.compared += 1
            return str.__eq__(self, other)

    ledger, keys = Ledger(tmp_path, "m"), [f"{number}" for number in range(1000)]
    ledger.record(Batch("name", tuple(keys), "ended", 0.0, unanswered=frozenset(keys)))
    assert all(ledger.batch_of(Key(key)) is None for key in keys)
    assert Key.compared < 20 * len(keys)
    assert set(ledger.sendings().values()) == {1}
    ledger.close()


def test_a_refused_batch_and_a_wrong_key_end_the_engine_with_the_servers_words(
    service: BatchService, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.refuses = ["invalid_json_line"]
    with pytest.raises(EngineConfigError, match="refused for this reason"):
        ask(start(), 1)
    monkeypatch.setenv("TEST_KEY", "wrong")
    with pytest.raises(EngineConfigError, match="bad key"):
        ask(start(), 2)


def test_a_redirected_file_of_answers_ends_the_engine_and_nothing_is_sent_again(
    service: BatchService, start: Start
) -> None:
    service.moved = True
    with pytest.raises(EngineConfigError, match="HTTP 302"):
        ask(start(), 1)
    service.moved = False
    assert ask(start(), 1)["0"].finish == "stop"
    assert_paid_once(service, 1)


def test_a_deleted_file_of_answers_ends_the_engine_with_the_way_on(
    service: BatchService, start: Start
) -> None:
    service.look = lambda name: {"status": "completed", "output_file_id": "gone"}  # type: ignore[method-assign]
    with pytest.raises(EngineConfigError, match="no such file") as caught:
        ask(start(), 1)
    assert "RUN/batches" in caught.value.cure
    assert len(service.batches) == 1


ODD = [None, [], {}, {"error": "no"}, {"status": ["x"]}, {"data": "x"}]


@pytest.mark.parametrize("drops", [[], ["after"]], ids=["of a batch", "of the list"])
def test_after_replies_that_are_no_batch_and_no_list_nothing_is_paid_twice(
    service: BatchService, start: Start, drops: list[str]
) -> None:
    service.drops, service.odd = drops, [*ODD]
    assert {answer.finish for answer in ask(start(), 4).values()} == {"stop"}
    assert_paid_once(service, 4)
    assert not service.odd


def test_a_refused_batch_with_odd_errors_and_a_list_without_an_end_are_errors(
    service: BatchService, start: Start
) -> None:
    service.odd = [{"status": "failed", "errors": "x"}]
    with pytest.raises(EngineConfigError, match="it says no more"):
        ask(start(), 1)
    service.odd = [{"data": [{"id": "a", "metadata": ["x"]}], "has_more": True}] * 2
    server = start()._batches
    assert isinstance(server, BatchServer)
    with pytest.raises(Trouble, match="next page"):
        server.find("b", 0.0)


def test_a_refused_request_fails_alone_and_a_filtered_one_is_a_refusal(
    service: BatchService, start: Start
) -> None:
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


def test_a_request_that_no_batch_answers_fails_after_some(service: BatchService, start: Start) -> None:
    service.expires_at = [0] * (SENDINGS + 5)
    assert ask(start(), 1)["0"].finish == "error"
    assert len(service.batches) == SENDINGS


def test_the_mode_is_agreed_by_a_small_question_outside_of_any_batch(
    service: BatchService, start: Start
) -> None:
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


def test_a_program_of_vllms_form_answers_batches_and_its_answers_are_kept(
    start: Start, tmp_path: Path
) -> None:
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


def test_batches_are_found_on_any_page_of_the_list(start: Start) -> None:
    server = start()._batches
    assert isinstance(server, BatchServer)
    file = server.upload(b"")
    ids = {name: server.create(file, name) for name in "abcde"}
    assert {name: server.find(name, 0.0) for name in "abcde"} == ids
    assert server.find("f", 0.0) is None


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
    return new_run(folder, config, anchors(12), {"seed": 1}).path


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
