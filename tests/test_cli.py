"""The command line, as a user meets it: a whole run, the same command again, and every wrong input."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kgqa_hpc.cli.app import app, main
from kgqa_hpc.errors import StoppedEarly
from tests.command import kgqa, program
from tests.project import CONFIG, write_graph


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_graph(tmp_path)
    (tmp_path / "run.yaml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def test_a_run_goes_from_graph_to_report_and_every_verb_can_be_repeated(project: Path) -> None:
    run = project / "run"
    program("init", project / "run.yaml", run)
    for verb in ("import", "sample", "run", "merge", "report"):
        first = program(verb, run)
        again = kgqa(verb, run)
        if verb in ("import", "merge", "report"):
            assert first.stdout == again.stdout
    accounting = json.loads((run / "dataset" / "accounting.json").read_text(encoding="utf-8"))
    text = json.dumps(accounting)
    assert "accepted" in text
    status = json.loads(kgqa("status", run, "--json").stdout)
    assert status["complete"] is True
    record = json.loads((run / "dataset" / "accepted.jsonl").read_text(encoding="utf-8").splitlines()[0])
    story = kgqa("explain", run, record["id"])
    assert record["question"][:30] in " ".join(story.stdout.split()) or record["id"] in story.stdout
    assert (run / "report" / "index.html").stat().st_size > 10_000


def test_all_in_one_command_resumes_and_ends_with_where_everything_lies(project: Path) -> None:
    run = project / "run"
    first = kgqa("all", project / "run.yaml", run)
    assert str(run / "dataset") in first.stdout
    before = (run / "dataset" / "accepted.jsonl").read_bytes()
    assert kgqa("all", project / "run.yaml", run).stdout == first.stdout
    assert (run / "dataset" / "accepted.jsonl").read_bytes() == before


@pytest.mark.slow
def test_sampling_twice_with_other_thread_counts_is_byte_identical(project: Path) -> None:
    written = []
    for threads in (1, 3):
        run = project / f"run{threads}"
        kgqa("init", project / "run.yaml", run)
        kgqa("import", run)
        kgqa("sample", run, "--threads", threads)
        written.append((run / "anchors.h5").read_bytes())
    assert written[0] == written[1]


def test_count_prints_all_29_shapes_of_the_reduced_graph(project: Path) -> None:
    out = kgqa("count", "--nodes", project / "nodes.csv", "--edges", project / "edges.csv", "--json").stdout
    document = json.loads(out)
    assert list(document) == ["nodes", "edges", "counts"]
    assert list(document["counts"]) == [str(i) for i in range(1, 30)]
    assert all(isinstance(n, int) for n in document["counts"].values())


def test_another_configuration_is_refused_with_what_changed(project: Path) -> None:
    run = project / "run"
    kgqa("init", project / "run.yaml", run)
    (run / "results" / "main").mkdir(parents=True)  # somebody has begun to work on it
    (project / "run.yaml").write_text(CONFIG.replace("seed: 7", "seed: 8"), encoding="utf-8")
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    refused = kgqa("init", project / "run.yaml", run, code=2)
    assert "seed: 7" in refused.stderr
    assert "8" in refused.stderr
    (run / "refused.json").unlink()  # what a plain merge asks about
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before


def _edit(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new", "stage", "said"),
    [
        ("nodes.csv", "id,name,type", "id,label,type", "import", "name"),
        ("nodes.csv", "N:5,", "N:4,", "import", "N:4"),
        ("edges.csv", "source_id,", "from,", "import", "source_id"),
        ("edges.csv", "N:0,", "N:999,", "import", "N:999"),
        ("run.yaml", "per_shape: 6", "per_shap: 6", "init", "did you mean per_shape?"),
        ("run.yaml", "kind: scripted", "kind: cpu, model: none.gguf", "init", "none.gguf"),
        ("run.yaml", "edges: edges.csv}", "edges: edges.csv, min_degree: 90}", "sample", "degree"),
        ("run.yaml", "per_shape: 6", "per_shape: 6, shapes: [29]", "sample", "graphlet"),
        ("run.yaml", "seed: 7", "seed: 7\nprompts: {generate: p55}", "init", "p5"),
    ],
    ids=[
        "missing column",
        "duplicate id",
        "missing edge column",
        "unknown node",
        "unknown key",
        "no model file",
        "nothing left",
        "no graphlet of the shape",
        "unknown prompt",
    ],
)
def test_bad_input_is_one_clear_line_exit_2_and_nothing_half_written(
    project: Path, file: str, old: str, new: str, stage: str, said: str
) -> None:
    _edit(project / file, old, new)
    run = project / "run"
    verbs = ["init", "import", "sample", "run"]
    written = {
        "init": run,
        "import": run / "kg.h5",
        "sample": run / "anchors.h5",
        "run": run / "results" / "main",
    }
    for verb in verbs[: verbs.index(stage)]:
        kgqa(verb, *([project / "run.yaml"] if verb == "init" else []), run)
    refused = kgqa(stage, *([project / "run.yaml"] if stage == "init" else []), run, code=2)
    assert sum(line.startswith("error: ") for line in refused.stderr.splitlines()) == 1
    assert said in refused.stderr
    target = written[stage]
    assert not target.exists() or not any(target.glob("*.h5"))


def test_a_prompt_with_an_undefined_variable_is_refused_at_init(project: Path) -> None:
    own = project / "own"
    own.mkdir()
    source = (Path(__file__).parents[1] / "prompts" / "p5.md").read_text(encoding="utf-8")
    (own / "p5.md").write_text(
        source.replace("{% block user %}", "{% block user %}{{ nonsense }}"), encoding="utf-8"
    )
    _edit(project / "run.yaml", "seed: 7", "seed: 7\nprompts: {folder: own}")
    refused = kgqa("init", project / "run.yaml", project / "run", code=2)
    assert "nonsense" in refused.stderr
    assert not (project / "run").exists()


def test_a_prompt_that_an_edit_made_invalid_is_told_and_the_run_goes_on_with_its_own(project: Path) -> None:
    own, run = project / "own", project / "run"
    own.mkdir()
    shutil.copy(Path(__file__).parents[1] / "prompts" / "p5.md", own)
    _edit(project / "run.yaml", "seed: 7", "seed: 7\nprompts: {folder: own}")
    kgqa("init", project / "run.yaml", run)
    (own / "p5.md").write_text("no prompt\n", encoding="utf-8")
    told = [line for line in kgqa("import", run).stderr.splitlines() if "goes on with its own copy" in line]
    assert len(told) == 1
    assert str(own / "p5.md") in told[0]
    (own / "p5.md").unlink()
    assert "its own copy" not in kgqa("import", run).stderr


@pytest.mark.parametrize("verb", ["import", "sample", "run", "merge", "report", "status"])
def test_a_folder_that_is_no_run_says_how_to_make_one(tmp_path: Path, verb: str) -> None:
    assert "kgqa init" in kgqa(verb, tmp_path / "none", code=2).stderr


def test_merging_before_anything_was_generated_names_the_stage_before(project: Path) -> None:
    run = project / "run"
    for verb in ("init", "import", "sample"):
        kgqa(verb, *([project / "run.yaml"] if verb == "init" else []), run)
    refused = kgqa("merge", run, code=2)
    assert "kgqa run" in refused.stderr
    assert not (run / "dataset").exists()


@pytest.mark.parametrize("verb", ["sample", "run"])
def test_a_stage_that_comes_too_early_names_the_one_before(project: Path, verb: str) -> None:
    run = project / "run"
    kgqa("init", project / "run.yaml", run)
    refused = kgqa(verb, run, code=2)
    assert "kgqa " in refused.stderr


def test_an_unreadable_gguf_is_refused_before_any_work(project: Path) -> None:
    (project / "model.gguf").write_bytes(b"not a model at all" * 100)
    _edit(project / "run.yaml", "kind: scripted", "kind: cpu, model: model.gguf")
    run = project / "run"
    for verb in ("init", "import", "sample"):
        kgqa(verb, *([project / "run.yaml"] if verb == "init" else []), run)
    refused = kgqa("run", run, code=2)
    assert "model.gguf" in refused.stderr


def test_the_help_describes_ten_verbs_and_names_each_other_verb_once() -> None:
    listed = program("--help").stdout.split("From a configuration to a dataset:\n")[1]
    main, rest = listed.split("\nMore, by task")
    first = re.findall(r"^  (\w+)", main, flags=re.MULTILINE)
    assert len(first) == 10
    assert first[:3] == ["init", "preview", "all"]
    assert "others" not in rest
    groups = re.findall(r"^  [a-z ]+?  +(.*(?:\n {4,}.*)*)", rest, flags=re.MULTILINE)
    verbs = [*first, *re.findall(r"\w+", " ".join(groups))]
    commands = json.loads(kgqa("list", "commands", "--json").stdout)
    assert sorted(verbs) == sorted({entry["name"].split()[0] for entry in commands})


def test_the_version_and_the_help_are_there() -> None:
    assert program("--version").stdout.startswith("kgqa ")
    assert "explain" in program("--help").stdout
    program("nonsense", code=2)


def test_a_stop_is_not_printed_as_an_error(monkeypatch: Any, capsys: Any) -> None:
    def stopped() -> None:
        raise StoppedEarly("stopped early: SIGINT", "run the same command again")

    monkeypatch.setitem(main.__globals__, "app", stopped)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 75
    assert capsys.readouterr().err.startswith("stopped early: SIGINT")


def test_a_shell_completes_verbs_also_those_of_plugins() -> None:
    words = {"COMP_WORDS": "kgqa gas", "COMP_CWORD": "1", "_KGQA_COMPLETE": "complete_bash"}
    assert CliRunner().invoke(app, env=words, prog_name="kgqa").stdout.split() == ["gasl"]
