"""What an HDF5 file from outside may hold: plain datasets of its own bytes, and nothing else.

HDF5 can read other files on behalf of a file: external storage, virtual datasets and external links would
bring a reader's private files into a dataset. And a dataset may declare any shape and store nothing. A
checksum does not help, for it is the author's. So everything a file holds is looked at before it is used.
docs/security.md.
"""

from __future__ import annotations

from pathlib import Path

import h5py

from kgqa_hpc.errors import CorruptFile

# Our files hold about twenty.
MOST_OBJECTS = 1000
# Deflate packs at most 1,032 bytes into one, shuffled or not.
MOST_PACKED = 1100
# Largest chunk that is unpacked at once; ours have 256 KiB.
LARGEST_CHUNK = 64 << 20


def require_plain(path: Path, file: h5py.File) -> None:
    """Raises CorruptFile for links, foreign storage, and shapes that the file's bytes cannot fill."""
    waiting: list[h5py.Group] = [file]
    looked = 0
    while waiting:
        group = waiting.pop()
        for name in group:
            looked += 1
            if looked > MOST_OBJECTS:
                raise CorruptFile(f"{path}: holds more than {MOST_OBJECTS} objects")
            where = f"{path}: {group.name.rstrip('/')}/{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise CorruptFile(f"{where} is a link; only datasets of the file's own are read")
            member = group[name]
            if isinstance(member, h5py.Group):
                waiting.append(member)
            elif isinstance(member, h5py.Dataset):
                _require_own_bytes(where, member)


def _require_own_bytes(where: str, dataset: h5py.Dataset) -> None:
    if dataset.is_virtual or dataset.external:
        raise CorruptFile(f"{where} is stored in another file; only datasets of the file's own are read")
    if dataset.dtype.kind not in "iuf":
        raise CorruptFile(f"{where} does not hold numbers")
    stored = dataset.id.get_storage_size()
    chunk = dataset.dtype.itemsize
    for length in dataset.chunks or ():
        chunk *= length
    if chunk > LARGEST_CHUNK or dataset.nbytes > MOST_PACKED * stored:
        raise CorruptFile(f"{where} declares {dataset.nbytes:,} bytes and stores {stored:,}")
