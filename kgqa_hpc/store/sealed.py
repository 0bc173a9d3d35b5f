"""Sealed HDF5 files: written once and atomically, with a checksum over every byte.

The first 1024 bytes (HDF5's user block) hold one line of canonical JSON: format, version, size, sha256 of all
that follows, and small counts; so 1 KiB identifies a file, and any HDF5 program can open it.
`open_sealed` verifies every byte before HDF5 reads the file. docs/reference/format.md, section 3.

HDF5 can read other files on behalf of a file: external storage, virtual datasets and external links would
bring a reader's private files into a dataset; and a dataset may declare any shape and store nothing. A
checksum does not help, because the author of the file computes it. So all objects of a file are checked
before use. docs/reference/security.md.
"""

import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from math import prod
from pathlib import Path
from typing import Any

import h5py

from kgqa_hpc.errors import CorruptFile, MissingFile, StoreError
from kgqa_hpc.store import atomic, canonical

HEADER_BYTES = 1024
# The only supported version of each kind of file; 1 for kinds that are not listed.
VERSIONS = {"anchors": 2, "knowledge-graph": 2, "shard": 2, "result": 2}
# The format of superblock and object headers, which every HDF5 since 1.8 reads.
LIBVER = ("earliest", "v110")
_ESSENTIAL = {"format", "version", "bytes", "sha256", "rows", "made_by", "pass", "shard", "grown"}


class SealedFile(h5py.File):
    """A sealed file that is being written: an h5py.File and its future `header`.

    `header` may be extended until the block ends (counts are known last). `committed` is true afterwards
    if this writer's file got the name; it can be false only with `exclusive`.
    """

    header: dict[str, Any]
    committed = False


@contextmanager
def create_sealed(
    path: Path, kind: str, *, header: dict[str, Any] | None = None, exclusive: bool = False
) -> Iterator[SealedFile]:
    """Write a sealed file; it appears under `path` when the block ends without an exception.

    `header` holds small facts; members that do not fit into 1 KiB are stored in the root attribute "header" only.
    Raises DiskFull or StoreError with no temp file left.
    """
    version = VERSIONS.get(kind, 1)
    with atomic.temp_file(path) as (fd, temp), atomic.disk_errors(path):
        sink = _Sink(fd, "r+", closefd=False)
        try:
            with SealedFile(sink, "w", userblock_size=HEADER_BYTES, libver=LIBVER) as sealed:
                sealed.header = dict(header or {})
                yield sealed
                sealed.attrs["format"] = f"kgqa-{kind}"
                sealed.attrs["version"] = version
                sealed.attrs["header"] = canonical.canonical(sealed.header).decode()
        except Exception:
            # HDF5 reports a failed write late or not at all, so the first error of the file itself is raised.
            if sink.refusal is not None:
                raise sink.refusal from None
            raise
        if sink.refusal is not None:
            raise sink.refusal
        fields = {**sealed.header, "format": f"kgqa-{kind}", "version": version}
        fields |= {"bytes": os.fstat(fd).st_size, "sha256": _body_sha256(fd)}
        atomic.write_all(fd, _fitting_header(fields), 0)
        sealed.committed = atomic.commit(fd, temp, path, exclusive=exclusive)


@contextmanager
def open_sealed(path: Path, kind: str) -> Iterator[h5py.File]:
    """The verified file, open for reading. Raises CorruptFile, NewerFormat or StoreError."""
    verify(path, kind)
    try:
        # Sealed files never change: no lock is needed, and many parallel file systems refuse them.
        h5 = h5py.File(path, "r", locking=False)
    except OSError as problem:
        raise StoreError(f"{path}: HDF5 cannot open it: {problem}") from problem
    # HDF5 raises its own OSError when the file system refuses a read.
    with h5, atomic.disk_errors(path):
        require_plain(path, h5)
        yield h5


def verify(path: Path, kind: str) -> dict[str, Any]:
    """Verify every byte of the file against its header, and return the header."""
    header = read_header(path, kind)
    try:
        with open(atomic.open_regular(path), "rb", buffering=0) as file:
            digest = _body_sha256(file.fileno())
    except FileNotFoundError:
        raise MissingFile(f"{path}: no such file") from None
    except OSError as problem:
        raise atomic.disk_error(path, problem) from problem
    if digest != header["sha256"]:
        raise CorruptFile(f"{path}: the checksum does not match the content")
    return header


