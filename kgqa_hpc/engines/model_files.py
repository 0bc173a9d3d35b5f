"""Location of a model's files, and the files that loading needs, known before anything is loaded.

Images run without a network (HF_HUB_OFFLINE=1), so a hub id is looked up in the cache; a missing model is reported
before a GPU is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text.opener import read_bytes

_WEIGHTS = (".safetensors", ".bin", ".pth", ".pt", ".gguf", ".onnx", ".h5", ".msgpack")
_CACHED = re.compile(r"models--([^/]+)--([^/]+)/snapshots/")


def find_model(model: str, revision: str | None = None) -> Path:
    """The folder of a model that is named by path or hub id. Raises EngineConfigError."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return _whole(folder)
    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        raise EngineConfigError(
            f"engine.model: {model} is no folder here", "give the model's folder or hub id"
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError as problem:
        raise EngineConfigError(
            f"engine.model: {model} is a hub id, and nothing here can look it up: {problem}",
            "pip install huggingface_hub, or give the model's folder",
        ) from None
    try:
        return _whole(Path(snapshot_download(model, revision=revision, local_files_only=True)))
    except EngineConfigError:
        raise
    except Exception as problem:
        at = f" at revision {revision}" if revision else ""
        home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
        cache = os.environ.get("HF_HUB_CACHE") or f"{home}/hub"
        raise EngineConfigError(
            f"engine.model: {model}{at} is not in the model cache of this machine ({cache})",
            f"on a machine with a network: hf download {model}; then set HF_HOME to that cache (image: "
            "APPTAINERENV_HF_HOME and a bind), or download with --local-dir FOLDER and name the folder",
        ) from problem


def public_name(model: str) -> str:
    """The hub id, or the name of the folder (for a folder of the hub cache, its id); never a path."""
    if cached := _CACHED.search(model):
        return f"{cached[1]}/{cached[2]}"
    return Path(model).name if Path(model).exists() or model.count("/") > 1 else model


def folder_digest(folder: Path) -> str:
    """A fingerprint of a local model, without reading 40 GB at every start.

    For a folder of the hub cache its revision, otherwise the sha256 of its JSON files and of all names and sizes.
    """
    if cached := re.search(r"/snapshots/([0-9a-f]{40})", str(folder.resolve())):
        return cached[1]
    if not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.is_file()):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        if path.suffix == ".json":
            digest.update(read_bytes(path))
    return digest.hexdigest()


def model_parts(folder: Path) -> dict[str, int]:
    """Bytes of each file that loading needs, by its path in the folder.

    Weights are the files that the index names; without an index `model*.safetensors`, any other safetensors, or *.bin.
    Repositories keep the same weights in other formats beside them (original/*.pth, metal/model.bin).
    """
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = [path.relative_to(folder).as_posix() for path in files]
    weights = _named_weights(folder)
    for pattern in (r"model[^/]*\.safetensors", r"[^/]*\.safetensors", r"[^/]*\.bin"):
        weights = weights or {name for name in names if re.fullmatch(pattern, name)}
    return {
        name: path.stat().st_size
        for name, path in zip(names, files, strict=True)
        if name in weights
        or not (name.endswith(_WEIGHTS) or any(part.startswith(".") for part in Path(name).parts))
    }


def _whole(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise EngineConfigError(
            f"engine.model: {folder} has no config.json",
            "give the folder of a Hugging Face model, completely downloaded",
        )
    named = _named_weights(folder)
    if missing := sorted(name for name in named if not (folder / name).is_file()):
        raise EngineConfigError(
            f"engine.model: {folder} lacks {len(missing)} of {len(named)} files of weights ({missing[0]})",
            "finish the download on a machine with a network: hf download goes on where it stopped",
        )
    return folder


def _named_weights(folder: Path) -> set[str]:
    """Files of weights that the index names; empty without an index. Raises EngineConfigError."""
    index = folder / "model.safetensors.index.json"
    try:
        return {str(name) for name in json.loads(read_bytes(index))["weight_map"].values()}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise EngineConfigError(f"engine.model: {index} cannot be read: {problem}") from None
