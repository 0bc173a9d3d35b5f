"""sealed: HDF5 files that any program opens, in which no byte can change unseen, and which refer to no other file."""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from kgqa_hpc.errors import CorruptFile, DiskFull, MissingFile, StoreError
from kgqa_hpc.store import sealed
from kgqa_hpc.store.sealed import HEADER_BYTES, create_sealed, open_sealed, read_header, verify
from tests.disk_watch import refuse, watch


def write(path: Path, size: int = 10, **options: object) -> sealed.SealedFile:
    with create_sealed(path, "thing", header={"rows": size}, **options) as file:  # type: ignore[arg-type]
        file.create_dataset("numbers", data=np.arange(size))
        file.header["counts"] = {"accepted": 3}
    return file


def test_a_sealed_file_is_plain_hdf5_whose_first_line_tells_format_size_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    assert write(path).committed
    assert os.listdir(tmp_path) == ["f.h5"]
    with open_sealed(path, "thing") as verified:
        assert verified["numbers"][:].tolist() == list(range(10))
    with h5py.File(path, "r") as plain:
        assert plain["numbers"][:].tolist() == list(range(10))
        assert (plain.attrs["format"], int(plain.attrs["version"])) == ("kgqa-thing", 1)
        assert plain.attrs["header"] == '{"counts":{"accepted":3},"rows":10}'
    line = path.read_bytes()[:HEADER_BYTES]
    assert line.startswith(b'{"bytes":')
    assert line.endswith(b" \n")
    header = read_header(path, "thing")
    facts = {"format": "kgqa-thing", "version": 1, "rows": 10, "counts": {"accepted": 3}}
    assert header == {**facts, "bytes": path.stat().st_size, "sha256": header["sha256"]}
    assert header == verify(path, "thing")


def test_equal_content_has_equal_bytes_at_another_time(tmp_path: Path) -> None:
    write(tmp_path / "a.h5", size=100_000)
    time.sleep(1.1)  # a time stamp in the file would have changed
    write(tmp_path / "b.h5", size=100_000)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_facts_that_do_not_fit_the_header_stand_in_the_file(tmp_path: Path) -> None:
    facts = {"long": "x" * 2000, "less": "y" * 500, "seed": 1}
    with create_sealed(tmp_path / "f.h5", "thing", header=facts):
        pass
    header = read_header(tmp_path / "f.h5", "thing")
    assert header["omitted"] == ["long"]
    assert (header["less"], header["seed"]) == (facts["less"], 1)
    with open_sealed(tmp_path / "f.h5", "thing") as file:
        assert facts["long"] in file.attrs["header"]


def fill_more_than_hdf5_keeps_in_memory(file: h5py.File) -> None:
    """Chunks are written out, read back and changed."""
    numbers = file.create_dataset("n", (200, 1 << 16), "i8", chunks=(1, 1 << 16), fletcher32=True)
    for row in range(200):
        numbers[row, :] = row
    for row in range(200):
        numbers[row, 7] = -row


def test_what_hdf5_reads_back_while_writing_is_what_it_wrote(tmp_path: Path) -> None:
    with create_sealed(tmp_path / "f.h5", "thing") as file:
        fill_more_than_hdf5_keeps_in_memory(file)
    with open_sealed(tmp_path / "f.h5", "thing") as read:
        assert read["n"][:, 7].tolist() == [-row for row in range(200)]
        assert read["n"][:, 8].tolist() == list(range(200))


@pytest.mark.parametrize("nth", [40, 150])
def test_the_refusal_is_told_and_not_what_hdf5_makes_of_it(tmp_path: Path, nth: int) -> None:
    """After a refused write HDF5 reads what is not there and complains about checksums."""

    def fill() -> None:
        with create_sealed(tmp_path / "f.h5", "thing") as file:
            fill_more_than_hdf5_keeps_in_memory(file)

    with watch(refuse("pwrite", nth=nth)), pytest.raises(DiskFull, match="No space left"):
        fill()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "data", [b"", b"x" * 5000, b"{}\n" + b" " * 2000, b"[1]" + b" " * 1021, "ordinary HDF5"]
)
def test_other_files_are_corrupt_and_no_crash(tmp_path: Path, data: bytes | str) -> None:
    if isinstance(data, bytes):
        (tmp_path / "f.h5").write_bytes(data)
    else:
        with h5py.File(tmp_path / "f.h5", "w", userblock_size=1024) as file:
            file["x"] = 1
    with pytest.raises(CorruptFile, match="not a sealed file"), open_sealed(tmp_path / "f.h5", "thing"):
        pass


def test_a_sealed_file_of_something_that_is_not_hdf5_is_a_store_error(tmp_path: Path) -> None:
    body = b"not HDF5"
    fields = {"format": "kgqa-thing", "version": 1, "bytes": HEADER_BYTES + len(body)}
    fields["sha256"] = hashlib.sha256(body).hexdigest()
    (tmp_path / "f.h5").write_bytes(sealed.render_header(fields) + body)
    with pytest.raises(StoreError, match="HDF5 cannot open it"), open_sealed(tmp_path / "f.h5", "thing"):
        pass


def test_another_kind_a_vanishing_file_and_another_size_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.h5"
    with pytest.raises(MissingFile, match="no such file"):
        read_header(path, "thing")
    write(path)
    with pytest.raises(CorruptFile, match="is 'kgqa-thing', not a kgqa-shard file"):
        read_header(path, "shard")
    whole = path.stat().st_size
    for size in (1024, 3000, 99_999):
        os.truncate(path, size)
        with pytest.raises(CorruptFile, match=f"has {size} bytes instead of {whole}"):
            read_header(path, "thing")
    path.unlink()
    monkeypatch.setattr(sealed, "read_header", lambda *_: {"sha256": ""})
    with pytest.raises(MissingFile, match="no such file"):
        verify(path, "thing")


def test_a_header_too_long_even_without_extras_is_an_error() -> None:
    with pytest.raises(ValueError, match="1023 are the limit"):
        sealed.render_header({"format": "x" * 2000})


# A foreign sealed file cannot refer to other files, so it adds only its own bytes to a dataset.
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
def test_what_is_not_the_files_is_refused(tmp_path: Path, plant: Callable[[h5py.File, Path], None]) -> None:
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
