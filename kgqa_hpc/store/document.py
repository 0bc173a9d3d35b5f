"""JSON documents with a checksum: manifests, reasons, pins.

The file is the indented, key-sorted rendering of the object with a member "checksum" (sha256 of the canonical
rendering of all others). A reader renders the parsed object again and compares all bytes, so every flipped bit is
noticed, even in a space. docs/reference/format.md, section 4.
"""

from pathlib import Path
from typing import Any

from kgqa_hpc.errors import CorruptFile, MissingFile, NewerFormat, OlderFormat
from kgqa_hpc.store import atomic, canonical
from kgqa_hpc.store.regular import NotRegular, read_with_state

CHECKSUM = "checksum"


def write_document(path: Path, content: dict[str, Any], exclusive: bool = False) -> bool:
    """Commit `content`; False when `exclusive` and the file is there already. Raises DiskFull, StoreError."""
    plain = canonical.loads(canonical.canonical(content))
    return atomic.write_file(path, _render(plain), exclusive=exclusive)


def read_document(path: Path, kind: str | None = None, version: int = 1) -> dict[str, Any]:
    """The verified content, without its checksum.

    With `kind`, the document's "format" must be `kgqa-<kind>` and its "version" `version`.
    Raises CorruptFile, NewerFormat, OlderFormat, or StoreError when the file is missing or unreadable.
    """
    data = read_bytes(path)
    try:
        content = canonical.loads(data)
    except ValueError:
        raise CorruptFile(f"{path}: not a JSON document") from None
    if not isinstance(content, dict) or CHECKSUM not in content:
        raise CorruptFile(f"{path}: a document without a checksum")
    del content[CHECKSUM]
    if _render(content) != data:
        raise CorruptFile(f"{path}: the checksum does not match the content")
    if kind is not None:
        require_kind(path, content, kind, version)
    return content


def read_bytes(path: Path) -> bytes:
    """All bytes of the file. Raises StoreError when it is missing or unreadable."""
    return read_sized(path)[0]


def read_sized(path: Path, limit: int = -1) -> tuple[bytes, int]:
    """The file's bytes (the first `limit`) and its size.

    Raises MissingFile, CorruptFile if it is not a regular file, StoreError if it is unreadable.
    """
    try:
        data, state = read_with_state(path, limit)
        return data, state.st_size
    except FileNotFoundError:
        raise MissingFile(f"{path}: no such file") from None
    except NotRegular:
        raise CorruptFile(f"{path}: is not a regular file") from None
    except OSError as problem:
        raise atomic.disk_error(path, problem) from problem


def require_kind(path: Path, header: dict[str, Any], kind: str, version: int) -> None:
    """Raises CorruptFile for another kind of file, NewerFormat or OlderFormat for another version of this kind."""
    recorded, number = header.get("format"), header.get("version")
    if recorded != f"kgqa-{kind}" or not isinstance(number, int) or number < 1:
        raise CorruptFile(f"{path}: is {recorded!r}, not a kgqa-{kind} file")
    if number > version:
        raise NewerFormat(
            f"{path}: version {number} of kgqa-{kind}; this program knows up to {version}",
            "update kgqa_hpc, or use the version that wrote the run",
        )
    if number < version:
        raise OlderFormat(f"{path}: version {number} of kgqa-{kind}; this program reads version {version}")


def _render(content: dict[str, Any]) -> bytes:
    return canonical.pretty({**content, CHECKSUM: canonical.digest(content)})