def read_header(path: Path, kind: str) -> dict[str, Any]:
    """Read the header (1 KiB), and verify its check and the file's size; the body is not verified."""
    block, size = canonical.read_sized(path, HEADER_BYTES)
    try:
        header: dict[str, Any] = canonical.loads(block)
        del header["check"]
        intact = len(block) == HEADER_BYTES and render_header(header) == block
    except (ValueError, KeyError, TypeError):
        intact = False
    if not intact:
        raise CorruptFile(f"{path}: not a sealed file, or its header is damaged")
    canonical.require_kind(path, header, kind, VERSIONS.get(kind, 1))
    if size != header.get("bytes") or "sha256" not in header:
        raise CorruptFile(f"{path}: has {size} bytes instead of {header.get('bytes')}")
    return header


def render_header(fields: dict[str, Any]) -> bytes:
    """The header as 1024 bytes: canonical JSON with a "check" (CRC-32 of the JSON without it), spaces, newline.

    Raises ValueError when it does not fit.
    """
    check = f"{zlib.crc32(canonical.canonical(fields)):08x}"
    line = canonical.canonical({**fields, "check": check})
    if len(line) >= HEADER_BYTES:
        raise ValueError(f"a header of {len(line)} bytes; {HEADER_BYTES - 1} are the limit")
    return line.ljust(HEADER_BYTES - 1) + b"\n"


def _fitting_header(fields: dict[str, Any]) -> bytes:
    """The header as 1024 bytes, without as many of its largest members as necessary; "omitted" names these."""
    fields = dict(fields)
    for name in sorted(fields.keys() - _ESSENTIAL, key=lambda name: -len(canonical.canonical(fields[name]))):
        try:
            return render_header(fields)
        except ValueError:
            del fields[name]
            fields["omitted"] = [*fields.get("omitted", []), name]
    return render_header(fields)


def _body_sha256(fd: int) -> str:
    digest, offset = hashlib.sha256(), HEADER_BYTES
    while block := os.pread(fd, 1 << 20, offset):
        digest.update(block)
        offset += len(block)
    return digest.hexdigest()


class _Sink(FileIO):
    """File object for HDF5 that sends every write through `atomic`.

    After the first failed write (disk full, …) it discards all further writes: HDF5 can then close the file,
    and `create_sealed` raises the first error. An exception inside HDF5's own calls would leave a handle that
    cannot be closed.
    """

    refusal: OSError | None = None

    def write(self, data: Any) -> int:
        position = self.tell()
        if self.refusal is None:
            try:
                atomic.write_all(self.fileno(), data, position)
            except OSError as problem:
                self.refusal = problem
        self.seek(position + len(data))
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        size = self.tell() if size is None else size
        if self.refusal is None:
            try:
                atomic.truncate(self.fileno(), size)
            except OSError as problem:
                self.refusal = problem
        return size


# Largest number of objects in a file; our files have about twenty.
MOST_OBJECTS = 1000
# Largest compression ratio of deflate, with or without shuffling.
MOST_PACKED = 1100
# Largest chunk in bytes; ours have 256 KiB.
LARGEST_CHUNK = 64 << 20


def require_plain(path: Path, file: h5py.File) -> None:
    """Raises CorruptFile for links, foreign storage, and shapes that the file's bytes cannot fill.

    Uses h5py's low-level API, ten times as fast as its objects, because every shard that is read is checked.
    """
    waiting = [(h5py.h5g.open(file.id, b"/"), str(path) + ": ")]
    looked = 0
    while waiting:
        group, parent = waiting.pop()
        for name in group:
            looked += 1
            if looked > MOST_OBJECTS:
                raise CorruptFile(f"{path}: holds more than {MOST_OBJECTS} objects")
            location = f"{parent}/{name.decode('utf-8', 'replace')}"
            if group.links.get_info(name).type != h5py.h5l.TYPE_HARD:
                raise CorruptFile(f"{location} is a link; only datasets of the file's own are read")
            member = h5py.h5o.open(group, name)
            if isinstance(member, h5py.h5g.GroupID):
                waiting.append((member, location))
            elif isinstance(member, h5py.h5d.DatasetID):
                _require_own_bytes(location, member)


def _require_own_bytes(location: str, dataset: h5py.h5d.DatasetID) -> None:
    properties = dataset.get_create_plist()
    layout = properties.get_layout()
    if layout == h5py.h5d.VIRTUAL or properties.get_external_count():
        raise CorruptFile(f"{location} is stored in another file; only datasets of the file's own are read")
    dtype = dataset.dtype
    if dtype.kind not in "iuf":
        raise CorruptFile(f"{location} does not hold numbers")
    stored = dataset.get_storage_size()
    chunk = dtype.itemsize * prod(properties.get_chunk() if layout == h5py.h5d.CHUNKED else ())
    size = dtype.itemsize * prod(dataset.shape)
    if chunk > LARGEST_CHUNK or size > MOST_PACKED * stored:
        raise CorruptFile(f"{location} declares {size:,} bytes and stores {stored:,}")
