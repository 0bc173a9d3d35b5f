"""An engine over HttpEngine: two methods, and a server that fails in every way."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Literal

import pytest

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.http import HttpEngine, HttpSettings
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.errors import EngineConfigError


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


class Server(BaseHTTPRequestHandler):
    """Answers the text; "503 twice" fails two times, "400" always, "broken" is no JSON."""

    seen: ClassVar[Counter[str]] = Counter()
    keys: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        self.seen[text] += 1
        self.keys.append(self.headers["Authorization"])
        code = 400 if text == "400" else 503 if text == "503 twice" and self.seen[text] <= 2 else 200
        code = 302 if text == "redirect" else code
        body = b"{" if text == "broken" else json.dumps({"message": text.upper()}).encode()
        self.send_response(code)
        if text == "redirect":
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.seen["elsewhere"] += 1
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    Server.seen.clear()
    Server.keys.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def ask(engine: Echo, text: str) -> Response:
    (answer,) = engine.generate(Mailbox.holding([Request("1", ({"role": "user", "content": text},))]))
    return answer


def test_answers_are_read_and_a_server_in_trouble_is_asked_again(address: str) -> None:
    engine = Echo(EchoSettings(base_url=address, model="m", pause=0.001))
    assert ask(engine, "hello") == Response("1", "HELLO", "stop")
    assert ask(engine, "503 twice") == Response("1", "503 TWICE", "stop")
    assert Server.seen["503 twice"] == 3
    assert engine.info.provenance()["model"] == "m"
    engine.close()


@pytest.mark.parametrize(
    ("text", "words"), [("400", "HTTPError: HTTP Error 400"), ("broken", "JSONDecodeError")]
)
def test_what_is_refused_or_cannot_be_read_fails_that_request_at_once(
    address: str, text: str, words: str
) -> None:
    engine = Echo(EchoSettings(base_url=address, pause=0.001))
    answer = ask(engine, text)
    assert answer.finish == "error"
    assert words in str(answer.error)
    assert Server.seen[text] == 1
    engine.close()


def test_no_redirect_is_followed_for_the_key_would_travel(address: str) -> None:
    engine = Echo(EchoSettings(base_url=address, pause=0.001))
    assert "302" in str(ask(engine, "redirect").error)
    assert not Server.seen["elsewhere"]
    engine.close()


def test_a_server_that_trickles_is_cut_off_at_the_time_limit() -> None:
    """Each byte comes within the timeout of a read, the whole answer never."""
    with endless_answer() as (address, connections):
        engine = Echo(EchoSettings(base_url=address, timeout=0.3, tries=2, pause=0.001))
        answer = ask(engine, "hello")
        assert answer.finish == "error"
        assert "within 0.3 s" in str(answer.error) or "closed" in str(answer.error), answer.error
        assert connections() == 2
        engine.close()


@contextmanager
def endless_answer() -> Iterator[tuple[str, Callable[[], int]]]:
    """The address of a server that sends a byte of its body now and then, and a count of its connections."""
    ended, seen = threading.Event(), []

    class Trickle(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not ended.wait(0.05):
                    self.wfile.write(b" ")

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Trickle) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", lambda: len(seen)
        ended.set()
        server.shutdown()
        thread.join()


def test_a_server_that_is_not_there_fails_the_request_after_all_tries(address: str) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody listens there
        port = silent.getsockname()[1]
        engine = Echo(EchoSettings(base_url=f"http://127.0.0.1:{port}", tries=2, pause=0.001))
        assert ask(engine, "hello").finish == "error"
        engine.close()


def test_a_cancelled_request_is_aborted_and_not_asked(address: str) -> None:
    engine = Echo(EchoSettings(base_url=address))
    engine._stopped.set()
    request = Request("1", ({"role": "user", "content": "hello"},))
    assert engine._answer(request) == Response("1", "", "abort")
    assert not Server.seen
    engine.close()


def test_the_key_is_sent_and_a_missing_one_is_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = EchoSettings(base_url=address, api_key_env="ECHO_KEY")
    monkeypatch.delenv("ECHO_KEY", raising=False)
    with pytest.raises(EngineConfigError, match="ECHO_KEY is not set"):
        Echo(settings)
    monkeypatch.setenv("ECHO_KEY", "secret")
    engine = Echo(settings)
    ask(engine, "hello")
    assert Server.keys == ["Bearer secret"]
    assert settings.secret_names == ("ECHO_KEY",)
    engine.close()
