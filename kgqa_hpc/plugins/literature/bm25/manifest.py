"""The manifest of an index, `index.json`, with a checksum of every file.

An index is a folder that appears only when complete and is never changed afterwards. The manifest holds the
parameters, the input files with their sha256, the counts, what building cost, and the files of each shard.
"""

from pathlib import Path
from typing import Any

from kgqa_hpc.errors import CorruptFile, InputError
from kgqa_hpc.store import canonical
from kgqa_hpc.store.canonical import read_document, write_document

NAME = "index.json"
VERSION = 1
# Up to this size every byte is verified whenever an index is opened: it takes under a second.
VERIFIED_ALWAYS = 512 << 20


def describe_file(path: Path) -> dict[str, Any]:
    """Size and sha256 of a file."""
    return {"bytes": path.stat().st_size, "sha256": canonical.sha256_of(path)}


def fingerprint(parameters: dict[str, Any], inputs: list[dict[str, Any]]) -> str:
    """The fingerprint of an index: equal inputs and parameters, equal fingerprint."""
    return canonical.digest({"parameters": parameters, "inputs": [source["sha256"] for source in inputs]})


def write_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Describe every file of the finished shards. Raises DiskFull."""
    files = {
        str(path.relative_to(folder)): describe_file(path)
        for path in sorted((folder / "shards").rglob("*"))
        if path.is_file()
    }
    write_document(folder / NAME, {"format": "kgqa-index", "version": VERSION, **content, "files": files})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished index. Raises InputError (the folder is none), CorruptFile, NewerFormat."""
    if not (folder / NAME).is_file():
        problem = f"{folder}: not an index (no {NAME} in it)"
        raise InputError(problem, "make one: kgqa index build INDEX DOCS…")
    return read_document(folder / NAME, "index", VERSION)


def verify(folder: Path, manifest: dict[str, Any], every_byte: bool | None = None) -> None:
    """Check the files against the manifest: names and sizes always, every byte when small or when asked for.

    Raises CorruptFile with the name of the file.
    """
    files = manifest["files"]
    if every_byte is None:
        every_byte = sum(file["bytes"] for file in files.values()) <= VERIFIED_ALWAYS
    for name, expected in files.items():
        path = folder / name
        cure = "remove the index and build it again"
        if not path.is_file() or path.stat().st_size != expected["bytes"]:
            raise CorruptFile(f"{path}: missing, or not as long as it was written", cure)
        if every_byte and canonical.sha256_of(path) != expected["sha256"]:
            raise CorruptFile(f"{path}: the checksum does not match the content", cure)
