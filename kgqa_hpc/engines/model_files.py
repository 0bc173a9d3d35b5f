"""A model's files: where they lie, which of them loading needs, and their copy on the node that loads them.

Images run without a network (HF_HUB_OFFLINE=1), so a hub id is looked up in the cache; a missing model is reported
before a GPU is used. A model is copied to the node's own disk (`stage_to`) or read once into the node's memory. Workers
of a node take turns for the first reading alone; from then on the page cache serves them all at once.
"""

import fcntl
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import psutil

from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text.streams import read_bytes

_WEIGHTS = (".safetensors", ".bin", ".pth", ".pt", ".gguf", ".onnx", ".h5", ".msgpack")
_CACHED = re.compile(r"models--([^/]+)--([^/]+)/snapshots/")
STREAMS = 8  # one stream takes 0.5-1 GB/s from a parallel file system
_PIECE = 256 << 20  # bytes of a file that a stream reads before it takes the next piece
_BLOCK = 8 << 20
# Largest share of the job's memory for a model in a tmpfs; the rest is for the workers that load it. Our choice.
MEMORY_SHARE = 0.75
_IN_MEMORY = {"tmpfs", "ramfs"}


def find_model(model: str, revision: str | None = None) -> Path:
    """The folder of a model that is named by path or hub id. Raises EngineConfigError."""
    folder = Path(os.path.expanduser(model))
    if not folder.is_dir():
        if model.count("/") != 1 or model.startswith((".", "/", "~")):
            cure = "give the model's folder or hub id"
            raise EngineConfigError(f"engine.model: {model} is no folder here", cure)
        folder = _cached_model(model, revision)
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


def _cached_model(model: str, revision: str | None) -> Path:
    """The folder of a hub id in the cache of this machine."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError as problem:
        raise EngineConfigError(
            f"engine.model: {model} is a hub id, and nothing here can look it up: {problem}",
            "pip install huggingface_hub, or give the model's folder",
        ) from None
    try:
        return Path(snapshot_download(model, revision=revision, local_files_only=True))
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


def _named_weights(folder: Path) -> set[str]:
    """Files of weights that the index names; empty without an index. Raises EngineConfigError."""
    index = folder / "model.safetensors.index.json"
    try:
        return {str(name) for name in json.loads(read_bytes(index))["weight_map"].values()}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise EngineConfigError(f"engine.model: {index} cannot be read: {problem}") from None


def staged_path(folder: Path, target: str) -> Path:
    """The folder of the copy that `stage` makes. `target` may name variables ($TMPDIR). Raises EngineConfigError."""
    base = Path(os.path.expanduser(os.path.expandvars(target)))
    if "$" in str(base) or not base.is_dir():
        raise EngineConfigError(f"engine.stage_to: {target} is no folder on this node", "name a local disk")
    return base / f"kgqa-model-{folder_digest(folder)[:16]}-{public_name(str(folder)).replace('/', '--')}"


def stage(folder: Path, target: str) -> Path:
    """A copy of the model on the node's own disk, made by the first process that needs it; the others wait.

    Raises EngineConfigError when the disk cannot hold the model.
    """
    copy, parts = staged_path(folder, target), model_parts(folder)
    with node_lock(copy.with_name(f".{copy.name}.lock")):
        # Leftovers of killed processes, because the lock was free.
        for leftover in copy.parent.glob(f".{glob.escape(copy.name)}.*.partial"):
            shutil.rmtree(leftover, ignore_errors=True)
        # There is no copy yet, or cleaners of /tmp have deleted some of its files.
        if not is_whole(copy, parts):
            shutil.rmtree(copy, ignore_errors=True)
            require_room(copy.parent, sum(parts.values()))
            _copy(folder, parts, copy)
    return copy


def is_whole(copy: Path, parts: dict[str, int]) -> bool:
    """Whether the copy has all parts in their full size."""
    return all((copy / name).is_file() and (copy / name).stat().st_size == parts[name] for name in parts)


def require_room(base: Path, size: int) -> None:
    """Raise EngineConfigError if `base` has no room for `size` bytes: on its disk, or in the job's memory (tmpfs)."""
    free = shutil.disk_usage(base).free
    if size > 0.95 * free:
        raise EngineConfigError(
            f"engine.stage_to: the model takes {size / 1e9:,.1f} GB, {base} has {free / 1e9:,.1f} GB",
            "leave stage_to out, or name a larger disk",
        )
    limit, real = memory_limit(), base.resolve()
    mounts = [p for p in psutil.disk_partitions(all=True) if real.is_relative_to(p.mountpoint)]
    kind = max(mounts, key=lambda p: len(p.mountpoint)).fstype if mounts else ""
    if size > MEMORY_SHARE * limit and kind in _IN_MEMORY:
        raise EngineConfigError(
            f"engine.stage_to: {base} is in memory (tmpfs); the model takes {size / 1e9:,.1f} GB "
            f"of the {limit / 1e9:,.1f} GB of this job, which would be killed",
            f"sbatch --mem={int(size / MEMORY_SHARE / 1e9) + 1}G, name a local disk, or leave stage_to out",
        )


