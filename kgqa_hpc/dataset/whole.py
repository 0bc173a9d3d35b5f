"""Readers of a dataset's files, which are verified by SHA256SUMS before a command reads them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.errors import CorruptFile
from kgqa_hpc.store.atomic import disk_errors
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.store.disk import open_regular

SUMS = "SHA256SUMS"
_TRIES = 3  # attempts; another merge may exchange the folder between two reads


def require_whole(dataset: Path, *names: str) -> None:
    """Raise CorruptFile for a file of the dataset whose checksum differs from SHA256SUMS.

    Folders without SHA256SUMS (made by hand) and files that it does not name are not checked.
    """
    for attempt in range(_TRIES):
        sums = read_sums(dataset)
        wrong = [name for name in names if name in sums and _digest(dataset / name) != sums[name]]
        if not wrong:
            return
        if attempt and read_sums(dataset) == sums:
            break
    raise damaged(dataset / wrong[0])


def read_sums(dataset: Path) -> dict[str, str]:
    """sha256 by file name; empty where there is no SHA256SUMS. Raises CorruptFile when it cannot be read."""
    path = dataset / SUMS
    if not path.exists():
        return {}
    try:
        with disk_errors(path), open(open_regular(path), "rb") as file:
            lines = file.read().decode("utf-8").splitlines()
        return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except ValueError:
        raise damaged(path) from None


def write_sums(folder: Path, digests: dict[str, str]) -> None:
    """Write SHA256SUMS of all files of a folder, as `sha256sum --check` reads it; files in `digests` are not read
    again.
    """
    files = sorted(
        (path.relative_to(folder).as_posix(), path) for path in folder.rglob("*") if path.is_file()
    )
    lines = [f"{digests.get(name) or sha256_of(path)}  {name}\n" for name, path in files]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def read_accounting_file(dataset: Path) -> dict[str, Any]:
    """The content of accounting.json. Raises CorruptFile when it is not what merge wrote."""
    require_whole(dataset, "accounting.json")
    path = dataset / "accounting.json"
    try:
        with disk_errors(path), open(open_regular(path), "rb") as file:
            accounting = orjson.loads(file.read())
    except ValueError:
        raise damaged(path) from None
    if not isinstance(accounting, dict) or not isinstance(accounting.get("groups"), dict):
        raise damaged(path)
    return accounting


def read_records(dataset: Path, name: str) -> Iterator[dict[str, Any]]:
    """Records of a file of the dataset (accepted, rejected or lost). Raises CorruptFile for a damaged file."""
    path = dataset / f"{name}.jsonl"
    require_whole(dataset, path.name)
    with disk_errors(path), open(open_regular(path), "rb") as file:
        yield from map(orjson.loads, file)


def damaged(path: Path) -> CorruptFile:
    """The error for a dataset file that changed after merge or combine wrote it."""
    if (path.parent / "combined.json").exists():
        return CorruptFile(f"{path}: is damaged", "combine again: kgqa combine OUT RUN RUN")
    return CorruptFile(f"{path}: is damaged", f"merge again: kgqa merge {path.parent.parent}")


def _digest(path: Path) -> str | None:
    return sha256_of(path) if path.is_file() else None
