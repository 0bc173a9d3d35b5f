"""Nothing is written through a link or into a FIFO that somebody put into a run folder, and nobody waits for one."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kgqa_hpc.anchors.records import read_records
from kgqa_hpc.cluster.slurm import record_job
from kgqa_hpc.engines.cpu import require_gguf
from kgqa_hpc.engines.model_files import find_model
from kgqa_hpc.engines.models import read_size
from kgqa_hpc.errors import InputError, StoreError
from kgqa_hpc.prompts.templates import import_templates
from kgqa_hpc.registry import load_plugin_file
from kgqa_hpc.status.log_files import note_progress
from kgqa_hpc.store import sealed
from kgqa_hpc.store.atomic import NotRegular, append, irregular
from kgqa_hpc.store.canonical import read_document
from kgqa_hpc.store.lease import Leases
from kgqa_hpc.work.session import Logbook


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "authorized_keys"
    file.write_text("mine\n")
    return file


WRITERS: dict[str, Callable[[Path], object]] = {
    "history.jsonl": lambda logs: note_progress(logs, 1),
    "jobs.jsonl": lambda logs: record_job(logs, "1", "run"),
    "worker.jsonl": lambda logs: Logbook(logs / "worker.jsonl", "w"),
}


MAKE: dict[str, Callable[[Path, str], object]] = {
    "link": lambda victim, name: os.symlink(victim, name),
    "fifo": lambda victim, name: os.mkfifo(name),
    "socket": lambda victim, name: socket.socket(socket.AF_UNIX).bind(name),  # names of sockets are short
    "folder": lambda victim, name: os.mkdir(name),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("kind", MAKE)
def test_no_log_is_written_through_a_link_or_into_a_fifo(
    tmp_path: Path, victim: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    monkeypatch.chdir(logs)
    MAKE[kind](victim, name)
    with pytest.raises((StoreError, OSError)):
        WRITERS[name](logs)
    assert victim.read_text() == "mine\n"


def test_a_file_is_made_and_added_to_and_a_link_to_nothing_is_not_made_true(tmp_path: Path) -> None:
    for _ in range(2):
        append(tmp_path / "a", b"line\n")
    assert (tmp_path / "a").read_bytes() == b"line\nline\n"
    assert (tmp_path / "a").stat().st_mode & 0o111 == 0
    (tmp_path / "b").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotRegular):
        append(tmp_path / "b", b"x")
    assert not (tmp_path / "elsewhere").exists()


READERS: dict[str, Callable[[Path], object]] = {
    "mine.py": load_plugin_file,
    "templates.json": lambda file: import_templates(file, file.parent / "prompts"),
    "model.gguf": require_gguf,
    "config.json": lambda file: read_size(file.parent),
    "model.safetensors.index.json": lambda file: find_model(str(file.parent)),
    "test_set.parquet": lambda file: list(read_records(file)),
}


@pytest.mark.parametrize("name", READERS)
def test_an_input_that_is_a_fifo_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").touch()
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize(
    "read",
    [lambda path: sealed.read_header(path, "thing"), read_document, lambda path: read_lease(path, "shard")],
)
@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_a_file_of_the_store_that_is_a_fifo_or_socket_is_refused_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, read: Callable[[Path], object]
) -> None:
    monkeypatch.chdir(tmp_path)
    MAKE[kind](tmp_path / "victim", "f")
    with pytest.raises(StoreError, match="not a regular file"):
        read(tmp_path / "f")


def read_lease(path: Path, name: str) -> object:
    leases = Leases(path.parent, "worker", 30.0)
    leases.path(name).parent.mkdir(parents=True, exist_ok=True)
    os.rename(path, leases.path(name))
    return leases.holder(name)


def test_what_is_neither_file_nor_folder_is_found_however_deep(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "nowhere").symlink_to(tmp_path / "elsewhere")
    assert irregular(tmp_path) is None
    assert irregular(tmp_path / "missing") is None
    os.mkfifo(tmp_path / "documents" / "a")
    assert irregular(tmp_path) == tmp_path / "documents" / "a"
