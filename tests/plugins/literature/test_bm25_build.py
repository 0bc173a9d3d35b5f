"""An index is there whole or not at all, and a repeated command goes on where it was killed."""

import fcntl
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import CorruptFile, InputError, StoreError
from kgqa_hpc.plugins.literature import bm25_build as build
from kgqa_hpc.plugins.literature.bm25 import Bm25Index, read_manifest
from tests.plugins.literature.builders import deletion, index, medline, record
from tests.record_runs import jsonl


def _build(target: Path, *documents: Path, **settings: int) -> dict[str, Any]:
    return read_manifest(index(target, *documents, **{"shards": 3, **settings}))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    base = medline(tmp_path / "base.xml.gz", *(record(n, f"common title{n}") for n in range(1, 60)))
    update = medline(tmp_path / "update.xml.gz", record(7, "common revised"), deletion(9, 10))
    return [base, update]


def _answers(target: Path) -> list[str]:
    return [hit.id for hit in Bm25Index(target).search("common", 100)]


# The process kills itself when it comes to the named call for the n-th time.
KILLED = """
import os, signal, sys
from pathlib import Path
from kgqa_hpc.plugins.literature import bm25_build as build
name, turn = sys.argv[1:3]
real, calls = getattr(build, name), [0]
def deadly(*a, **k):
    calls[0] += 1
    if calls[0] == int(turn):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*a, **k)
setattr(build, name, deadly)
build.build_index(Path(sys.argv[3]), [Path(p) for p in sys.argv[4:]], shards=3, stem=False, workers=1,
                  progress=lambda *a: None)
"""


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        ("write_document", 3),  # of the second part, after the plan and the first part
        ("load_document", 25),  # of the second shard, after the first
        ("write_manifest", 1),
        ("sync_folder", 1),
    ],
)
def test_a_killed_build_leaves_nothing_and_the_same_command_finishes_it(
    files: list[Path], tmp_path: Path, name: str, turn: int
) -> None:
    target = tmp_path / "index"
    arguments = [sys.executable, "-c", KILLED, name, str(turn), str(target), *map(str, files)]
    killed = subprocess.run(arguments, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not target.exists()
    _build(target, *files)
    _build(tmp_path / "other", *files)
    assert _answers(target) == _answers(tmp_path / "other")
    assert not list(tmp_path.glob(".*")), "nothing is left beside the index"


def test_what_was_finished_is_not_done_again(files: list[Path], tmp_path: Path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(build, "write_shard", lambda *_: (_ for _ in ()).throw(StoreError("stop")))
        with pytest.raises(StoreError):
            _build(tmp_path / "index", *files)
    monkeypatch.setattr(build, "write_part", lambda *_: pytest.fail("a part was read again"))
    assert _build(tmp_path / "index", *files)["counts"]["documents"] == 57


def test_updates_are_applied_and_the_manifest_names_counts_inputs_parameters_and_files(
    files: list[Path], tmp_path: Path
) -> None:
    content = _build(tmp_path / "index", *files)
    assert content["counts"] == {"records": 60, "deletions": 2, "documents": 57, "replaced": 1, "deleted": 2}
    assert [source["name"] for source in content["inputs"]] == ["base.xml.gz", "update.xml.gz"]
    assert (content["parameters"]["k1"], content["parameters"]["b"]) == (1.2, 0.75)
    assert len([name for name in content["files"] if name.endswith("shard.json")]) == 3
    answers = _answers(tmp_path / "index")
    assert len(answers) == 57
    assert not {"9", "10"} & set(answers)
    assert [hit.id for hit in Bm25Index(tmp_path / "index").search("revised")] == ["7"]


def test_several_processes_build_the_same_index(files: list[Path], tmp_path: Path) -> None:
    one, two = _build(tmp_path / "one", *files), _build(tmp_path / "two", *files, workers=2)
    assert one["fingerprint"] == two["fingerprint"]
    assert _answers(tmp_path / "one") == _answers(tmp_path / "two")


def test_an_index_that_is_there_is_kept_and_another_or_other_files_are_never_touched(
    files: list[Path], tmp_path: Path
) -> None:
    first = _build(tmp_path / "index", *files)
    assert _build(tmp_path / "index", *files) == first
    for documents, shards in ((files, 2), (files[::-1], 3)):
        with pytest.raises(InputError, match="other documents or with other parameters"):
            _build(tmp_path / "index", *documents, shards=shards)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious")
    with pytest.raises(InputError, match="not an index"):
        _build(tmp_path / "mine", *files)
    assert (tmp_path / "mine" / "notes.txt").read_text() == "precious"


def test_a_bad_file_is_named_and_nothing_is_there(files: list[Path], tmp_path: Path) -> None:
    bad = jsonl(tmp_path / "bad.jsonl", [{"id": 1, "text": "x"}, {"text": "y"}])
    with pytest.raises(InputError, match=r"bad\.jsonl line 2"):
        _build(tmp_path / "index", *files, bad)
    assert not (tmp_path / "index").exists()


def test_a_flipped_byte_anywhere_is_found_when_the_index_is_opened(files: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "index"
    _build(target, *files)
    for path in sorted(path for path in target.rglob("*") if path.is_file() and path.stat().st_size):
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(CorruptFile):
            Bm25Index(target)
        path.write_bytes(data)
    assert _answers(target)


def test_two_builds_of_one_index_exclude_each_other(files: list[Path], tmp_path: Path) -> None:
    growing = tmp_path / ".index.building"
    growing.mkdir()
    with open(growing / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="under way"):
            _build(tmp_path / "index", *files)


def test_documents_without_a_word_make_an_index_that_finds_nothing(tmp_path: Path) -> None:
    _build(tmp_path / "index", jsonl(tmp_path / "a.jsonl", [{"id": 1, "text": "the"}, {"id": 2, "text": ""}]))
    assert _answers(tmp_path / "index") == []
