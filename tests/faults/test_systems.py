"""What a system does to a run: full folders, lost rights, several users, other versions, packages that raise."""

import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import kgqa, program
from tests.faults.conftest import Commands
from tests.runs import make_run
from tests.work.rig import records, result_files

USERS = (65531, 65532)
GROUP = 65533
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="acts as other users: needs root")


def prepared(folder: Path, items: int = 60) -> Any:
    return make_run(folder, items, runtime={"shard_size": 20, "commit_every": 0, "lease": 1})


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder of a group, where each member may write and new files belong to the group."""
    folder = Path(tempfile.mkdtemp(prefix="kgqa-users-"))
    os.chown(folder, -1, GROUP)
    folder.chmod(0o2775)
    yield folder
    shutil.rmtree(folder)


def give_to_group(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, -1, GROUP)
        path.chmod(0o2775 if path.is_dir() else 0o664)


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT"])
def test_a_journal_that_cannot_grow_ends_the_run_with_a_line_and_loses_nothing(
    commands: Commands, tmp_path: Path, name: str
) -> None:
    calm, full = prepared(tmp_path / "calm"), prepared(tmp_path / "full")
    assert commands("run", calm.path).code == 0
    for call in (5, 23):
        ended = commands("run", full.path, fault=f"{name}@{call}", root=full.results("main"))
        assert ended.code == 1, ended.said
        assert "free some space" in ended.said
        assert "Traceback" not in ended.said
    assert commands("run", full.path).code == 0
    assert result_files(full) == result_files(calm)


@needs_root
def test_without_the_right_to_write_looking_works_and_each_change_is_refused_in_a_line(
    commands: Commands, shared_folder: Path
) -> None:
    run = prepared(shared_folder / "run")
    kgqa("run", run.path)
    kgqa("merge", run.path)
    for path in [run.path, *run.path.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    for verb in ("status", "show", "explain"):
        words = [verb, run.path, *(["g01-0000000000000001"] if verb == "explain" else [])]
        ended = commands(*words, user=USERS[0])
        assert ended.code == 0, f"{verb}: {ended.said}"
    for words in (["merge"], ["report"], ["extend", "--per-shape", "9"], ["run"]):
        ended = commands(words[0], run.path, *words[1:], user=USERS[0])
        assert ended.code in (1, 2), f"{words}: {ended.said}"
        assert "ermission denied" in ended.said, f"{words}: {ended.said}"
        assert "Traceback" not in ended.said


@needs_root
def test_users_of_a_group_share_the_work_on_a_run(commands: Commands, shared_folder: Path) -> None:
    run = prepared(shared_folder / "run", 40)
    give_to_group(run.path)
    killed = commands("run", run.path, user=USERS[0], fault="KILL@60", root=run.path)
    assert killed.code == -9, killed.said
    ended = commands("run", run.path, user=USERS[1])
    assert ended.code == 0, ended.said
    assert len(records(run)) == 40
    for user in USERS:
        merged = commands("merge", run.path, user=user)
        assert merged.code == 0, merged.said
    assert all(path.stat().st_gid == GROUP for path in run.path.rglob("*"))
    assert stat.S_IMODE((run.path / "dataset" / "accepted.jsonl").stat().st_mode) & 0o060 == 0o060


def test_another_version_of_the_package_ends_a_run_the_same_way(commands: Commands, tmp_path: Path) -> None:
    calm, mixed = prepared(tmp_path / "calm"), prepared(tmp_path / "mixed")
    assert commands("run", calm.path).code == 0
    killed = commands("run", mixed.path, version="0.1.9", fault="KILL@70", root=mixed.path)
    assert killed.code == -9, killed.said
    ended = commands("run", mixed.path, version="9.0.0")
    assert ended.code == 0, ended.said
    assert {key: record["output"] for key, record in records(mixed).items()} == {
        key: record["output"] for key, record in records(calm).items()
    }
    assert commands("merge", mixed.path, version="9.1.0").code == 0


def test_a_run_of_newer_format_is_refused_by_each_verb_in_a_line(commands: Commands, tmp_path: Path) -> None:
    run = prepared(tmp_path / "run")
    manifest = json.loads(run.manifest_file.read_bytes())
    run.manifest_file.write_text(json.dumps({**manifest, "version": manifest["version"] + 1}))
    for verb in ("run", "status", "merge", "report", "extend", "show"):
        ended = commands(verb, run.path, *(["--per-shape", "90"] if verb == "extend" else []))
        assert ended.code == 1, f"{verb}: {ended.said}"
        assert "newer" in ended.said or "version" in ended.said, f"{verb}: {ended.said}"
        assert "Traceback" not in ended.said


BROKEN = {
    "steps": "raise RuntimeError('no such card')",
    "anchors": "raise SystemExit(3)",
    "engines": "import a_module_that_nobody_has",
    "commands": "def broken(:",
}


def test_an_entry_point_that_breaks_at_import_is_named_and_harms_no_other(tmp_path: Path) -> None:
    for group, code in BROKEN.items():
        (tmp_path / f"broken_{group}.py").write_text(code)
        info = tmp_path / f"broken_{group}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: broken-{group}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[kgqa_hpc.{group}]\nbroken = broken_{group}:Entry\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    for listed in ("steps", "kinds", "engines", "commands"):  # a registry is read once in a process
        program("list", listed, code=None, PYTHONPATH=path)
    doctor = program("doctor", code=None, PYTHONPATH=path)
    assert all(f"broken-{group}" in doctor.stdout + doctor.stderr for group in BROKEN)
