"""Where a model's files lie: found before anything is loaded, and copied to the node once if that is asked.

Images run without a network (HF_HUB_OFFLINE=1), so a hub id is looked up in the cache; what is not there is
said in words of our own, before a GPU is touched.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text.opener import read_bytes

# Models loaded at the same time on a node: the first fills the page cache for the others, and more would only
# compete for the disk.
LOADS_AT_ONCE = 2
LOOK_EVERY_S = 0.2
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
        raise EngineConfigError(
            f"engine.model: {model}{at} is not in the model cache of this machine ({_cache()})",
            f"on a machine with a network: hf download {model}; then set HF_HOME to that cache (image: "
            "APPTAINERENV_HF_HOME and a bind), or download with --local-dir FOLDER and name the folder",
        ) from problem


def public_name(model: str) -> str:
    """The hub id, or the folder's name; of a hub cache folder the id it stands for. Never a path."""
    if cached := _CACHED.search(model):
        return f"{cached[1]}/{cached[2]}"
    return Path(model).name if Path(model).exists() or model.count("/") > 1 else model


def folder_digest(folder: Path) -> str:
    """A fingerprint of a local model, without reading 40 GB at every start.

    The revision of a hub cache folder, else the sha256 of its JSON files and of all names and sizes.
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


def stage(folder: Path, target: str) -> Path:
    """A copy of the model on the node's own disk, made by the first process that needs it; the others wait.

    `target` may name variables ($TMPDIR). Raises EngineConfigError when it is no place for the model.
    """
    base = Path(os.path.expandvars(target)).expanduser()
    if "$" in str(base) or not base.is_dir():
        raise EngineConfigError(f"engine.stage_to: {target} is no folder on this node", "name a local disk")
    copy = base / f"kgqa-model-{folder_digest(folder)[:16]}-{public_name(str(folder)).replace('/', '--')}"
    with _one_of([base / f".{copy.name}.lock"]):
        for dead in base.glob(f".{copy.name}.*.partial"):  # whoever made it was killed, for we hold the lock
            shutil.rmtree(dead, ignore_errors=True)
        if copy.is_dir() and _sizes(copy) != _sizes(folder):  # files were deleted, as cleaners of /tmp do
            shutil.rmtree(copy, ignore_errors=True)
        if not copy.is_dir():
            _copy(folder, copy)
    return copy


@contextmanager
def turn_to_load() -> Iterator[None]:
    """Held while a model is loaded: at most LOADS_AT_ONCE at a time on a node, for each user."""
    home = Path(tempfile.gettempdir()) / f"kgqa-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.is_symlink() or home.stat().st_uid != os.getuid():
        yield  # the folder of another user: a copy is not worth the risk
        return
    with _one_of([home / f"load-{number}.lock" for number in range(LOADS_AT_ONCE)]):
        yield


def _whole(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise EngineConfigError(
            f"engine.model: {folder} has no config.json",
            "give the folder of a Hugging Face model, completely downloaded",
        )
    index = folder / "model.safetensors.index.json"
    try:
        named = set(json.loads(read_bytes(index))["weight_map"].values())
    except FileNotFoundError:
        return folder
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise EngineConfigError(f"engine.model: {index} cannot be read: {problem}") from None
    if missing := sorted(str(name) for name in named if not (folder / str(name)).is_file()):
        raise EngineConfigError(
            f"engine.model: {folder} lacks {len(missing)} of {len(named)} files of weights ({missing[0]})",
            "finish the download on a machine with a network: hf download goes on where it stopped",
        )
    return folder


def _cache() -> str:
    home = os.environ.get("HF_HOME")
    return os.environ.get("HF_HUB_CACHE") or (f"{home}/hub" if home else "~/.cache/huggingface/hub")


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}


def _copy(folder: Path, copy: Path) -> None:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    free = shutil.disk_usage(copy.parent).free
    if size > 0.95 * free:
        raise EngineConfigError(
            f"engine.stage_to: the model takes {size / 1e9:,.1f} GB, {copy.parent} has {free / 1e9:,.1f} GB",
            "leave stage_to out, or name a larger disk",
        )
    partial = copy.with_name(f".{copy.name}.{secrets.token_hex(4)}.partial")
    try:
        shutil.copytree(folder, partial)  # follows the links of a hub cache
        partial.rename(copy)
    except OSError as problem:
        shutil.rmtree(partial, ignore_errors=True)
        raise EngineConfigError(
            f"engine.stage_to: {problem}", "leave stage_to out, or mend the disk"
        ) from None


@contextmanager
def _one_of(paths: list[Path]) -> Iterator[None]:
    """Hold the first lock that is free. A lock goes with its holder, however that ends."""
    files = [os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600) for path in paths]
    try:
        while not any(_try_lock(file) for file in files):
            time.sleep(LOOK_EVERY_S)
        yield
    finally:
        for file in files:
            os.close(file)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
