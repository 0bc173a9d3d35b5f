"""Engines of one's own: over HttpEngine, with a server that fails in every way, and a Python function."""

import asyncio
import json
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from kgqa_hpc.engines import parse_engine
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.function import FunctionEngine, FunctionSettings
from kgqa_hpc.engines.http import HttpEngine, HttpSettings
from kgqa_hpc.engines.process import EngineProcess
from kgqa_hpc.errors import EngineConfigError, EngineDied
from kgqa_hpc.registry import FILE_ENTRIES, load_plugin_file
from tests.command import kgqa, program
from tests.engines.asking import answers_of, user
from tests.project import PATHS, write_project
from tests.servers import QuietHandler, chat_server, serving

MOODY = """
from typing import Literal
from kgqa_hpc.engines.engine import EngineInfo, EngineSettings

class Settings(EngineSettings):
    kind: Literal["moody"] = "moody"

class Moody:
    name = "moody"
    Settings = Settings
    info = EngineInfo("moody", "1", "moody-1")

    def __init__(self, settings, memory=None):
        pass

    def generate(self, mailbox):
        for request in mailbox:
            raise ValueError("rain")
        yield
"""


class EchoSettings(HttpSettings):
    kind: Literal["echo"] = "echo"


class Echo(HttpEngine):
    """Posts the last message and returns what comes back."""

    name = "echo"
    Settings = EchoSettings

    def request(self, request: Request) -> tuple[str, dict[str, Any]]:
        return "/chat", {"text": request.messages[-1]["content"]}

    def response(self, body: Any) -> str | Response:
        return str(body["message"])


@pytest.fixture
def seen() -> Counter[str]:
    """Texts, keys and other paths that the server was asked for."""
    return Counter()


@pytest.fixture
def address(seen: Counter[str]) -> Iterator[str]:
    """A server that answers the text; "503 twice" fails two times, "400" always, "broken" is no JSON."""

    def answer(handler: QuietHandler, body: Any) -> tuple[int, Any, dict[str, str]]:
        text = body["text"]
        seen.update((text, str(handler.headers["Authorization"])))
        if text == "redirect":
            return 302, b"", {"Location": "/elsewhere"}
        if text.isdigit():
            words = f"too\nlong for {handler.headers['Authorization']} {'x' * 400}"
            return int(text), words.encode(), {"Retry-After": "0.4"} if seen[text] < 2 else {}
        status = 503 if text == "503 twice" and seen[text] < 3 else 200
        return status, b"{" if text == "broken" else {"message": text.upper()}, {}

    with chat_server(answer) as address:
        yield address


def ask(engine: Echo, text: str) -> Response:
    try:
        return answers_of(engine, [user(text, id="1")])["1"]
    finally:
        engine.close()


def echo(address: str, **settings: Any) -> Echo:
    return Echo(EchoSettings(base_url=address, **{"pause": 0.001, **settings}))


def test_an_answer_is_read_and_a_busy_server_asked_again(address: str, seen: Counter[str]) -> None:
    for text, times in (("hello", 1), ("503 twice", 3)):
        assert ask(echo(address), text) == Response("1", text.upper(), "stop")
        assert seen[text] == times


REFUSED = {"400": "HTTPError: HTTP Error 400: Bad Request: too long for", "broken": "JSONDecodeError"}


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_server_refuses_fails_that_request(address: str, seen: Counter[str], text: str) -> None:
    response = ask(echo(address), text)
    assert (response.finish, seen[text]) == ("error", 1)
    assert REFUSED[text] in str(response.error)


