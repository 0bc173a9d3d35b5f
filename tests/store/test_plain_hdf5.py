"""A foreign sealed file cannot refer to other files, so it adds only its own bytes to a dataset."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from kgqa_hpc.errors import CorruptFile
from kgqa_hpc.store.document import read_document
from kgqa_hpc.store.sealed import create_sealed, open_sealed, read_header


def external_storage(file: h5py.File, secret: Path) -> None:
    file.create_dataset("bytes", (8,), dtype=np.uint8, external=[(os.fsencode(secret), 0, 8)])


def virtual_dataset(file: h5py.File, secret: Path) -> None:
    layout = h5py.VirtualLayout((4,), dtype=np.uint8)
    layout[:] = h5py.VirtualSource(os.fspath(secret), "bytes", (4,))
    file.create_virtual_dataset("bytes", layout)


def external_link(file: h5py.File, secret: Path) -> None:
    file["bytes"] = h5py.ExternalLink(os.fspath(secret), "/bytes")


def soft_link(file: h5py.File, secret: Path) -> None:
    file["bytes"] = h5py.SoftLink("/elsewhere")


def huge_shape(file: h5py.File, secret: Path) -> None:
    file.create_dataset("bytes", (1 << 50,), dtype=np.uint8, chunks=(1 << 20,), compression="gzip")


def huge_chunk(file: h5py.File, secret: Path) -> None:
    file.create_dataset("bytes", (1,), dtype=np.uint8, chunks=(1 << 30,), maxshape=(None,))


def circle(file: h5py.File, secret: Path) -> None:
    inner = file.create_group("a")
    inner["again"] = inner


@pytest.mark.parametrize(
    "plant", [external_storage, virtual_dataset, external_link, soft_link, huge_shape, huge_chunk, circle]
)
def test_what_is_not_the_files_own_is_refused(
    tmp_path: Path, plant: Callable[[h5py.File, Path], None]
) -> None:
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["bytes"] = np.arange(8, dtype=np.uint8)
    path = tmp_path / "f.h5"
    with create_sealed(path, "thing", header={"rows": 0}) as sealed:
        plant(sealed.create_group("group"), secret)
    with pytest.raises(CorruptFile), open_sealed(path, "thing"):
        pass


def test_the_most_compressible_content_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with create_sealed(path, "thing", header={"rows": 0}) as sealed:
        zeros = np.zeros(20_000_000, np.uint8)
        sealed.create_dataset("a", data=zeros, chunks=(1 << 18,), compression="gzip", compression_opts=9)
        sealed.create_dataset("none", data=zeros[:0])
    with open_sealed(path, "thing") as file:
        assert not file["a"][:].any()


def test_a_fifo_or_socket_is_refused_and_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo.h5")
    monkeypatch.chdir(tmp_path)  # a socket's name must be short
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket.h5")
    with pytest.raises(CorruptFile, match="not a regular file"):
        read_header(tmp_path / "fifo.h5", "thing")
    with pytest.raises(CorruptFile, match="not a regular file"):
        read_document(tmp_path / "fifo.h5")
    with pytest.raises(CorruptFile, match="not a regular file"):
        read_header(tmp_path / "socket.h5", "thing")
    listener.close()
