"""sealed: HDF5 files that any program opens and in which no byte can change unseen."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from kgqa_hpc.errors import CorruptFile, DiskFull, MissingFile, NewerFormat, StoreError
from kgqa_hpc.store import sealed
from kgqa_hpc.store.sealed import HEADER_BYTES, create_sealed, open_sealed, read_header, verify
from tests.disk_watch import watch


def write(path: Path, size: int = 10, **options: object) -> sealed.SealedFile:
    with create_sealed(path, "thing", header={"rows": size}, **options) as file:  # type: ignore[arg-type]
        file.create_dataset("numbers", data=np.arange(size))
        file.header["counts"] = {"accepted": 3}
    return file


def test_a_sealed_file_is_plain_hdf5_with_a_readable_first_line(tmp_path: Path) -> None:
    assert write(tmp_path / "f.h5").committed
    with h5py.File(tmp_path / "f.h5", "r") as file:
        assert file["numbers"][:].tolist() == list(range(10))
        assert (file.attrs["format"], int(file.attrs["version"])) == ("kgqa-thing", 1)
        assert file.attrs["header"] == '{"counts":{"accepted":3},"rows":10}'
    line = (tmp_path / "f.h5").read_bytes()[:HEADER_BYTES]
    assert line.startswith(b'{"bytes":')
    assert line.endswith(b" \n")
    assert os.listdir(tmp_path) == ["f.h5"]


def test_the_header_tells_format_size_and_counts(tmp_path: Path) -> None:
    write(tmp_path / "f.h5")
    header = read_header(tmp_path / "f.h5", "thing")
    assert header["format"] == "kgqa-thing"
    assert header["version"] == 1
    assert header["rows"] == 10
    assert header["counts"] == {"accepted": 3}
    assert header["bytes"] == (tmp_path / "f.h5").stat().st_size
    assert header == verify(tmp_path / "f.h5", "thing")


def test_a_verified_file_can_be_read(tmp_path: Path) -> None:
    write(tmp_path / "f.h5")
    with open_sealed(tmp_path / "f.h5", "thing") as file:
        assert file["numbers"].shape == (10,)


def test_equal_content_has_equal_bytes_at_another_time(tmp_path: Path) -> None:
    write(tmp_path / "a.h5", size=100_000)
    time.sleep(1.1)  # a time stamp in the file would have changed
    write(tmp_path / "b.h5", size=100_000)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_an_exclusive_file_is_written_once(tmp_path: Path) -> None:
    assert write(tmp_path / "f.h5", exclusive=True).committed
    assert not write(tmp_path / "f.h5", size=5, exclusive=True).committed
    assert read_header(tmp_path / "f.h5", "thing")["rows"] == 10


def test_facts_that_do_not_fit_the_header_stand_in_the_file(tmp_path: Path) -> None:
    facts = {"long": "x" * 2000, "less": "y" * 500, "seed": 1}
    with create_sealed(tmp_path / "f.h5", "thing", header=facts):
        pass
    header = read_header(tmp_path / "f.h5", "thing")
    assert header["omitted"] == ["long"]
    assert (header["less"], header["seed"]) == (facts["less"], 1)
    with open_sealed(tmp_path / "f.h5", "thing") as file:
        assert facts["long"] in file.attrs["header"]


def test_an_exception_while_filling_leaves_nothing(tmp_path: Path) -> None:
    def fill() -> None:
        with create_sealed(tmp_path / "f.h5", "thing") as file:
            file.create_dataset("numbers", data=np.arange(1000))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fill()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("call", ["pwrite", "truncate", "fsync", "open", "rename"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_every_refused_call_is_disk_full_and_leaves_nothing(tmp_path: Path, call: str, number: int) -> None:
    seen: list[str] = []

    def probe(name: str, where: str) -> None:
        seen.append(name)
        if seen.count(call) == nth and name == call:
            raise OSError(number, os.strerror(number))

    nth = 1
    while True:
        seen.clear()
        refused = True
        with watch(probe):
            try:
                write(tmp_path / "f.h5", size=70_000)
                refused = False
            except DiskFull as problem:
                assert str(tmp_path / "f.h5") in problem.message
        if not refused:
            break
        # The last fsync is the folder's: the name is there already, and whole.
        assert os.listdir(tmp_path) in ([], ["f.h5"])
        nth += 1
    assert nth > 1
    assert read_header(tmp_path / "f.h5", "thing")["rows"] == 70_000


def test_a_file_size_limit_of_the_system_is_disk_full_and_leaves_nothing(tmp_path: Path) -> None:
    """The real thing, without a probe: the kernel itself refuses the write."""
    program = """
        import resource, signal, sys
        from pathlib import Path
        import numpy as np
        from kgqa_hpc.errors import DiskFull
        from kgqa_hpc.store.sealed import create_sealed
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
        try:
            with create_sealed(Path(sys.argv[1]), "thing") as file:
                for k in range(20):
                    file.create_dataset(f"d{k}", data=np.arange(2000))
        except DiskFull as problem:
            print(problem.message)
    """
    for limit in (0, 1000, 5000, 100_000, 300_000):
        command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "f.h5"), str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.stdout.strip() == f"{tmp_path / 'f.h5'}: File too large"
        assert done.returncode == 0, done.stderr
        assert os.listdir(tmp_path) == []


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
    writes: list[str] = []

    def probe(call: str, where: str) -> None:
        writes.append(call)
        if writes.count("pwrite") >= nth and call == "pwrite":
            raise OSError(errno.ENOSPC, "full")

    def fill() -> None:
        with create_sealed(tmp_path / "f.h5", "thing") as file:
            fill_more_than_hdf5_keeps_in_memory(file)

    with watch(probe), pytest.raises(DiskFull, match="No space left"):
        fill()
    assert os.listdir(tmp_path) == []


def test_a_newer_version_says_so_and_is_not_called_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sealed.VERSIONS, "thing", 2)
    write(tmp_path / "f.h5")
    monkeypatch.undo()
    with pytest.raises(NewerFormat, match="version 2 of kgqa-thing") as caught:
        read_header(tmp_path / "f.h5", "thing")
    assert not isinstance(caught.value, CorruptFile)
    monkeypatch.setitem(sealed.VERSIONS, "thing", 2)
    assert read_header(tmp_path / "f.h5", "thing")["version"] == 2


def test_another_kind_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "f.h5")
    with pytest.raises(CorruptFile, match="is 'kgqa-thing', not a kgqa-shard file"):
        read_header(tmp_path / "f.h5", "shard")


@pytest.mark.parametrize("data", [b"", b"x" * 5000, b"{}\n" + b" " * 2000, b"[1]" + b" " * 1021])
def test_other_files_are_corrupt_and_no_crash(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "f.h5").write_bytes(data)
    with pytest.raises(CorruptFile, match="not a sealed file"), open_sealed(tmp_path / "f.h5", "thing"):
        pass


def test_an_ordinary_hdf5_file_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w", userblock_size=1024) as file:
        file["x"] = 1
    with pytest.raises(CorruptFile, match="not a sealed file"):
        verify(tmp_path / "f.h5", "thing")


def test_a_sealed_file_of_something_that_is_not_hdf5_is_a_store_error(tmp_path: Path) -> None:
    body = b"not HDF5"
    fields = {"format": "kgqa-thing", "version": 1, "bytes": HEADER_BYTES + len(body)}
    fields["sha256"] = sealed.canonical.bytes_digest(body)
    (tmp_path / "f.h5").write_bytes(sealed.render_header(fields) + body)
    with pytest.raises(StoreError, match="HDF5 cannot open it"), open_sealed(tmp_path / "f.h5", "thing"):
        pass


def test_a_missing_or_vanishing_file_is_a_store_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="no such file"):
        read_header(tmp_path / "f.h5", "thing")
    header = {"sha256": ""}
    monkeypatch.setattr(sealed, "read_header", lambda *_: header)
    with pytest.raises(MissingFile, match="no such file"):
        verify(tmp_path / "f.h5", "thing")


@pytest.mark.parametrize("size", [1024, 3000, 99_999])
def test_the_header_alone_tells_a_truncated_or_longer_file(tmp_path: Path, size: int) -> None:
    write(tmp_path / "f.h5")
    whole = (tmp_path / "f.h5").stat().st_size
    os.truncate(tmp_path / "f.h5", size)
    with pytest.raises(CorruptFile, match=f"has {size} bytes instead of {whole}"):
        read_header(tmp_path / "f.h5", "thing")


def test_a_header_too_long_even_without_extras_is_an_error() -> None:
    with pytest.raises(ValueError, match="1023 are the limit"):
        sealed.render_header({"format": "x" * 2000})
