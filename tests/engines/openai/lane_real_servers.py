"""Whole runs through real servers on this machine's processor: llama.cpp's and vLLM's. `make test-servers` calls it.

Not of the test-suite (its name is no test_*.py): it takes minutes and, for vLLM, 3.5 GB (tools/test_servers.sh).
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from kgqa_hpc.engines.openai.engine import OpenAIEngine
from kgqa_hpc.engines.openai.settings import OpenAISettings
from tests.dataset.conftest import records_of
from tests.engines.asking import an_object, answers_of, user
from tests.engines.test_contract import SERVER
from tests.waiting import wait_for

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "configs"
PATIENCE_S = 1200.0
SETTINGS = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
VLLM = ROOT / os.environ.get("VENV_VLLM", ".venv-vllm")
TEXT = 'He said "yes",\nthen \\ and left: β, 漢.'
SCHEMA = an_object(answer={"enum": [TEXT]}, more={"type": "string", "maxLength": 40, "pattern": "^.*[.!]$"})


def llama(port: int) -> list[str]:
    return [sys.executable, "-c", SERVER, str(port), "8192"]


def vllm(port: int) -> list[str]:
    model = VLLM / "kgqa-model"
    if not (VLLM / "kgqa.stamp").exists():
        pytest.skip("VLLM IS NOT INSTALLED FOR THE CPU, NOT TESTED: tools/test_servers.sh installs it")
    return [str(VLLM / "bin" / "vllm"), "serve", str(model), "--served-model-name", "smol", "--port", str(port),
            "--dtype", "bfloat16", "--max-model-len", "4096", "--max-num-seqs", "8"]  # fmt: skip


class Server:
    """A server on a port that stays the same when it is killed and started again."""

    def __init__(self, command: Callable[[int], list[str]], log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._command, self._log = command(self.port), log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        settings = dict(SETTINGS)
        if "-c" in self._command:
            settings["PYTHONPATH"] = str(ROOT)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | settings
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        wait_for(self._healthy, f"the server; its log is {self._log}", PATIENCE_S)

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _healthy(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-3000:]
        with suppress(OSError), urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
        return False


@pytest.fixture(scope="module", params=[(llama, "gbnf"), (vllm, "grammar")], ids=["llama.cpp", "vllm"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, str]]:
    command, mode = request.param
    running = Server(command, tmp_path_factory.mktemp("server") / "server.log")
    try:
        running.start()
        yield running, mode
    finally:
        running.kill()


def test_quotes_newlines_and_other_alphabets_pass_and_the_form_is_kept(server: tuple[Server, str]) -> None:
    sampled = {"max_tokens": 200, "temperature": 0.9, "schema": SCHEMA}
    engine = OpenAIEngine(OpenAISettings(model="smol", base_url=server[0].url, concurrency=4))
    try:
        engine.preflight([SCHEMA])
        asked = [user("Say something short.", id=f"r{n}", seed=n, **sampled) for n in range(24)]
        answers = answers_of(engine, asked).values()
    finally:
        engine.close()
    assert engine.info.structured == server[1]
    assert engine.info.server
    complete = [json.loads(answer.text) for answer in answers if answer.finish == "stop"]
    assert complete
    assert all(value["answer"] == TEXT and value["more"][-1] in ".!" for value in complete)
    assert {answer.finish for answer in answers} <= {"stop", "length"}


def complete_run(folder: Path, config_name: str, engine: dict[str, Any], disturb: Callable[[], None]) -> Path:
    """A run by a shipped configuration with these keys of the engine; `disturb` is called after its first shard."""
    config: dict[str, Any] = yaml.safe_load((CONFIGS / f"{config_name}.yaml").read_text())
    config["engine"] = engine if "kind" in engine else config["engine"] | engine
    config["anchors"] = {"kind": "graphlet", "per_shape": 1}
    config["runtime"] = {"shard_size": 4, "commit_every": "1s"}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    run = folder / "run"

    def disturb_in_the_middle() -> None:
        wait_for(lambda: any((run / "results" / "main").glob("*.h5")), "the first shard", PATIENCE_S)
        disturb()

    disturber = threading.Thread(target=disturb_in_the_middle, daemon=True)
    disturber.start()
    command = [sys.executable, "-m", "kgqa_hpc", "-q", "all", str(folder / "config.yaml"), str(run)]
    limit = 3 * PATIENCE_S
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | SETTINGS, capture_output=True, text=True, timeout=limit
    )
    logs = [path.read_text(errors="replace")[-2000:] for path in run.glob("logs/**/*") if path.is_file()]
    assert done.returncode == 0, done.stderr[-3000:] + "".join(logs)[-6000:]
    disturber.join(60)
    status = json.loads((run / "status.json").read_text())
    assert status["complete"]
    assert status["items"]["ended"] == status["items"]["total"]
    assert status["verdicts"]["failed"] == 0, "a server that was away for a while costs no item"
    return run


def test_a_run_is_complete_though_its_server_was_killed(server: tuple[Server, str], tmp_path: Path) -> None:
    running, mode = server
    engine = {"kind": "openai", "model": "smol", "base_url": running.url, "concurrency": 4}

    def restart() -> None:
        running.kill()
        running.start()

    run = complete_run(tmp_path, "demo", engine, restart)
    records = records_of(run / "dataset", "accepted", "rejected")
    assert records
    engines = [record["provenance"]["engine"]["generate"] for record in records]
    assert {engine["structured"] for engine in engines} == {mode}
    assert all(engine["server"] for engine in engines)


def test_a_run_starts_vllm_by_its_own_command_again_after_a_kill(tmp_path: Path) -> None:
    vllm(0)  # skips without vLLM
    shipped: list[str] = yaml.safe_load((CONFIGS / "vllm_8xh100.yaml").read_text())["engine"]["command"]
    assert {"{model}", "{name}", "{port}", "{gpus}", "{batch}"} <= set(shipped)
    keys = {"model": str(VLLM / "kgqa-model"), "gpus": 0, "concurrency": 4, "start_timeout_s": PATIENCE_S}
    # Without a card neither the number of GPUs nor the batch is known.
    values = {"vllm": str(VLLM / "bin" / "vllm"), "{gpus}": "1", "{batch}": "4"}
    command = [values.get(word, word) for word in shipped] + ["--dtype", "bfloat16"]
    (tmp_path / "disk").mkdir()
    killed = []

    def kill() -> None:
        found = subprocess.run(["pgrep", "-f", f"serve {tmp_path / 'disk'}"], capture_output=True, text=True)
        for process in found.stdout.split():
            os.kill(int(process), signal.SIGKILL)
            killed.append(process)

    engine = {**keys, "command": command, "stage_to": str(tmp_path / "disk")}
    complete_run(tmp_path, "vllm_8xh100", engine, kill)
    assert killed, "the server was found and killed"
