"""HTTP servers on a free port of this machine."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class QuietHandler(BaseHTTPRequestHandler):
    """Says nothing of its requests."""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def posted(self) -> Any:
        """The JSON that was posted."""
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Answer with a body of known length."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address of a server that answers by `handler` until the block ends; with `context` it speaks TLS."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        if context is not None:
            http.socket = context.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=http.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}"
        finally:
            http.shutdown()
            thread.join()


def completion(message: str | dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    """A reply of OpenAI's chat API with a text, or with a message of these fields."""
    fields = {"content": message} if isinstance(message, str) else message
    choice = {"index": 0, "message": {"role": "assistant", **fields}, "finish_reason": finish}
    return {"choices": [choice], **more}


def chat_server(answer: Callable[[QuietHandler, Any], tuple[int, Any, dict[str, str]] | None]) -> Any:
    """A running server whose reply to each JSON posted is `answer(handler, body)`: status, JSON and headers; or None
    if it has broken the connection.
    """

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            if (answered := answer(self, self.posted())) is not None:
                status, body, headers = answered
                self.reply(status, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)

        def do_GET(self) -> None:
            self.reply(404, b"{}")

    return serving(Handler)
