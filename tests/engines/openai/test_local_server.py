"""The OpenAI engine with a real server (llama.cpp) that it starts and supervises itself, on loopback."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kgqa_hpc.engines.engine import Request
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.openai import local_server
from kgqa_hpc.engines.openai.engine import OpenAIEngine
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import EngineConfigError
from tests.waiting import gone, wait_for

pytest.importorskip("xllamacpp", reason="XLLAMACPP IS NOT INSTALLED: NO REAL SERVER TO TEST AGAINST")

PATIENCE_S = 300.0
SERVER = textwrap.dedent("""
    import os, sys, threading
    os.environ["OMP_WAIT_POLICY"], os.environ["GOMP_SPINCOUNT"] = "passive", "0"
    import xllamacpp
    from kgqa_hpc.engines.cpu.engine import bundled_model
    params = xllamacpp.CommonParams()
    params.model.path = str(bundled_model())
    params.model_alias = {"smol"}
    params.n_parallel, params.n_ctx, params.port = 2, 2048, int(sys.argv[1])
    params.warmup, params.verbosity, params.cache_ram_mib = False, 0, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.api_keys = [os.environ["TEST_KEY"]]
    server = xllamacpp.Server(params)
    threading.Event().wait()
""")
SCHEMA = {
    "type": "object",
    "properties": {"grounded": {"type": "boolean"}, "word": {"enum": ["gene", "disease"]}},
    "required": ["grounded", "word"],
    "additionalProperties": False,
}


def config(command: list[str], **settings: Any) -> OpenAISettings:
    settings = {"model": "smol", "api_key_env": "TEST_KEY", "start_timeout_s": PATIENCE_S, **settings}
    return OpenAISettings(command=command, concurrency=2, **settings)


@pytest.fixture(scope="module")
def engine() -> Iterator[OpenAIEngine]:
    os.environ["TEST_KEY"] = "sk-of-the-test"
    before = set(
        psutil.Process().children(recursive=True)
    )  # what other tests of this process keep, such as a tracker
    engine = OpenAIEngine(config([sys.executable, "-c", SERVER, "{port}"]))
    yield engine
    servers = set(psutil.Process().children(recursive=True)) - before
    engine.close()
    assert all(gone(process) for process in servers), "the server outlived its engine"
    del os.environ["TEST_KEY"]


def test_a_real_server_keeps_to_the_schema_and_answers_each_request_once(
    engine: OpenAIEngine, valid: Callable[[Any, dict[str, Any]], bool]
) -> None:
    assert (engine.info.structured, bool(engine.info.server)) == ("gbnf", True)
    engine.preflight([SCHEMA])
    names = ["BRCA1", "asthma", "Marfan syndrome", "TP53", "ataxia"]
    requests = [
        Request(name, ({"role": "user", "content": f"Is {name} a gene?"},), max_tokens=60, schema=SCHEMA)
        for name in names
    ]
    answers = {a.id: a for a in engine.generate(Mailbox.holding(requests))}
    assert set(answers) == set(names)
    assert all(a.finish == "stop" and valid(json.loads(a.text), SCHEMA) for a in answers.values())
    assert all(a.prompt_tokens > 5 and a.completion_tokens > 5 for a in answers.values())


def test_a_prompt_beyond_the_context_is_that_requests_error(engine: OpenAIEngine) -> None:
    long = Request("long", ({"role": "user", "content": "word " * 3000},), max_tokens=5)
    short = Request("short", ({"role": "user", "content": "Hi"},), max_tokens=5)
    answers = {a.id: a for a in engine.generate(Mailbox.holding([long, short]))}
    assert answers["long"].finish == "error"
    assert "context" in (answers["long"].error or "")
    assert answers["short"].finish in {"stop", "length"}


def test_the_token_limit_is_a_length_not_data(engine: OpenAIEngine) -> None:
    request = Request(
        "r", ({"role": "user", "content": "Tell me a long story about proteins."},), max_tokens=4
    )
    (answer,) = engine.generate(Mailbox.holding([request]))
    assert (answer.finish, answer.completion_tokens) == ("length", 4)


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


def test_a_server_that_ends_before_it_is_ready_is_bad_input() -> None:
    with pytest.raises(EngineConfigError, match="ended with exit code 3"):
        OpenAIEngine(config([sys.executable, "-c", "raise SystemExit(3)"]))


def test_a_command_that_does_not_exist_is_bad_input() -> None:
    with pytest.raises(EngineConfigError, match="exit code 127"):
        OpenAIEngine(config(["/no/such/server"]))


def test_a_server_that_is_never_healthy_is_bad_input_and_taken_down() -> None:
    code = (
        "import http.server as h, sys; "
        "h.HTTPServer(('127.0.0.1', int(sys.argv[1])), h.BaseHTTPRequestHandler).serve_forever()"
    )
    with pytest.raises(EngineConfigError, match="was not ready within 1 s"):
        OpenAIEngine(config([sys.executable, "-c", code, "{port}"], start_timeout_s=1.0))
    assert not [p for p in psutil.Process().children(recursive=True) if not gone(p) and code in p.cmdline()]


def test_the_server_dies_with_its_owner_even_on_sigkill(tmp_path: Path) -> None:
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
