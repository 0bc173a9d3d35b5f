"""A server that the OpenAI engine starts and supervises itself: its port, its failures, its end."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import textwrap

import psutil
import pytest

from kgqa_hpc.engines.openai import local_server
from kgqa_hpc.engines.openai.engine import OpenAIEngine
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import EngineConfigError
from tests.waiting import gone, wait_for


def test_a_port_is_given_once_and_one_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a model is loaded, minutes may pass before its server uses the port."""
    ports = [local_server._free_port() for _ in range(200)]
    assert len(set(ports)) == 200
    assert set(ports) <= set(local_server.PORTS)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        taken = other.getsockname()[1]
        monkeypatch.setattr(local_server, "PORTS", range(taken, taken + 50))
        monkeypatch.setattr(local_server, "_turns", itertools.count(-7919 * os.getpid()))
        assert local_server._free_port() in range(taken + 1, taken + 50)


SILENT = (
    "import http.server as h, sys; "
    "h.HTTPServer(('127.0.0.1', int(sys.argv[1])), h.BaseHTTPRequestHandler).serve_forever()"
)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([sys.executable, "-c", "raise SystemExit(3)"], "ended with exit code 3"),
        (["/no/such/server"], "exit code 127"),
        ([sys.executable, "-c", SILENT, "{port}"], "was not ready within 1 s"),
    ],
)
def test_a_server_that_does_not_become_ready_is_bad_input_and_taken_down(
    command: list[str], words: str
) -> None:
    patience = 1.0 if "ready" in words else 300.0
    with pytest.raises(EngineConfigError, match=words):
        OpenAIEngine(OpenAISettings(model="m", command=command, start_timeout_s=patience))
    servers = [process for process in psutil.Process().children(recursive=True) if not gone(process)]
    assert not [process for process in servers if SILENT in process.cmdline()]


def test_the_server_dies_with_its_owner_even_on_sigkill() -> None:
    owner = textwrap.dedent("""
        import sys, time
        from kgqa_hpc.engines.openai.local_server import LocalServer
        code = "import os, subprocess, sys, time; print(os.getpid(), flush=True); " \\
               "print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
        server = LocalServer([sys.executable, "-c", code])
        time.sleep(600)
    """)
    with subprocess.Popen([sys.executable, "-c", owner], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        server, grandchild = (psutil.Process(int(process.stdout.readline())) for _ in range(2))
        process.kill()
    wait_for(lambda: gone(server) and gone(grandchild), "the end of both")
