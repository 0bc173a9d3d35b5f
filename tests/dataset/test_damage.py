"""Damage is told by every verb and never merged; when merge dies or is overtaken, it leaves the dataset as it is."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.dataset import merge as merging
from kgqa_hpc.dataset import staging
from kgqa_hpc.dataset import write as writing
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.errors import CorruptFile, InputError, StoreError
from kgqa_hpc.store import replace_folder
from tests.command import kgqa
from tests.dataset.conftest import contents, workers_of
from tests.project import CONFIG, write_project
from tests.store.conftest import flip
from tests.waiting import wait_for
from tests.work.rig import reconfigure, seeded

# A full disk as the operating system tells it: no file may grow beyond 10 kB.
FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    merge(run)
except DiskFull as problem:
    sys.exit(0 if "dataset" in problem.message else 3)
"""
TIMED = """
import threading
timer = threading.Timer(float(sys.argv[2]), os.kill, (os.getpid(), signal.SIGKILL))
timer.daemon = True
timer.start()
merge(run, processes=2, part_bytes=10_000)
"""
_PREAMBLE = """
import os, signal, sys
from pathlib import Path
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.errors import DiskFull
from kgqa_hpc.store.run_folder import RunFolder
run = RunFolder(Path(sys.argv[1]))
"""


def in_child(code: str, *arguments: object) -> int:
    """Run code in a process of its own; its exit code."""
    command = [sys.executable, "-c", _PREAMBLE + code, *map(str, arguments)]
    return subprocess.run(command, check=False).returncode


def test_a_run_that_never_ran_is_bad_input(make_run: Any) -> None:
    run = make_run()
    run.folder.shards_manifest.unlink()
    with pytest.raises(InputError, match="nothing was generated yet"):
        merge(run.folder, partial=True)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_damaged_result_is_named_set_aside_and_never_merged(make_merged: Any, processes: int) -> None:
    run, _ = make_merged()
    before = contents(run.folder.dataset)
    paths = [run.folder.result("main", name) for name in ("shard-000001", "shard-000005")]
    flip(paths[0], 5000)
    paths[1].write_bytes(paths[1].read_bytes()[:-7])
    with pytest.raises(CorruptFile, match="2 results are damaged") as caught:
        merge(run.folder, processes=processes)
    assert "shard-000001" in caught.value.message
    assert "shard-000005" in caught.value.message
    assert "kgqa run" in caught.value.cure
    assert not any(path.exists() for path in paths)
    assert contents(run.folder.dataset) == before
    run.merge("shard-000001", "shard-000005")
    assert contents(run.folder.dataset) == before


def test_a_damaged_shard_is_cut_again_and_the_dataset_is_the_same(make_merged: Any) -> None:
    run, _ = make_merged()
    before = contents(run.folder.dataset)
    flip(run.folder.shard("shard-000002"), 3000)
    merge(run.folder)
    assert contents(run.folder.dataset) == before
    assert list(run.folder.quarantine.rglob("*shard-000002*"))


@pytest.mark.slow
def test_sigkill_at_any_moment_leaves_the_old_or_the_new_dataset(make_run: Any) -> None:
    run = make_run(dataset={"order": "id"}).finish()
    wishes: list[dict[str, Any]] = [{"order": "id"}, {"order": "answer"}]
    datasets, seconds = [], 0.0
    for wish in wishes:
        reconfigure(run.folder, dataset=wish)
        began = time.monotonic()
        merge(run.folder, processes=2, part_bytes=10_000)
        seconds = time.monotonic() - began
        datasets.append(contents(run.folder.dataset))
    assert sum(name.endswith(".parquet") for name in datasets[0]) > 4
    moments = seeded()
    for number in range(4):
        reconfigure(run.folder, dataset=wishes[number % 2])
        assert in_child(TIMED, run.folder.path, moments.uniform(0, 1.5 * seconds)) in (0, -signal.SIGKILL)
        assert contents(run.folder.dataset) in datasets
    wait_for(lambda: not workers_of(run.folder.path), "the end of their workers, which may still write")
    merge(run.folder, part_bytes=10_000)
    assert contents(run.folder.dataset) == datasets[1]
    assert not list(run.folder.path.glob(".dataset*"))


