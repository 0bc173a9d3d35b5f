"""HTTP requests with a limit on their total time.

The timeout of `urllib` applies to each read: a server that sends a byte now and then, endless headers or endless
`100 Continue` blocks the caller forever. Here a timer closes the connection at the limit.
"""

import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any


@contextmanager
def answer_within(
    request: urllib.request.Request, seconds: float, *, redirects: bool = True
) -> Iterator[Any]:
    """The response; read its body inside the block.

    Without `redirects` none is followed: a key in the headers would travel to another server.
    Raises HTTPException, or OSError, also at the time limit.
    """
    handler = _Handler()
    opener = urllib.request.build_opener(handler, *([] if redirects else [_NoRedirect()]))
    timer = threading.Timer(seconds, handler.cut)
    timer.daemon = True
    timer.start()
    try:
        with opener.open(request, timeout=seconds) as answer:
            yield answer
        if handler.over:  # the body may be incomplete
            raise TimeoutError(f"no whole answer within {seconds:g} s")
    finally:
        timer.cancel()
        handler.close_sockets()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> None:
        return None


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens both kinds of connections; keeps duplicated handles of all sockets, so that a timer can shut them down."""

    def __init__(self) -> None:
        super().__init__()
        self.over = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []

    def do_open(self, http_class: Any, req: Any, **options: Any) -> Any:
        def connect(host: str, **keys: Any) -> Any:
            connection = http_class(host, **keys)
            # Before the TLS handshake, which a server may delay too.
            connection._create_connection = partial(self._connected, connection._create_connection)
            return connection

        return super().do_open(connect, req, **options)

    def _connected(
        self, connect: Callable[..., socket.socket], *arguments: Any, **keys: Any
    ) -> socket.socket:
        connected = connect(*arguments, **keys)
        with self._lock:
            if self.over:
                connected.close()
                raise TimeoutError("the time for an answer is over")
            self._sockets.append(connected.dup())
        return connected

    def cut(self) -> None:
        with self._lock:
            self.over = True
            for connected in self._sockets:
                with suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)

    def close_sockets(self) -> None:
        with self._lock:
            for connected in self._sockets:
                connected.close()
            self._sockets.clear()
