"""A server of the OpenAI protocol that misbehaves in every way: each prompt says how."""

import http.server
import json
import socket
import struct
import threading
import time
from collections import Counter
from typing import Any

from tests.servers import QuietHandler, completion

KEY = "sk-very-secret-0123456789"
PATIENCE_S = 120.0
OOPS = (500, {"error": {"message": f"oops, your key was {KEY}"}}, {})
FAULTS: dict[str, tuple[int, Any, dict[str, str]]] = {
    "storm": (429, {"error": {"message": "too many"}}, {"Retry-After": "0.01"}),
    "500": OOPS,
    "always500": OOPS,
    "notjson": (200, b'{"choices": [{"message"', {}),
    "html": (200, b"<html>bad gateway</html>", {}),
    "nochoices": (200, {"choices": []}, {}),
    "null": (200, None, {}),
    "context": (400, {"error": {"message": "maximum context length exceeded"}}, {}),
}
LASTING = {"always500", "context"}
FINISHES = {"filter": "content_filter", "cut": "length"}


class FaultServer(http.server.ThreadingHTTPServer):
    """Does what the last word of the prompt says; most faults only the first two times they are asked for."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.busy = 0
        self.most_busy = 0
        self.room = 10**9
        self.down = False
        self.gate = threading.Event()  # while it is closed, nobody is answered
        self.gate.set()
        self.knows_schema = True
        self.knows_grammar = True
        self.obeys = True
        self.own_words = "as you like", "stop"  # text and finish of an answer that keeps to no schema
        self.key = KEY

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the game."""


class _Handler(QuietHandler):
    server: FaultServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body, server = self.posted(), self.server
        with server.lock:
            server.bodies.append(body)
            server.busy += 1
            server.most_busy = max(server.most_busy, server.busy)
            crowded = server.busy > server.room
        try:
            if not crowded:
                server.gate.wait(PATIENCE_S)
            if (answer := self._answer(body, crowded)) is not None:
                status, content, headers = answer
                self.reply(
                    status, content if isinstance(content, bytes) else json.dumps(content).encode(), headers
                )
        finally:
            with server.lock:
                server.busy -= 1

    def _answer(self, body: dict[str, Any], crowded: bool) -> tuple[int, Any, dict[str, str]] | None:
        """Status, body and headers; None if the connection was broken instead."""
        prompt, server = body["messages"][-1]["content"], self.server
        fault = prompt.split()[-1]
        with server.lock:
            server.seen[prompt] += 1
            passed = server.seen[prompt] > 2
        form = body.get("response_format") or {}
        grammar = "grammar" in body or "structural_tag" in json.dumps(form)
        refusals = {
            f"bad key {self.headers['Authorization']}": (
                401,
                self.headers["Authorization"] != f"Bearer {server.key}",
            ),
            "down": (503, server.down),
            "slow down": (429, crowded),
            "response_format is not supported": (400, bool(form or grammar) and not server.knows_schema),
            "response_format.type is not known": (400, grammar and not server.knows_grammar),
        }
        for words, (status, refused) in refusals.items():
            if refused:
                return status, {"error": {"message": words}}, {"Retry-After": "0"} if crowded else {}
        if fault in FAULTS and (fault in LASTING or not passed):
            return FAULTS[fault]
        if not passed and (breaks := getattr(self, f"_{fault}", None)):
            self.close_connection = True
            breaks()
            return None
        required = form.get("json_schema", {}).get("schema", {}).get("required", ())
        values = {"echo": prompt, **dict.fromkeys(required, ""), "ok": True}
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": 2}
        text, finish = (json.dumps(values), "stop") if server.obeys else server.own_words
        mark = "somebody-else" if fault == "wrongid" else "x"
        return 200, completion(text, FINISHES.get(fault, finish), usage=usage, id=mark), {}

    def _begin(self, length: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.flush()

    def _reset(self) -> None:
        self._begin(1000)
        self.wfile.write(b'{"choices": [')
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _hangup(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)

    def _loris(self) -> None:
        self._begin(100_000)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:  # ends when the client hangs up
            self.wfile.write(b" ")
            time.sleep(0.05)