def test_a_merge_whose_workers_end_at_once_stages_their_shards_itself(
    make_merged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = make_merged()
    before = contents(run.folder.dataset)
    monkeypatch.setattr(staging.sys, "executable", "/bin/false")
    merge(run.folder, processes=3)
    assert contents(run.folder.dataset) == before


def test_a_full_disk_is_one_clear_error_and_leaves_the_old_dataset(make_merged: Any) -> None:
    run, _ = make_merged()
    before = contents(run.folder.dataset)
    assert in_child(FULL, run.folder.path) == 0
    assert contents(run.folder.dataset) == before
    assert not list(run.folder.path.glob(".dataset*"))


class LosesTheEnd(io.FileIO):
    """A file whose last byte is gone when it is closed."""

    def close(self) -> None:
        if not self.closed:
            self.truncate(os.fstat(self.fileno()).st_size - 1)
        super().close()


@pytest.mark.parametrize("file", [r"\.parquet", r"accepted\.jsonl"])
def test_a_file_that_is_not_what_was_written_never_gets_into_the_dataset(
    make_merged: Any, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    run, _ = make_merged()
    before = contents(run.folder.dataset)
    table_of, whole = writing.table_of, Path.open

    def damaged(path: Path, mode: str = "r", **options: Any) -> Any:
        last = mode == "wb" and path.name == "accepted.jsonl"
        return io.BufferedWriter(LosesTheEnd(path, "wb")) if last else whole(path, mode, **options)

    with monkeypatch.context() as patch:
        if "parquet" in file:
            patch.setattr(writing, "table_of", lambda lines, schema: table_of(lines, schema)[1:])
        else:
            patch.setattr(Path, "open", damaged)
        with pytest.raises(StoreError, match=f"{file}: is not what was written there"):
            merge(run.folder)
    assert contents(run.folder.dataset) == before
    assert not list(run.folder.path.glob(".dataset*"))


Change = Callable[[Path], None]


def extend(run: Path) -> None:
    kgqa("extend", run, "--per-shape", 9)
    kgqa("run", run)


def judge(run: Path) -> None:
    kgqa("judge", run, "--prompt", "demo_filter", "--name", "second")


def other_settings(run: Path) -> None:
    kgqa("merge", run, "--set", "dataset.z_score=1.5")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has its results; each test takes a copy."""
    folder = tmp_path_factory.mktemp("made")
    kgqa("init", write_project(folder), folder / "run")
    for verb in ("import", "sample", "run"):
        kgqa(verb, folder / "run")
    return folder / "run"


CHANGES: dict[str, Change] = {"extend": extend, "judge": judge, "settings": other_settings}


def merged_meanwhile(
    run: Path, change: Change, stopped_at: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> tuple[str, bytes]:
    """A merge during which, at this function, another process changes the run and merges it; the newer accounting."""
    room, name = stopped_at
    original = getattr(room, name)
    newer: list[bytes] = []

    def stopped(*arguments: Any) -> Any:
        if not newer:
            monkeypatch.setattr(room, name, original)
            change(run)
            kgqa("merge", run)
            newer.append((run / "dataset/accounting.json").read_bytes())
        return original(*arguments)

    monkeypatch.setattr(room, name, stopped)
    return kgqa("merge", run, code=1).stderr, newer[0]


LAST, EARLIER = (replace_folder, "_take_place"), (merging, "write_documents")


# Each change at each place, and each with and without a dataset before; not each of three with each.
@pytest.mark.parametrize(
    ("place", "merged_before", "change"),
    [
        *((LAST, True, "extend"), (LAST, False, "judge"), (LAST, True, "settings")),
        *((EARLIER, False, "extend"), (EARLIER, True, "judge"), (EARLIER, False, "settings")),
    ],
    ids=str,
)
def test_a_merge_that_was_overtaken_leaves_the_newer_dataset(
    place: tuple[Any, str],
    merged_before: bool,
    change: str,
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Path(shutil.copytree(made, tmp_path / "run"))
    if merged_before:
        kgqa("merge", run)
    refused, newer = merged_meanwhile(run, CHANGES[change], place, monkeypatch)
    assert "merge again" in refused
    assert (run / "dataset/accounting.json").read_bytes() == newer
    kgqa("merge", run)
    assert json.loads((run / "dataset/accounting.json").read_bytes()) == json.loads(newer)
    assert sorted(path.name for path in run.glob(".dataset*")) == []


DATASET = "dataset: {split: {by: group, shares: {train: 0.5, test: 0.5}}}\n"


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("merged")
    kgqa("all", write_project(folder, CONFIG + DATASET), folder / "run")
    return folder / "run"


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut at a line": lambda data: b"".join(data.splitlines(keepends=True)[:-2]),
    "torn": lambda data: data[:-40],
    "one letter": lambda data: data.replace(b"e", b"f", 1),
    "other type": lambda _: b"5\n",
}
VERBS = {
    "show": ["show", "RUN"],
    "export": ["export", "RUN", "--to", "messages", "--out", "OUT"],
    "combine": ["combine", "OUT", "RUN", "RUN2"],
    "publish": ["publish", "RUN", "OUT"],
    "report": ["report", "RUN"],
    "human": ["human", "sample", "RUN", "OUT.csv", "--number", "4"],
    "panel": ["panel", "RUN"],
}


@pytest.mark.plugin("evaluation")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(("accepted.jsonl", damage) for damage in DAMAGE),
        *((name, damage) for name in ("accounting.json", "SHA256SUMS") for damage in ("torn", "other type")),
    ],
)
def test_damage_is_told_by_each_verb(name: str, damage: str, verb: str, merged: Path, tmp_path: Path) -> None:
    if verb in ("panel", "human") and name == "accounting.json":
        pytest.skip("does not read it")
    run = Path(shutil.copytree(merged, tmp_path / "run"))
    path = run / "dataset" / name
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    words = {"RUN": run, "RUN2": merged, "OUT": tmp_path / "out", "OUT.csv": tmp_path / "out.csv"}
    done = kgqa(*[words.get(word, word) for word in VERBS[verb]], code=None)
    assert done.returncode == 1
    assert "damaged" in done.stderr
    assert "merge again" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.plugin("evaluation")
@pytest.mark.parametrize("verb", VERBS)
def test_a_whole_dataset_is_read(verb: str, merged: Path, tmp_path: Path) -> None:
    if verb == "combine":
        pytest.skip("a run cannot be combined with its own copy")
    words = {"RUN": merged, "OUT": tmp_path / "out", "OUT.csv": tmp_path / "out.csv"}
    kgqa(*[words.get(word, word) for word in VERBS[verb]])
