"""A server of the OpenAI protocol that misbehaves in every way: each prompt says how."""

from __future__ import annotations

import http.server
import json
import socket
import struct
import threading
import time
from collections import Counter
from typing import Any

KEY = "sk-very-secret-0123456789"
PATIENCE_S = 120.0


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
        self.key = KEY

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the game."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: FaultServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.busy += 1
            self.server.most_busy = max(self.server.most_busy, self.server.busy)
            crowded = self.server.busy > self.server.room
        try:
            self._serve(body, crowded)
        finally:
            with self.server.lock:
                self.server.busy -= 1

    def _serve(self, body: dict[str, Any], crowded: bool) -> None:
        prompt = body["messages"][-1]["content"]
        fault = prompt.split()[-1] if prompt else ""
        with self.server.lock:
            self.server.seen[prompt] += 1
            count = self.server.seen[prompt]
        if not crowded:
            self.server.gate.wait(PATIENCE_S)
        if self.headers["Authorization"] != f"Bearer {self.server.key}":
            return self._send(401, {"error": {"message": f"bad key {self.headers['Authorization']}"}})
        if self.server.down:
            return self._send(503, {"error": {"message": "down"}})
        if crowded:
            return self._send(429, {"error": {"message": "slow down"}}, {"Retry-After": "0"})
        if {"response_format", "grammar"} & body.keys() and not self.server.knows_schema:
            return self._send(400, {"error": {"message": "response_format is not supported"}})
        grammar = "grammar" in body or "structural_tag" in json.dumps(body.get("response_format"))
        if grammar and not self.server.knows_grammar:
            return self._send(400, {"error": {"message": "response_format.type is not known"}})
        method = getattr(self, f"_fault_{fault}", None)
        if method is not None and (
            count <= 2 or fault in {"always500", "context", "filter", "cut", "wrongid"}
        ):
            return method(body)
        return self._answer(body)

    def _answer(self, body: dict[str, Any], finish: str = "stop", **changes: Any) -> None:
        prompt = body["messages"][-1]["content"]
        text = (
            json.dumps({"ok": True, "echo": prompt, **self._values(body)})
            if self.server.obeys
            else "as you like"
        )
        answer = {
            "id": "x",
            "choices": [{"index": 0, "message": {"content": text}, "finish_reason": finish}],
            "usage": {"prompt_tokens": len(prompt.split()), "completion_tokens": 2,
                      "prompt_tokens_details": {"cached_tokens": 1}},
        }  # fmt: skip
        self._send(200, answer | changes)

    @staticmethod
    def _values(body: dict[str, Any]) -> dict[str, str]:
        """What a schema requires, as a server that keeps to it gives it."""
        schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema", {})
        return {name: "" for name in schema.get("required", ()) if name != "ok"}

    def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _fault_storm(self, body: Any) -> None:
        self._send(429, {"error": {"message": "too many"}}, {"Retry-After": "0.01"})

    def _fault_500(self, body: Any) -> None:
        self._send(500, {"error": {"message": f"oops, your key was {KEY}"}})

    _fault_always500 = _fault_500

    def _fault_reset(self, body: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b'{"choices": [')
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def _fault_hangup(self, body: Any) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _fault_loris(self, body: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.close_connection = True
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:  # ends when the client hangs up
            self.wfile.write(b" ")
            time.sleep(0.05)

    def _fault_notjson(self, body: Any) -> None:
        self._send(200, b'{"choices": [{"message"')

    def _fault_html(self, body: Any) -> None:
        self._send(200, b"<html>bad gateway</html>")

    def _fault_nochoices(self, body: Any) -> None:
        self._send(200, {"choices": []})

    def _fault_null(self, body: Any) -> None:
        self._send(200, b"null")

    def _fault_wrongid(self, body: Any) -> None:
        self._answer(body, id="somebody-else", model="another")

    def _fault_context(self, body: Any) -> None:
        self._send(400, {"error": {"message": "maximum context length exceeded"}})

    def _fault_filter(self, body: Any) -> None:
        self._answer(body, finish="content_filter")

    def _fault_cut(self, body: Any) -> None:
        self._answer(body, finish="length")
