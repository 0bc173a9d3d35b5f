"""A server of the OpenAI protocol that misbehaves in every way: each prompt says how."""

import json
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.servers import QuietHandler, completion

Reply = tuple[int, Any, dict[str, str]]

KEY = "sk-very-secret-0123456789"
PATIENCE_S = 120.0
OOPS = (500, {"error": {"message": f"oops, your key was {KEY}"}}, {})
FAULTS: dict[str, Reply] = {
    "storm": (429, {"error": {"message": "too many"}}, {"Retry-After": "0.01"}),
    "500": OOPS,
    "always500": OOPS,
    "notjson": (200, b'{"choices": [{"message"', {}),
    "html": (200, b"<html>bad gateway</html>", {}),
    "nochoices": (200, {"choices": []}, {}),
    "null": (200, None, {}),
    "context": (400, {"error": {"message": "maximum context length exceeded"}}, {}),
    "guard": (401, {"error": {"message": "blocked by a guard"}}, {}),
}
LASTING = {"always500", "context", "guard"}
FINISHES = {"filter": "content_filter", "cut": "length"}


def _begin(handler: QuietHandler, length: int, content: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(length))
    handler.end_headers()
    handler.wfile.write(content)
    handler.wfile.flush()


def _reset(handler: QuietHandler) -> None:
    _begin(handler, 1000, b'{"choices": [')
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _loris(handler: QuietHandler) -> None:
    deadline = time.monotonic() + PATIENCE_S
    with suppress(OSError):  # the client hangs up
        _begin(handler, 100_000, b" ")
        while time.monotonic() < deadline:
            handler.wfile.write(b" ")
            time.sleep(0.05)


BREAKS: dict[str, Callable[[QuietHandler], object]] = {
    "reset": _reset,
    "hangup": lambda handler: handler.connection.shutdown(socket.SHUT_RDWR),
    "loris": _loris,
}


class FaultServer:
    """Answers of a `chat_server`: what the last word of the prompt says; most faults only the first two times."""

    url = ""  # of the running server

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.busy = self.most_busy = 0
        self.room = 10**9
        self.down = False
        self.gate = threading.Event()  # while it is closed, nobody is answered
        self.gate.set()
        self.knows_schema = self.knows_grammar = self.obeys = True
        self.own_words = "as you like", "stop"  # text and finish of an answer that keeps to no schema
        self.key = KEY

    def __call__(self, handler: QuietHandler, body: dict[str, Any]) -> Reply | None:
        """The reply; None if the connection was broken instead."""
        prompt = body["messages"][-1]["content"]
        with self.lock:
            self.bodies.append(body)
            self.seen[prompt] += 1
            passed = self.seen[prompt] > 2
            self.busy += 1
            self.most_busy = max(self.most_busy, self.busy)
            crowded = self.busy > self.room
        try:
            if not crowded:
                self.gate.wait(PATIENCE_S)
            return self._reply(handler, body, prompt, passed, crowded)
        finally:
            with self.lock:
                self.busy -= 1

    def _reply(
        self, handler: QuietHandler, body: dict[str, Any], prompt: str, passed: bool, crowded: bool
    ) -> Reply | None:
        fault, key = prompt.split()[-1], handler.headers["Authorization"]
        form = body.get("response_format") or {}
        grammar = "grammar" in body or "structural_tag" in json.dumps(form)
        refusals = {
            f"bad key {key}": (401, key != f"Bearer {self.key}"),
            "down": (503, self.down),
            "slow down": (429, crowded),
            "response_format is not supported": (400, bool(form or grammar) and not self.knows_schema),
            "response_format.type is not known": (400, grammar and not self.knows_grammar),
        }
        for words, (status, refused) in refusals.items():
            if refused:
                return status, {"error": {"message": words}}, {"Retry-After": "0"} if crowded else {}
        if fault in FAULTS and (fault in LASTING or not passed):
            return FAULTS[fault]
        if fault in BREAKS and not passed:
            handler.close_connection = True
            BREAKS[fault](handler)
            return None
        required = form.get("json_schema", {}).get("schema", {}).get("required", ())
        values = {"echo": prompt, **dict.fromkeys(required, ""), "ok": True}
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": 2}
        text, finish = (json.dumps(values), "stop") if self.obeys else self.own_words
        marks = {"id": "somebody-else" if fault == "wrongid" else "x", "system_fingerprint": f"fp {KEY}"}
        return 200, completion(text, FINISHES.get(fault, finish), usage=usage, **marks), {}