@pytest.mark.parametrize(
    "text", ["401", "403", "404", "405", "redirect"]
)  # no redirect: the key would travel
def test_a_refused_key_or_address_ends_the_engine_with_the_words_of_the_server(
    address: str, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("ECHO_KEY", "secret-of-echo")
    with pytest.raises(EngineConfigError) as caught:
        ask(echo(address, api_key_env="ECHO_KEY"), text)
    status = "302" if text == "redirect" else text
    assert f"{address}/chat: HTTP Error {status}" in caught.value.message
    assert "secret-of-echo" not in caught.value.message
    assert text == "redirect" or "too long for Bearer *** xxx" in caught.value.message
    assert "engine." in caught.value.cure


def test_a_busy_server_says_how_long_to_wait(address: str, seen: Counter[str]) -> None:
    began = time.monotonic()
    assert ask(echo(address, tries=2), "429").finish == "error"
    assert (seen["429"], time.monotonic() - began >= 0.4) == (2, True)


def test_a_server_that_trickles_is_cut_off_at_the_time_limit() -> None:
    """Each byte comes within the timeout of a read, the whole answer never."""
    ended, connections = threading.Event(), []

    class Trickle(QuietHandler):
        def do_POST(self) -> None:
            connections.append(self.path)
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not ended.wait(0.05):
                    self.wfile.write(b" ")

    with serving(Trickle) as address:
        answer = ask(echo(address, timeout=0.3, tries=2), "hello")
        ended.set()
    assert answer.finish == "error"
    assert "within 0.3 s" in str(answer.error) or "closed" in str(answer.error), answer.error
    assert len(connections) == 2


def test_a_server_that_is_not_there_fails_the_request_and_a_cancelled_one_is_not_asked() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody listens there
        engine = echo(f"http://127.0.0.1:{silent.getsockname()[1]}", tries=2)
        assert answers_of(engine, [user("hello", id="1")])["1"].finish == "error"
        engine.stopped.set()
        assert engine.answer(user("hello", id="1")) == Response("1", "", "abort")
        engine.close()


def test_the_key_is_sent_and_a_missing_one_is_told(
    address: str, seen: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ECHO_KEY", raising=False)
    with pytest.raises(EngineConfigError, match="ECHO_KEY is not set"):
        echo(address, api_key_env="ECHO_KEY")
    monkeypatch.setenv("ECHO_KEY", "secret\n")  # as from a file
    engine = echo(address, api_key_env="ECHO_KEY", model="m")
    ask(engine, "hello")
    assert seen["Bearer secret"] == 1
    assert engine.settings.secret_names == ("ECHO_KEY",)
    assert engine.info.provenance()["model"] == "m"


PROBLEMS = {
    "fails": ValueError("no"),
    "ends": SystemExit(3),
    "is cancelled": asyncio.CancelledError("enough"),
}


def answer(messages: Any, schema: Any, seed: int) -> Any:
    """A function for `engine: {kind: function}`: the prompt says what becomes of it."""
    prompt = messages.pop()["content"]
    if prompt.startswith("edits"):
        schema["properties"][prompt] = messages[0]["content"] = "edited"
        return schema
    if prompt in PROBLEMS:
        raise PROBLEMS[prompt]
    return None if prompt == "forgets" else {"ok": True}


def test_an_exception_of_generate_is_a_death_that_names_entry_and_line(tmp_path: Path) -> None:
    (tmp_path / "moody.py").write_text(MOODY)
    load_plugin_file(tmp_path / "moody.py")
    try:
        with EngineProcess(parse_engine({"kind": "moody"}), tmp_path / "log") as engine:
            engine.start()
            engine.send([user("hello")])
            with pytest.raises(
                EngineDied, match=r"engine moody of moody\.py failed: ValueError: rain \(moody\.py line"
            ):
                engine.receive(60)
    finally:
        del FILE_ENTRIES["engines"]["moody"]


def test_an_exception_an_exit_and_a_cancellation_fail_their_request_alone() -> None:
    engine = FunctionEngine(FunctionSettings(call=f"{__name__}:answer"))
    answers = answers_of(engine, [user(text) for text in [*PROBLEMS, "forgets", "fine"]])
    engine.close()
    assert answers["fine"].text == '{"ok": true}'
    errors = [answers[text].error for text in PROBLEMS]
    assert errors == ["ValueError: no", "SystemExit: 3", "CancelledError: enough"]
    assert answers["forgets"].error == "TypeError: the function returned None, not a text or an object"


def test_what_a_function_edits_is_gone_in_the_next_request() -> None:
    """Requests of a frame share their schema and their instructions."""
    schema = {"properties": {}}
    system = {"role": "system", "content": "rules"}
    requests = [
        Request(name, (system, {"role": "user", "content": name}), schema=schema)
        for name in ("edits 1", "edits 2")
    ]
    engine = FunctionEngine(FunctionSettings(call=f"{__name__}:answer"))
    answers = answers_of(engine, requests)
    engine.close()
    assert [list(json.loads(a.text)["properties"]) for _, a in sorted(answers.items())] == [
        ["edits 1"],
        ["edits 2"],
    ]
    assert system["content"] == "rules"


def test_a_module_that_exits_at_import_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "exiting.py").write_text("import sys\nsys.exit(1)\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(EngineConfigError, match="cannot be imported: SystemExit: 1"):
        FunctionEngine(FunctionSettings(call="exiting:answer"))


async def waiting(messages: Any, schema: Any, seed: int) -> str:
    return "{}"


def yielding(messages: Any, schema: Any, seed: int) -> Iterator[str]:
    yield "{}"


class Later:
    __call__ = staticmethod(waiting)


later = Later()


@pytest.mark.parametrize("name", ["waiting", "yielding", "Echo", "later"])
def test_what_returns_no_answer_when_it_is_called_is_refused(name: str) -> None:
    with pytest.raises(EngineConfigError, match=f"{name} is not a function that returns an answer"):
        FunctionEngine.ask_once(FunctionSettings(call=f"{__name__}:{name}"))


def test_a_module_in_the_working_folder_is_found_and_counts_alike_however_the_program_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_project(tmp_path, PATHS.replace("kind: scripted", 'kind: function, call: "near:answer"'))
    monkeypatch.chdir(tmp_path)  # not on the module path of this process or of the script `kgqa`
    assert "there is no module near" in kgqa("init", config, "run", code=2).stderr
    (tmp_path / "near.py").write_text("def reply(): ...\n")
    assert "has no attribute 'answer'" in kgqa("all", config, "run", code=2).stderr
    assert not (tmp_path / "run" / "kg.h5").exists(), "it was told after the import"
    (tmp_path / "run" / "results").mkdir()  # a run with answers takes no other configuration
    program("init", config, "run")  # `python -m` searches the working folder first: so starts a job
    (tmp_path / "near.py").write_text("def answer(): ...\n")
    assert "passes.main.contents.call" in program("init", config, "run", code=2).stderr
