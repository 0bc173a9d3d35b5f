"""The server of `engine.command` on this node: its model, batch and caches, and the order of starts.

Words of the command are filled in: {port}, {gpus}, {model} (the folder, on the node's own disk with `stage_to`),
{name} (of the model, as requests name it) and {batch} (sequences that the card's memory holds).
"""

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kgqa_hpc.engines.memory import UNSHARED_TOKENS, budget, read_size
from kgqa_hpc.engines.model_files import find_model, folder_digest, node_folder, node_lock, public_name, stage
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import EngineConfigError

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


@dataclass(frozen=True, slots=True)
class OwnServer:
    """The command of a server, and its properties known before it answers."""

    command: list[str]
    environment: dict[str, str]
    name: str  # of the model
    digest: str
    batch: int | None
    cache: Path  # on this node

    @contextmanager
    def turn_to_start(self) -> Iterator[None]:
        """Lock held until the server is ready: the first server of a node starts alone, later ones together.

        The first reads the weights and compiles; the others find both in the caches.
        """
        key = hashlib.sha256("\0".join(self.command).encode()).hexdigest()[:16]
        mark = self.cache / f"started-{key}"
        with node_lock(self.cache / "start.lock") as file:
            if mark.exists():
                fcntl.flock(file, fcntl.LOCK_UN)
            yield
            mark.touch()


def own_server(settings: OpenAISettings) -> OwnServer:
    """The server of `settings.command`. Raises EngineConfigError if the model is missing or does not fit."""
    command = settings.command or []
    values = {"gpus": str(settings.gpus), "name": settings.model}
    digest, batch = "", None
    if settings.fills("model") or settings.fills("batch"):
        folder = find_model(settings.model, settings.revision)
        digest = settings.revision or folder_digest(folder)
        values["name"] = public_name(str(folder) if "snapshots" in folder.parts else settings.model)
        if settings.fills("batch"):
            values["batch"] = str(batch := _batch(settings, folder))
        values["model"] = str(stage(folder, settings.stage_to) if settings.stage_to else folder)
    for key, value in values.items():
        command = [word.replace(f"{{{key}}}", value) for word in command]
    cache = node_folder("servers")
    folders = {variable: str(cache / folder) for variable, folder in CACHES.items()}
    return OwnServer(command, folders | dict(os.environ), values["name"], digest, batch, cache)


def _batch(settings: OpenAISettings, folder: Path) -> int:
    card, size = card_bytes(), read_size(folder)
    if card is None or size is None or not size.weights:
        unknown = "no GPU is seen here" if card is None else "the memory of this kind of model is not known"
        raise EngineConfigError(f"engine.command: {unknown}", "write a number in place of {batch}")
    unshared = (settings.sequence_tokens or UNSHARED_TOKENS) + settings.thought_room // 2
    room = budget(size, card, share=CACHE_SHARE, sequence_tokens=unshared, tp=max(settings.gpus, 1))
    print(f"openai: room for {room.cache_tokens:,} tokens of KV cache, {room.batch} sequences", flush=True)
    return room.batch


def card_bytes() -> int | None:
    """Memory of the first GPU that this process may use, from nvidia-smi; None without a GPU."""
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() or "0"
    try:
        done = subprocess.run(
            [*NVIDIA_SMI, f"--id={device}"], capture_output=True, text=True, timeout=SMI_S, check=True
        )
        return int(done.stdout.split()[0]) << 20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