def read_once(folder: Path) -> None:
    """Read the model's files into the node's page cache, by the first process that loads it; the others wait.

    A model larger than the memory is not read: its first files would be evicted before they are loaded. Nothing is read
    either if another user owns the folder of the locks.
    """
    parts = model_parts(folder)
    with suppress(EngineConfigError):
        if sum(parts.values()) <= MEMORY_SHARE * memory_limit():
            with node_lock(node_folder() / f"read-{folder_digest(folder)[:16]}.lock"):
                _read(folder, parts)


def memory_limit(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes of memory that this process may use: the lowest limit of its cgroups, else the machine's memory."""
    limits = [int(psutil.virtual_memory().total)]
    for line in proc.read_text().splitlines() if proc.exists() else []:
        _, kinds, path = line.split(":", 2)
        if kinds in ("", "memory"):
            name = "memory.limit_in_bytes" if kinds else "memory.max"
            groups = Path(path).parts[1:]
            files = [root.joinpath(kinds, *groups[:depth], name) for depth in range(len(groups) + 1)]
            texts = [file.read_text().strip() for file in files if file.is_file()]
            limits += [int(text) for text in texts if text.isdigit()]
    return min(limits)


def _copy(folder: Path, parts: dict[str, int], copy: Path) -> None:
    partial = copy.with_name(f".{copy.name}.{secrets.token_hex(4)}.partial")
    try:
        for name, size in parts.items():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            with (partial / name).open("wb") as file:
                file.truncate(size)
        _read(folder, parts, partial)
        partial.rename(copy)
    except OSError as problem:
        shutil.rmtree(partial, ignore_errors=True)
        raise EngineConfigError(
            f"engine.stage_to: {problem}", "leave stage_to out, or mend the disk"
        ) from None


def _read(folder: Path, parts: dict[str, int], copy: Path | None = None) -> None:
    """Read the files in several streams; with `copy`, write them into that folder's files, which have the full size."""

    def read_piece(name: str, start: int, end: int) -> None:
        with (
            (folder / name).open("rb", buffering=0) as source,
            (copy / name).open("r+b", buffering=0) if copy else nullcontext() as target,
        ):
            while start < end:
                block = os.pread(source.fileno(), min(_BLOCK, end - start), start)
                if not block:
                    raise OSError(f"{folder / name} became shorter while it was read")
                start += os.pwrite(target.fileno(), block, start) if target else len(block)

    pieces = [(n, at, min(at + _PIECE, size)) for n, size in parts.items() for at in range(0, size, _PIECE)]
    with ThreadPoolExecutor(STREAMS) as pool:
        for future in [pool.submit(read_piece, *piece) for piece in pieces]:
            future.result()


def node_folder(inner: str = "") -> Path:
    """A private folder of this user on the node's own disk, or a folder in it. Raises EngineConfigError."""
    folder = Path(tempfile.gettempdir()) / f"kgqa-{os.getuid()}"
    cure = "set TMPDIR to a folder of yours"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise EngineConfigError(f"{folder} belongs to another user", cure)
        (folder / inner).mkdir(mode=0o700, exist_ok=True)
    except OSError as problem:
        raise EngineConfigError(f"{folder}: {problem.strerror}", cure) from None
    return folder / inner


@contextmanager
def node_lock(path: Path) -> Iterator[int]:
    """Hold a lock of this node; yields its file. The lock ends with the process, however that ends."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)
