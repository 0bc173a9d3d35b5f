"""The batch engine against a stand-in of the Batch API: every request is answered, and none is paid for twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.openai_batch.engine import SENDINGS, OpenAIBatchEngine
from kgqa_hpc.engines.openai_batch.server import BatchServer
from kgqa_hpc.engines.openai_batch.settings import OpenAIBatchSettings
from kgqa_hpc.errors import EngineConfigError
from tests.command import environment
from tests.engines.openai_batch.batch_server import KEY, BatchService, batch_service

ROOT = Path(__file__).parents[3]
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchService]:
    monkeypatch.setenv("TEST_KEY", KEY)
    with batch_service(answer=lambda body: body["messages"][-1]["content"]) as service:
        yield service


def start(service: BatchService, folder: Path, **settings: Any) -> OpenAIBatchEngine:
    quick = {"gather_s": 0.01, "poll_s": 0.01, "structured": "json_schema", "requests_per_batch": 4}
    config = OpenAIBatchSettings(
        **{"model": "m", "base_url": service.url, "api_key_env": "TEST_KEY", **quick, **settings}
    )
    return OpenAIBatchEngine(config, folder=folder)


def requests(number: int) -> list[Request]:
    return [Request(f"{i}", ({"role": "user", "content": f"q{i}"},), schema=SCHEMA) for i in range(number)]


def ask(engine: OpenAIBatchEngine, number: int) -> dict[str, Response]:
    answers = list(engine.generate(Mailbox.holding(requests(number))))
    assert sorted(answer.id for answer in answers) == sorted(str(i) for i in range(number))
    return {answer.id: answer for answer in answers}


def assert_paid_once(service: BatchService, number: int) -> None:
    assert len(service.paid) == number
    assert set(service.paid.values()) == {1}


def stop_waiting(engine: OpenAIBatchEngine, number: int) -> None:
    """Send batches, then cancel before an answer is there."""
    mailbox = Mailbox()
    mailbox.put(requests(number))
    answers = engine.generate(mailbox)
    look, looks = engine._batches.look, []

    def cancelling(server_id: str) -> Any:
        looks.append(server_id)
        mailbox.cancel()
        return look(server_id)

    engine._batches.look = cancelling  # type: ignore[method-assign]
    assert {answer.finish for answer in answers} == {"abort"}
    assert looks
    engine.close()


def test_requests_go_out_in_batches_and_answers_come_back_by_custom_id(
    service: BatchService, tmp_path: Path
) -> None:
    answers = ask(start(service, tmp_path), 10)
    assert {answer.id: answer.text for answer in answers.values()} == {f"{i}": f"q{i}" for i in range(10)}
    assert {answer.finish for answer in answers.values()} == {"stop"}
    assert sorted(len(service.files[b["input_file_id"]].splitlines()) for b in service.batches.values()) == [
        2,
        4,
        4,
    ]
    line = json.loads(service.files["file-0"].splitlines()[0])
    assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
    assert line["body"]["response_format"]["type"] == "json_schema"
    assert answers["0"].prompt_tokens == 10
    assert_paid_once(service, 10)


def test_another_process_waits_for_the_batches_that_are_out_instead_of_sending_them_again(
    service: BatchService, tmp_path: Path
) -> None:
    service.held.clear()
    stop_waiting(start(service, tmp_path), 6)
    made = len(service.batches)
    service.held.set()
    ask(start(service, tmp_path), 6)
    assert len(service.batches) == made
    assert_paid_once(service, 6)


def test_answers_of_a_batch_that_has_ended_are_read_again_by_who_comes_later(
    service: BatchService, tmp_path: Path
) -> None:
    first = ask(start(service, tmp_path), 5)
    assert ask(start(service, tmp_path), 5) == first
    assert_paid_once(service, 5)


def test_what_an_expired_batch_answered_is_kept_and_the_rest_goes_out_again(
    service: BatchService, tmp_path: Path
) -> None:
    service.expires_at = [3, 0]
    assert {answer.finish for answer in ask(start(service, tmp_path), 4).values()} == {"stop"}
    assert len(service.batches) == 3
    assert_paid_once(service, 4)


@pytest.mark.parametrize(("lost", "batches"), [("after", 1), ("before", 1)])
def test_a_batch_whose_creation_was_not_seen_to_end_is_looked_for_by_its_name(
    service: BatchService, tmp_path: Path, lost: str, batches: int
) -> None:
    service.drops = [lost]
    ask(start(service, tmp_path), 4)
    assert len(service.batches) == batches
    assert_paid_once(service, 4)


KILLED = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from kgqa_hpc.engines.mailbox import Mailbox
from tests.engines.openai_batch.test_engine import requests, start

url, folder, part, name, when = sys.argv[1:]
engine = start(SimpleNamespace(url=url), Path(folder))
real = getattr(getattr(engine, part), name)

def killed(*arguments):
    if when == "after":
        real(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(getattr(engine, part), name, killed)
list(engine.generate(Mailbox.holding(requests(4))))
"""


