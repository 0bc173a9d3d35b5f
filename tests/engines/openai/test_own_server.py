"""A server that the engine starts: what it is given (model, GPUs, batch, caches, its turn, a port), and its end."""

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from kgqa_hpc.engines.model_files import folder_digest
from kgqa_hpc.engines.models import ModelSize, budget
from kgqa_hpc.engines.openai import own_server
from kgqa_hpc.engines.openai.engine import OpenAIEngine
from kgqa_hpc.engines.openai.own_server import turn_to_start
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import EngineConfigError
from tests import chat_program
from tests.command import programs
from tests.engines.published_models import LLAMA_70B, folder_of
from tests.waiting import gone, wait_for


@pytest.fixture(autouse=True)
def _node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of its own: an empty disk, and a card as the driver's tool shows it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    card = '[ "$3" = "--id=5" ] && echo 81559'
    monkeypatch.setenv("PATH", programs(tmp_path, **{"nvidia-smi": card}))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(disk))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6")
    monkeypatch.delenv("VLLM_CACHE_ROOT", raising=False)
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))


def settings(*words: str, **more: Any) -> OpenAISettings:
    command = [sys.executable, str(chat_program.__file__), "--port", "{port}", *words]
    return OpenAISettings(command=command, **more)


def answered(folder: Path) -> dict[str, Any]:
    """The server's note about its last answer; its words begin with the port."""
    note: dict[str, Any] = json.loads((folder / "notes").read_text().splitlines()[-1])
    return note | {"words": note["words"][2:]}


def test_the_server_is_started_on_the_nodes_own_copy_and_named_in_the_provenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = folder_of(tmp_path / "Llama-70B", LLAMA_70B)
    (tmp_path / "local").mkdir()
    keys = {"model": "~/Llama-70B", "gpus": 2, "stage_to": str(tmp_path / "local")}
    engine = OpenAIEngine(settings("{model}", "{name}", "{gpus}", **keys))
    engine.close()
    started = answered(tmp_path)
    copy, name, gpus = started["words"]
    assert Path(copy).parent == tmp_path / "local"
    assert (Path(copy) / "model-00001.safetensors").stat().st_size == 1000
    assert (name, gpus, started["model"]) == ("Llama-70B", "2", "Llama-70B")
    assert Path(started["caches"]).is_relative_to(tmp_path / "disk")
    told = engine.info.provenance()
    assert (told["model"], told["digest"]) == ("Llama-70B", folder_digest(folder))


def test_the_batch_is_what_the_card_holds_and_the_requests_in_flight_follow(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "m", LLAMA_70B, weights=int(39.8e9))
    engine = OpenAIEngine(settings("--max-num-seqs", "{batch}", model=str(folder), gpus=1))
    engine.close()
    size = ModelSize(80, 8, 128, 8192, 28672, weights=int(39.8e9))
    fits = budget(size, 81559 << 20, share=own_server.CACHE_SHARE).batch
    assert answered(tmp_path)["words"] == ["--max-num-seqs", str(fits)]
    assert engine.info.max_batch == fits > 100


def test_what_needs_a_card_or_known_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path / "m", LLAMA_70B)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with pytest.raises(EngineConfigError, match="no GPU") as caught:
        OpenAIEngine(settings("{batch}", model=str(folder)))
    assert "number in place of {batch}" in caught.value.cure
    for key in ("stage_to", "revision"):
        with pytest.raises(ValueError, match=f"{key} needs {{model}}"):
            OpenAISettings(model="m", **{key: "x"})


def test_the_first_server_of_a_node_starts_alone_and_later_ones_together(tmp_path: Path) -> None:
    entered, failed = threading.Event(), RuntimeError("out of memory")

    def second() -> None:
        with turn_to_start(["serve"], tmp_path):
            entered.set()

    with pytest.raises(RuntimeError), turn_to_start(["serve"], tmp_path):
        raise failed  # the next one is the first then
    with turn_to_start(["serve"], tmp_path):
        waiting = threading.Thread(target=second)
        waiting.start()
        assert not entered.wait(0.3)
    waiting.join(60)
    assert entered.is_set()
    with turn_to_start(["serve"], tmp_path), turn_to_start(["serve"], tmp_path):
        pass


def test_a_port_is_given_once_and_one_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a model is loaded, minutes may pass before its server uses the port."""
    ports = [own_server.free_port() for _ in range(200)]
    assert len(set(ports)) == 200
    assert set(ports) <= set(own_server.PORTS)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        taken = other.getsockname()[1]
        monkeypatch.setattr(own_server, "PORTS", range(taken, taken + 50))
        monkeypatch.setattr(own_server, "_turns", itertools.count(-7919 * os.getpid()))
        assert own_server.free_port() in range(taken + 1, taken + 50)


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
def test_a_server_that_is_never_ready_is_bad_input_and_taken_down(command: list[str], words: str) -> None:
    patience = 1.0 if "ready" in words else 300.0
    with pytest.raises(EngineConfigError, match=words):
        OpenAIEngine(OpenAISettings(model="m", command=command, start_timeout_s=patience))
    servers = [process for process in psutil.Process().children(recursive=True) if not gone(process)]
    assert not [process for process in servers if SILENT in process.cmdline()]


def test_the_server_dies_with_its_owner_even_on_sigkill() -> None:
    owner = """
from kgqa_hpc.engines.openai.own_server import OwnServer
from kgqa_hpc.engines.openai.settings import OpenAISettings
OwnServer(OpenAISettings(model="m", command=["bash", "-c", "echo $$; sleep 600 & echo $!; wait"]))
"""
    with subprocess.Popen([sys.executable, "-c", owner], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        server, grandchild = (psutil.Process(int(process.stdout.readline())) for _ in range(2))
        process.kill()
    wait_for(lambda: gone(server) and gone(grandchild), "the end of both")
