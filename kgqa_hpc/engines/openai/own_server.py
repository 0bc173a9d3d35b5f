"""The model server of `engine.command`: its command filled in, its start in turn on this node, its end.

Words of the command are filled in: {port}, {gpus}, {model} (the folder, on the node's own disk with `stage_to`),
{name} (of the model, as requests name it) and {batch} (sequences that the card's memory holds).

The command runs under a supervisor, a process that ends it with its owner, however the owner ends. The owner holds the
supervisor's standard input. When that closes, because the owner closed it or died, all processes of the command's group
are killed; a byte before the end asks for an orderly stop first.
"""

import fcntl
import hashlib
import http.client
import itertools
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from kgqa_hpc.engines.engine import SEE_LOG
from kgqa_hpc.engines.model_files import find_model, folder_digest, node_folder, node_lock, public_name, stage
from kgqa_hpc.engines.models import UNSHARED_TOKENS, budget, read_size
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import EngineConfigError

# Ports below Linux's default range of ephemeral ports (from 32768 on), which any program may get meanwhile:
# a server may load its model for minutes before it uses its port.
PORTS = range(20_000, 32_768)
# Share of the remaining memory for the cache, assumed: vLLM takes 0.9 of a card, activations and CUDA graphs included.
CACHE_SHARE = 0.75
# Default folders of compiled code, on the node's own disk because all nodes share the home folders.
CACHES = {
    "VLLM_CACHE_ROOT": "vllm",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
}
NVIDIA_SMI = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
SMI_S = 30.0
LOOK_EVERY_S = 0.2
GRACE_S = 10.0
_turns = itertools.count()


class OwnServer:
    """A running server on a free loopback port, which ends with this process, however this process ends.

    `settings` have its address, the name of its model, and its batch; `digest` is that of its weights. Raises
    EngineConfigError if the model is missing or does not fit, or the server ends or takes too long to start.
    """

    def __init__(self, settings: OpenAISettings) -> None:
        self._port = free_port()
        self.digest = ""
        values, changes = {"gpus": str(settings.gpus), "name": settings.model}, dict[str, Any]()
        if settings.fills("model") or settings.fills("batch"):
            folder = find_model(settings.model, settings.revision)
            self.digest = settings.revision or folder_digest(folder)
            values["name"] = public_name(str(folder))
            if settings.fills("batch"):
                changes["concurrency"] = _batch(settings, folder)
                values["batch"] = str(changes["concurrency"])
            values["model"] = str(stage(folder, settings.stage_to) if settings.stage_to else folder)
        changes |= {"model": values["name"], "base_url": f"http://127.0.0.1:{self._port}/v1"}
        self.settings = settings.model_copy(update=changes)
        command = settings.command or []
        for key, value in values.items():
            command = [word.replace(f"{{{key}}}", value) for word in command]
        cache = node_folder("servers")
        caches = {variable: str(cache / folder) for variable, folder in CACHES.items()}
        with turn_to_start(command, cache):
            words = [word.replace("{port}", str(self._port)) for word in command]
            self._supervisor = supervised(words, caches | dict(os.environ))
            try:
                self._wait_until_healthy(command[0])
            except BaseException:
                self.close()
                raise

    @property
    def exit_code(self) -> int | None:
        """The server's exit code; None while it runs."""
        return self._supervisor.poll()

    def close(self) -> None:
        """Stop the server; kill it if it does not end by itself. Idempotent."""
        with suppress(ValueError):  # close() was called before
            self._supervisor.communicate(b"x")

    def _wait_until_healthy(self, name: str) -> None:
        path, patience_s = self.settings.health_path, self.settings.start_timeout_s
        deadline = time.monotonic() + patience_s
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
            with suppress(OSError, http.client.HTTPException), closing(connection):
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    return
            if self.exit_code is not None:
                raise EngineConfigError(
                    f"engine.command: {name} ended with exit code {self.exit_code} before it was ready",
                    SEE_LOG,
                )
            if time.monotonic() > deadline:
                raise EngineConfigError(
                    f"engine.command: {name} was not ready within {patience_s:.0f} s (GET {path})",
                    "raise engine.start_timeout_s, or check engine.health_path",
                )
            time.sleep(LOOK_EVERY_S)


@contextmanager
def turn_to_start(command: Sequence[str], cache: Path) -> Iterator[None]:
    """Lock held until the server is ready: the first server of a node starts alone, later ones together.

    The first reads the weights and compiles; the others find both in the caches.
    """
    key = hashlib.sha256("\0".join(command).encode()).hexdigest()[:16]
    mark = cache / f"started-{key}"
    with node_lock(cache / "start.lock") as file:
        if mark.exists():
            fcntl.flock(file, fcntl.LOCK_UN)
        yield
        mark.touch()


def free_port() -> int:
    """An unused port; each process starts the search at another number, so that two on a machine do not get
    the same port.
    """
    for _ in PORTS:
        port = PORTS[(7919 * os.getpid() + next(_turns)) % len(PORTS)]
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            return port
    raise EngineConfigError(
        f"engine.command: no port from {PORTS[0]} to {PORTS[-1]} is free", "stop what uses them"
    )


def _batch(settings: OpenAISettings, folder: Path) -> int:
    """The batch that the memory of the first GPU holds that this process may use, by nvidia-smi."""
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() or "0"
    card, size = None, read_size(folder)
    with suppress(OSError, subprocess.SubprocessError, ValueError, IndexError):
        command = [*NVIDIA_SMI, f"--id={device}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SMI_S, check=True)
        card = int(done.stdout.split()[0]) << 20
    if card is None or size is None or not size.weights:
        unknown = "no GPU is seen here" if card is None else "the memory of this kind of model is not known"
        raise EngineConfigError(f"engine.command: {unknown}", "write a number in place of {batch}")
    unshared = (settings.sequence_tokens or UNSHARED_TOKENS) + settings.thought_room // 2
    room = budget(size, card, share=CACHE_SHARE, sequence_tokens=unshared, tp=max(settings.gpus, 1))
    print(f"openai: room for {room.cache_tokens:,} tokens of KV cache, {room.batch} sequences", flush=True)
    return room.batch


def supervised(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command under a supervisor; returns the supervisor, which exits with the command's code."""
    return subprocess.Popen(
        [sys.executable, "-m", "kgqa_hpc.engines.openai.own_server", *command],
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # so it survives a kill of the owner's group and can end the command
    )


def main() -> None:
    """Entry point of the supervisor: run the command of the arguments until it or the owner has ended."""
    # The engine ignores SIGTERM; the command must not inherit this.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as problem:
        print(f"cannot start {sys.argv[1]}: {problem.strerror}", file=sys.stderr)
        sys.exit(127)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the supervisor must end after the command
    while command.poll() is None:
        if select.select([0], [], [], LOOK_EVERY_S)[0]:
            if os.read(0, 1):  # an orderly stop is requested
                with suppress(ProcessLookupError):
                    os.killpg(command.pid, signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    command.wait(GRACE_S)
            break
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(command.pid, signal.SIGKILL)
    sys.exit(command.wait() & 0xFF)


if __name__ == "__main__":
    main()
