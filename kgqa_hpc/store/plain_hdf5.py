"""What an HDF5 file from outside may hold: plain datasets of its own bytes, and nothing else.

HDF5 can read other files on behalf of a file: external storage, virtual datasets and external links would
bring a reader's private files into a dataset. And a dataset may declare any shape and store nothing. A
checksum does not help, for it is the author's. So everything a file holds is looked at before it is used.
docs/security.md.
"""

from __future__ import annotations

from math import prod
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
    """Raises CorruptFile for links, foreign storage, and shapes that the file's bytes cannot fill.

    By HDF5's own calls: h5py's objects take ten times as long, and this is done for every shard that is read.
    """
    waiting = [(h5py.h5g.open(file.id, b"/"), str(path) + ": ")]
    looked = 0
    while waiting:
        group, parent = waiting.pop()
        for name in group:
            looked += 1
            if looked > MOST_OBJECTS:
                raise CorruptFile(f"{path}: holds more than {MOST_OBJECTS} objects")
            where = f"{parent}/{name.decode('utf-8', 'replace')}"
            if group.links.get_info(name).type != h5py.h5l.TYPE_HARD:
                raise CorruptFile(f"{where} is a link; only datasets of the file's own are read")
            member = h5py.h5o.open(group, name)
            if isinstance(member, h5py.h5g.GroupID):
                waiting.append((member, where))
            elif isinstance(member, h5py.h5d.DatasetID):
                _require_own_bytes(where, member)


def _require_own_bytes(where: str, dataset: h5py.h5d.DatasetID) -> None:
    made = dataset.get_create_plist()
    layout = made.get_layout()
    if layout == h5py.h5d.VIRTUAL or made.get_external_count():
        raise CorruptFile(f"{where} is stored in another file; only datasets of the file's own are read")
    dtype = dataset.dtype
    if dtype.kind not in "iuf":
        raise CorruptFile(f"{where} does not hold numbers")
    stored = dataset.get_storage_size()
    chunk = dtype.itemsize * prod(made.get_chunk() if layout == h5py.h5d.CHUNKED else ())
    size = dtype.itemsize * prod(dataset.shape)
    if chunk > LARGEST_CHUNK or size > MOST_PACKED * stored:
        raise CorruptFile(f"{where} declares {size:,} bytes and stores {stored:,}")
