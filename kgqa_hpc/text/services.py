"""HTTP requests with a limit on their total time.

The timeout of `urllib` applies to each read: a server that sends a byte now and then, endless headers or endless
`100 Continue` blocks the caller forever. Here a timer closes the connection at the limit.
"""

import http.client
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any


@contextmanager
def answer_within(
    request: urllib.request.Request,
    seconds: float,
    *,
    read_timeout: float | None = None,
    redirects: bool = True,
) -> Iterator[Any]:
    """The response; read its body inside the block. `read_timeout` is the limit of one read, default: `seconds`.

    Without `redirects` none is followed: a key in the headers would travel to another server.
    Raises HTTPException, or OSError, also at the time limit.
    """
    connections = _Connections()
    handlers = [_Handler(connections), *([] if redirects else [_NoRedirect()])]
    opener = urllib.request.build_opener(*handlers)
    timer = threading.Timer(seconds, connections.cut)
    timer.daemon = True
    timer.start()
    try:
        with opener.open(request, timeout=read_timeout or seconds) as answer:
            yield answer
        if connections.over:  # the body may be incomplete
            raise TimeoutError(f"no whole answer within {seconds:g} s")
    finally:
        timer.cancel()
        connections.close()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> None:
        return None


class _Connections:
    """Duplicated handles of the sockets of a request and its redirects, so that a timer can shut them down."""

    def __init__(self) -> None:
        self.over = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            if self.over:
                connection.close()
                raise TimeoutError("the time for an answer is over")
            self._sockets.append(connection.dup())

    def cut(self) -> None:
        with self._lock:
            self.over = True
            for connection in self._sockets:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            for connection in self._sockets:
                connection.close()
            self._sockets.clear()


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens both kinds of connections, and tells `connections` of each socket."""

    def __init__(self, connections: _Connections) -> None:
        super().__init__()
        self._connections = connections

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(self._connection, http.client.HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(self._connection, http.client.HTTPSConnection), req)

    def _connection(self, kind: Any, host: str, **options: Any) -> Any:
        connection = kind(host, **options)
        connect = connection._create_connection

        def create(*args: Any, **options: Any) -> socket.socket:
            opened: socket.socket = connect(*args, **options)
            self._connections.opened(opened)
            return opened

        connection._create_connection = create
        return connection