@pytest.mark.parametrize(
    ("part", "name", "when"),
    [
        ("_batches", "upload", "before"),
        ("_ledger", "begin", "before"),
        ("_ledger", "begin", "after"),
        ("_batches", "create", "after"),
        ("_ledger", "sent", "after"),
        ("_batches", "look", "after"),
        ("_batches", "lines", "after"),
        ("_ledger", "ended", "before"),
        ("_ledger", "ended", "after"),
    ],
)
def test_a_kill_at_any_moment_never_pays_twice(
    service: BatchService, tmp_path: Path, part: str, name: str, when: str
) -> None:
    command = [sys.executable, "-c", KILLED, service.url, tmp_path, part, name, when]
    assert subprocess.run(command, env=environment(), cwd=ROOT).returncode == -signal.SIGKILL
    ask(start(service, tmp_path), 4)
    assert_paid_once(service, 4)


def test_a_batch_that_another_living_process_is_sending_is_not_lost(
    service: BatchService, tmp_path: Path
) -> None:
    sender, other = start(service, tmp_path), start(service, tmp_path)
    batch = sender._ledger.begin("name", [sender._ledger.key(request) for request in requests(1)])
    other._ledger.read()
    assert other._ledger.is_being_sent(batch)
    sender.close()
    assert not other._ledger.is_being_sent(batch)


def test_a_refused_batch_ends_the_engine_with_the_servers_words(
    service: BatchService, tmp_path: Path
) -> None:
    service.refuses = ["invalid_json_line"]
    with pytest.raises(EngineConfigError, match="refused for this reason"):
        ask(start(service, tmp_path), 1)


def test_a_batch_that_the_accounts_queue_has_no_room_for_goes_out_later(
    service: BatchService, tmp_path: Path
) -> None:
    service.refuses = ["token_limit_exceeded"]
    ask(start(service, tmp_path), 3)
    assert len(service.batches) == 2
    assert_paid_once(service, 3)


def test_a_refused_request_fails_alone_and_a_filtered_one_is_a_refusal(
    service: BatchService, tmp_path: Path
) -> None:
    codes = {"q1": (400, "bad_request"), "q2": (400, "content_filter")}

    def bad(body: dict[str, Any]) -> dict[str, Any] | None:
        status, code = codes.get(body["messages"][-1]["content"], (0, ""))
        return {"status_code": status, "body": {"error": {"code": code, "message": "no"}}} if status else None

    service.bad_lines = bad
    answers = ask(start(service, tmp_path), 4)
    assert [answers[f"{i}"].finish for i in range(4)] == ["stop", "error", "refusal", "stop"]


def test_a_request_that_no_batch_answers_fails_after_some(service: BatchService, tmp_path: Path) -> None:
    service.expires_at = [0] * (SENDINGS + 5)
    answers = ask(start(service, tmp_path), 1)
    assert answers["0"].finish == "error"
    assert len(service.batches) == SENDINGS


def test_the_mode_is_agreed_by_a_small_question_outside_of_any_batch(
    service: BatchService, tmp_path: Path
) -> None:
    service.answer = lambda body: '{"ok": true}' if "response_format" in body else "hello"
    engine = start(service, tmp_path, structured="auto")
    assert engine.info.structured == "grammar"
    assert service.live
    assert not service.batches


def test_a_wrong_key_is_told_at_the_first_batch(
    service: BatchService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", "wrong")
    with pytest.raises(EngineConfigError, match="bad key"):
        ask(start(service, tmp_path), 1)


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
    service: BatchService, tmp_path: Path
) -> None:
    script = tmp_path / "run_batch.py"
    script.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(script), "{input}", "{output}"]
    for _ in range(2):
        engine = start(service, tmp_path / "batches", command=command)
        answers = ask(engine, 6)
        engine.close()
        assert answers["5"].text == "q5"
    assert len(list((tmp_path / "batches").glob("*.runs"))) == 2
    assert {path.read_text() for path in (tmp_path / "batches").glob("*.runs")} == {"x"}


def test_a_program_that_fails_is_told(service: BatchService, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit(3)", "{input}", "{output}"]
    with pytest.raises(EngineConfigError, match="exit code 3"):
        ask(start(service, tmp_path, command=command), 1)


def test_a_command_names_both_files() -> None:
    with pytest.raises(ValidationError, match=r"must hold \{output\}"):
        OpenAIBatchSettings(model="m", command=["vllm", "run-batch", "{input}"])


def test_batches_are_found_on_any_page_of_the_list(service: BatchService, tmp_path: Path) -> None:
    server = start(service, tmp_path)._batches
    assert isinstance(server, BatchServer)
    file = server.upload(b"")
    ids = {name: server.create(file, name) for name in "abcde"}
    assert {name: server.find(name, 0.0) for name in "abcde"} == ids
    assert server.find("f", 0.0) is None
