"""Verbs that die, or whose disk refuses, at any call: a clear line, and the same command then gives the same bytes."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.conftest import Commands
from tests.golden.cases import config, write_graph
from tests.runs import make_run
from tests.work.rig import seeded

FACTS = {"kind": "fact", "number": 24, "max_answers": 3}
ERRORS = {
    "ENOSPC": "No space left on device",
    "EROFS": "Read-only file system",
    "EMFILE": "Too many open files",
}
TEMP = (".kgqa-tmp", ".building")
BOOKKEEPING = {"logs", "status.json", "report", "leases"}  # hold times and names of processes


@dataclass(frozen=True)
class Verb:
    """`words` of the command in a folder; `result` is what it makes."""

    words: Callable[[Path], list[object]]
    result: str


def run_of(folder: Path) -> Path:
    return folder / "runs" / "one"


VERBS = {
    "run": Verb(lambda f: ["run", f / "runs" / "fresh"], "runs/fresh"),
    "merge": Verb(lambda f: ["merge", run_of(f)], "runs/one/dataset"),
    "combine": Verb(lambda f: ["combine", f / "joined", run_of(f), f / "runs" / "two", "--mixed"], "joined"),
    "publish": Verb(lambda f: ["publish", run_of(f), f / "published"], "published"),
    "export": Verb(lambda f: ["export", run_of(f), "--out", f / "out", "--to", "lm-eval"], "out"),
    "index build": Verb(
        lambda f: ["index", "build", f / "index", f / "docs.jsonl", "--shards", "2", "--workers", "1"],
        "index",
    ),
    "human sample": Verb(lambda f: ["human", "sample", run_of(f), f / "sheet", "--number", "6"], "sheet"),
    "extend": Verb(lambda f: ["extend", run_of(f), "--number", "30"], "runs/one"),
    "judge": Verb(lambda f: ["judge", run_of(f), "--prompt", "demo_filter", "--name", "second"], "runs/one"),
    "study": Verb(lambda f: ["study", f / "study.yaml", f / "study"], "study"),
}


@pytest.fixture(scope="module")
def base(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two merged runs, a fresh one, documents, and the configuration of a study."""
    folder = tmp_path_factory.mktemp("base") / "base"
    folder.mkdir()
    graph = {**write_graph(folder), "min_degree": 0}
    for name, seed in (("one", 7), ("two", 8)):
        steps = [{"name": "main", "steps": [{"use": "word", "prompt": "fact"}, "verify"]}]
        file = config(
            folder, name, seed=seed, graph=graph, anchors=FACTS, passes=steps, dataset={"z_score": None}
        )
        done = commands("all", file, folder / "runs" / name)
        assert done.code == 0, done.said
    make_run(folder / "runs" / "fresh", 24, runtime={"shard_size": 8, "commit_every": 0, "lease": 1})
    documents = [
        {"id": f"d{n}", "title": f"Title {n}", "text": f"gene{n % 5} binds gene{n % 7}"} for n in range(40)
    ]
    (folder / "docs.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    leak = {"use": "score", "as": "leak", "prompt": "study_answer_in_question", "unreadable": 0}
    study = {
        "graph": graph,
        "anchors": {"per_shape": 1, "shapes": [1, 2]},
        "variants": {"prompt": ["p1_1", "p5"]},
        "passes": [{"name": "main", "steps": ["generate", leak]}],
        "runtime": {"shard_size": 40, "lease": 1},
    }
    config(folder, "study", **study)
    return folder


def fresh(commands: Commands, base: Path) -> Path:
    """A copy of the base at the one path where faults strike."""
    folder = commands.root / "work"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder)
    return folder


def content(path: Path) -> dict[str, str]:
    """Digests of the files that a verb makes; of a run, without what tells of times and processes.

    The manifest of a new run (here of the study) holds the time of its making.
    """
    if (path / "index.json").exists():
        return {"index.json": str(json.loads((path / "index.json").read_bytes())["counts"])}
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.endswith(TEMP)]
    names = {str(file.relative_to(path)): file for file in files}
    return {
        name: hashlib.sha256(file.read_bytes()).hexdigest()
        for name, file in names.items()
        if not BOOKKEEPING & set(Path(name).parts) and (name != "manifest.json" or path.name != "study")
    }


def leftovers(folder: Path) -> list[str]:
    """Hidden folders; a temp file of a killed process is swept when it is old."""
    return [str(path) for path in folder.rglob(".*") if path.is_dir() and path.name.endswith(TEMP)]


@pytest.mark.slow
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_that_dies_or_meets_a_failing_disk_is_repeated_to_the_same_bytes(
    commands: Commands, base: Path, name: str
) -> None:
    verb, draw = VERBS[name], seeded()
    folder = fresh(commands, base)
    calm = commands(*verb.words(folder))
    assert calm.code == 0, calm.said
    expected = content(folder / verb.result)
    assert calm.calls > 5, "nothing here could fail"
    for fault in ("KILL", "KILL", "KILL", *ERRORS):
        struck = f"{fault}@{draw.randrange(1, calm.calls)}"
        folder = fresh(commands, base)
        ended = commands(*verb.words(folder), fault=struck)
        if fault == "KILL":
            assert ended.code in (-9, 0), f"{struck}: {ended.said}"
        else:
            assert ended.code in (0, 1, 2), f"{struck}: {ended.said}"
            assert "Traceback" not in ended.said, f"{struck}: {ended.said}"
            assert ended.code == 0 or ERRORS[fault] in ended.said, f"{struck}: {ended.said}"
        for leases in list(folder.rglob("leases")):  # of the dead; they expire after 20 s
            shutil.rmtree(leases)
        again = commands(*verb.words(folder))
        assert again.code == 0 or "already, not below" in again.said, f"after {struck}: {again.said}"
        assert content(folder / verb.result) == expected, f"after {struck}"
        assert leftovers(folder) == [], f"after {struck}"
