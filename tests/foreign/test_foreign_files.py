"""Files of other runs, put into a run: by the commands, each is set aside with its reason and done again."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.store.run_folder import RunFolder
from tests import command
from tests.command import environment
from tests.dataset.conftest import contents
from tests.project import write_tables
from tests.runs import anchors, new_run
from tests.waiting import PATIENCE


def told(*arguments: object) -> tuple[int, str]:
    """Exit code of a verb and what it said."""
    done = command.kgqa(*arguments, code=None)
    return done.returncode, done.stdout + done.stderr


PASSES = [{"name": "draft", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}]
Finished = Callable[[str], Path]
DIFFERENT = {"own": {}, "cheap": {"model": "cheap"}, "seed": {"seed": 2}}
DIFFERENT |= {"graph": {"graph": "two"}, "files": {"graph": "elsewhere/one"}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """finished(name): one of DIFFERENT, made when it is asked for."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "elsewhere").mkdir()
    for name in ("one", "two", "elsewhere/one"):
        edges = [(f"N{a}", f"N{b}", "r") for a in range(12) for b in range(a)]
        write_tables(folder, [(f"N{n}", f"{name} {n}", "thing") for n in range(12)], edges)
        for part in ("nodes", "edges"):
            (folder / f"{part}.csv").rename(folder / f"{name}.{part}.csv")

    @cache
    def make(name: str) -> Path:
        choice = {"graph": "one", "seed": 1, "model": "large", **DIFFERENT[name]}
        files = {part: f"{choice['graph']}.{part}.csv" for part in ("nodes", "edges")}
        engine = {"kind": "scripted", "model": choice["model"]}
        config = {"seed": choice["seed"], "graph": {"source": "csv", **files}, "engine": engine}
        config |= {"anchors": {"per_shape": 2}, "passes": PASSES}
        (folder / f"{name}.yaml").write_text(json.dumps(config))
        command.kgqa("all", folder / f"{name}.yaml", folder / name)
        return folder / name

    return make


@pytest.fixture
def own(finished: Finished, tmp_path: Path) -> RunFolder:
    shutil.copytree(finished("own"), tmp_path / "own")
    return RunFolder(tmp_path / "own")


FOREIGN = {
    "a cheaper model's results": ("cheap", "results/draft/shard-000000.h5", "results/draft/shard-000000.h5"),
    "a first-pass result": ("own", "results/draft/shard-000000.h5", "results/check/shard-000000.h5"),
    "another seed's anchors": ("seed", "anchors.h5", "anchors.h5"),
    "another graph": ("graph", "kg.h5", "kg.h5"),
    "a graph from files of equal names": ("files", "kg.h5", "kg.h5"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", FOREIGN)
def test_another_runs_files_are_set_aside_never_merged(finished: Finished, own: RunFolder, what: str) -> None:
    source, path, place = FOREIGN[what]
    (own.path / place).unlink()
    shutil.copy(finished(source) / path, own.path / place)
    (own.path / "status.json").unlink(missing_ok=True)
    code, said = told("merge", own.path)
    if place.startswith(("anchors", "results/check")):  # merge reads no graph, and of results the last pass
        assert code != 0, said
        assert "another configuration" in said or "belongs to" in said or "quarantine" in said, said
    assert contents(own.dataset) == contents(finished("own") / "dataset"), "the dataset that was there stays"
    reason = "another configuration"
    if place == "kg.h5":
        own.anchors.unlink()
        shutil.rmtree(own.shards)
        reason = "files of the same names" if source == "files" else reason
        foreign = own.kg.read_bytes()
        code, said = told("sample", own.path)
        assert code == 2, said
        assert reason in said
        assert f"first: kgqa import {own.path}" in said
        own.kg.write_bytes(foreign)
    for verb in ("import", "sample", "run", "merge"):
        code, said = told(verb, own.path)
        assert code == 0, f"{verb}: {said}"
    assert contents(own.dataset) == contents(finished("own") / "dataset")
    reasons = "".join(p.read_text() for p in own.quarantine.glob("*.reason.json"))
    assert reason in reasons or what == "a first-pass result"


FILES = """
config.yaml manifest.json anchors.h5 status.json shards/shard-000000.h5 logs/history.jsonl logs/jobs.jsonl
logs/workers/w.json dataset/accounting.json results/check/shard-000000.h5 dataset/accepted.jsonl
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", FILES.split())
def test_a_fifo_in_a_run_folder_is_never_waited_for(own: RunFolder, name: str) -> None:
    path = own.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        path.unlink()
    os.mkfifo(path)
    for verb in ("status", "show", "report", "merge", "run"):
        code, said = told(verb, own.path)
        assert code in (0, 1, 2), f"{verb}: {said}"


def test_a_signal_while_the_server_keeps_the_check_waiting_is_heard(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        config = {"engine": {"kind": "openai", "model": "m", "base_url": address}}
        run = new_run(tmp_path / "run", parse_config(config, "the test"), anchors(4), {"seed": 1})
        line = [sys.executable, "-m", "kgqa_hpc", "run", str(run.path)]
        worker = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment())
        deaf.settimeout(PATIENCE)
        try:
            connection, _ = deaf.accept()  # the engine asks, and waits for an answer that never comes
            with connection:
                began = time.monotonic()
                worker.send_signal(signal.SIGTERM)
                said, _ = worker.communicate(timeout=PATIENCE)
                print(f"heard after {time.monotonic() - began:.1f} s")
        finally:
            command.end_tree(worker)
        assert worker.returncode == 75, said


# Words of a command; FILE is the FIFO or the device. A suffix of FILE is that of the file.
VERBS = [
    "init FILE.yaml RUN",
    "init CONFIG RUN; import RUN",
    "init CONFIG RUN2; judge RUN2 --prompt FILE.md",
    "init CONFIG RUN2; judge RUN2 --prompt demo_filter --engine FILE.yaml",
    "init CONFIG RUN2; plan RUN2 --pilot FILE.json",
    *("human page FILE.csv page.html", "human analyse FILE.csv", "calibrate FILE.csv --judge FILE.jsonl"),
    *("panel FILE.jsonl", "score FILE.jsonl FILE.jsonl", "diversity FILE.jsonl", "grounding FILE.jsonl"),
    *("index build INDEX FILE.jsonl", "mentions FILE.jsonl --names FILE.csv"),
    *("gasl check FILE.gasl", "gasl run FILE.gasl --nodes FILE.csv --edges FILE.csv"),
]
GRAPH = "graph: {source: csv, nodes: FILE.csv, edges: FILE.csv}\nengine: {kind: scripted}\n"


@pytest.mark.timeout(120)
@pytest.mark.plugin("gasl", "evaluation", "literature")
@pytest.mark.parametrize("kind", ["fifo", "device"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_refuses_what_is_no_regular_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for suffix in ("yaml", "md", "csv", "jsonl", "gasl", "json"):
        path = tmp_path / f"FILE.{suffix}"
        os.mkfifo(path) if kind == "fifo" else path.symlink_to("/dev/zero")
    (tmp_path / "CONFIG").write_text(GRAPH)
    *before, last = verb.split("; ")
    for line in before:
        command.kgqa(*line.split())
    done = command.kgqa(*last.split(), code=None)
    assert done.returncode in (1, 2), done.stdout
    refusals = ("regular file", "no such", "not a ", "is missing")
    assert "error: " in done.stderr
    assert any(words in done.stderr for words in refusals), done.stderr
    assert len(done.stderr) < 1500
