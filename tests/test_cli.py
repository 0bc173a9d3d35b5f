"""The command line, as a user meets it: a whole run, the same command again, and wrong input (tests/golden: more)."""

import json
import logging
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

import kgqa_hpc
from kgqa_hpc import terminal
from kgqa_hpc.cli.app import app, main
from kgqa_hpc.errors import StoppedEarly
from kgqa_hpc.terminal import Progress, stage_progress
from tests.command import Done, environment, kgqa, program
from tests.project import CONFIG, PATHS, write_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path)
    (tmp_path / "bad.gguf").write_bytes(b"not a model at all" * 100)
    return tmp_path


def go(project: Path, *verbs: str, code: int = 0) -> Done:
    """Call the verbs for the project's run; the last one must end with the code."""
    for verb in verbs:
        expected = code if verb == verbs[-1] else 0
        done = kgqa(verb, *[project / "run.yaml"] * (verb == "init"), project / "run", code=expected)
    return done


def test_a_run_goes_from_graph_to_report_and_every_verb_can_be_repeated(project: Path) -> None:
    run = project / "run"
    program("init", project / "run.yaml", run)
    for verb in ("import", "sample", "run", "merge", "report"):
        first = program(verb, run)
        again = kgqa(verb, run)
        if verb in ("import", "merge", "report"):
            assert first.stdout == again.stdout
    assert json.loads((run / "dataset" / "accounting.json").read_text(encoding="utf-8"))["accepted"]
    assert json.loads(kgqa("status", run, "--json").stdout)["complete"] is True
    record = json.loads((run / "dataset" / "accepted.jsonl").read_text(encoding="utf-8").splitlines()[0])
    story = kgqa("explain", run, record["id"])
    assert record["question"][:30] in " ".join(story.stdout.split()) or record["id"] in story.stdout
    assert (run / "report" / "index.html").stat().st_size > 10_000


def test_a_command_to_copy_has_its_path_in_quotes(tmp_path: Path) -> None:
    run = tmp_path / "my run"
    cure = kgqa("merge", run, code=2).stderr.partition("make it with: ")[2]
    assert shlex.split(cure) == ["kgqa", "init", "CONFIG", str(run)]
    sources = (path.read_text(encoding="utf-8") for path in Path(kgqa_hpc.__file__).parent.rglob("*.py"))
    bare = [
        re.findall(r"(?:kgqa [a-z]+|cp -r) (?:CONFIG )?\{(?!shell_word|word)\S+", source)
        for source in sources
    ]
    assert list(chain(*bare)) == []


def test_all_in_one_command_resumes_and_ends_with_where_everything_lies(project: Path) -> None:
    run = project / "run"
    first = kgqa("all", project / "run.yaml", run)
    assert str(run / "dataset") in first.stdout
    assert (first.stdout + first.stderr).count("index.html") == 1
    before = (run / "dataset" / "accepted.jsonl").read_bytes()
    assert kgqa("all", project / "run.yaml", run).stdout == first.stdout
    assert (run / "dataset" / "accepted.jsonl").read_bytes() == before


@pytest.mark.slow
def test_sampling_twice_with_other_thread_counts_is_byte_identical(project: Path) -> None:
    written = []
    go(project, "init", "import")
    for threads in (1, 3):
        kgqa("sample", project / "run", "--threads", threads)
        written.append((project / "run" / "anchors.h5").read_bytes())
        (project / "run" / "anchors.h5").unlink()
    assert written[0] == written[1]


BAD = {
    "missing column": ("nodes.csv", "id,name,type", "id,label,type", "import", "name"),
    "duplicate id": ("nodes.csv", "N:5,", "N:4,", "import", "N:4"),
    "missing edge column": ("edges.csv", "source_id,", "from,", "import", "source_id"),
    "unknown node": ("edges.csv", "N:0,", "N:999,", "import", "N:999"),
    "no model file": ("run.yaml", "kind: scripted", "kind: cpu, model: none.gguf", "init", "none.gguf"),
    "a damaged model": ("run.yaml", "kind: scripted", "kind: cpu, model: bad.gguf", "run", "bad.gguf"),
    "nothing left": ("run.yaml", "edges.csv}", "edges.csv, min_degree: 90}", "sample", "degree"),
    "no such graphlet": ("run.yaml", "per_shape: 6", "per_shape: 6, shapes: [29]", "sample", "graphlet"),
}


@pytest.mark.parametrize("mistake", BAD)
def test_bad_input_is_one_clear_line_exit_2_and_nothing_half_written(project: Path, mistake: str) -> None:
    file, old, new, stage, said = BAD[mistake]
    text = (project / file).read_text(encoding="utf-8")
    (project / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    verbs = ["init", "import", "sample", "run"]
    refused = go(project, *verbs[: verbs.index(stage) + 1], code=2)
    assert sum(line.startswith("error: ") for line in refused.stderr.splitlines()) == 1
    assert said in refused.stderr
    outputs = {"init": "", "import": "kg.h5", "sample": "anchors.h5", "run": "results/main"}
    target = project / "run" / outputs[stage]
    assert not target.exists() or not any(target.glob("*.h5"))


def test_a_prompt_that_an_edit_made_invalid_is_told_and_the_run_goes_on_with_its_own(project: Path) -> None:
    own, run = project / "own", project / "run"
    own.mkdir()
    shutil.copy(Path(__file__).parents[1] / "prompts" / "p5.md", own)
    (project / "run.yaml").write_text(f"{CONFIG}prompts: {{folder: own}}\n")
    go(project, "init")
    (own / "p5.md").write_text("no prompt\n", encoding="utf-8")
    told = [line for line in kgqa("import", run).stderr.splitlines() if "goes on with its own copy" in line]
    assert len(told) == 1
    assert str(own / "p5.md") in told[0]
    (own / "p5.md").unlink()
    assert "its own copy" not in kgqa("import", run).stderr


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
    assert program("--version").stdout.startswith("kgqa ")


def test_a_stop_is_not_printed_as_an_error(monkeypatch: Any, capsys: Any) -> None:
    stopped = Mock(side_effect=StoppedEarly("stopped early: SIGINT", "run the same command again"))
    monkeypatch.setitem(main.__globals__, "app", stopped)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 75
    assert capsys.readouterr().err.startswith("stopped early: SIGINT")


def test_output_to_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        line = [sys.executable, "-m", "kgqa_hpc", "list", "kinds"]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, env=environment())
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "error: output: No space left on device"
    assert len(done.stderr.splitlines()) == 2


def test_closed_output_changes_no_exit_code() -> None:
    line = f"{sys.executable} -m kgqa_hpc list kinds >&- 2>&-"
    assert subprocess.run(line, shell=True, env=environment()).returncode == 0


def test_a_shell_completes_verbs_also_those_of_plugins() -> None:
    words = {"COMP_WORDS": "kgqa gas", "COMP_CWORD": "1", "_KGQA_COMPLETE": "complete_bash"}
    assert CliRunner().invoke(app, env=words, prog_name="kgqa").stdout.split() == ["gasl"]


KINDS = ("kinds", "steps", "engines", "sources", "exports", "rules", "metrics", "sections", "commands")


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_is_listed_with_a_description_and_its_package(kind: str) -> None:
    entries = json.loads(kgqa("list", kind, "--json").stdout)
    assert entries or kind == "sections"
    for entry in entries:
        assert entry["description"], entry
        assert entry["package"] == "kgqa_hpc"
        assert kgqa("list", kind, entry["name"]).stdout.startswith(f"{entry['name']}  [kgqa_hpc]\n")


def test_an_entry_is_told_with_its_keys_and_columns_and_an_unknown_one_with_the_nearest() -> None:
    step = json.loads(kgqa("list", "steps", "check", "--json").stdout)
    assert step["needs"] == ["question", "answer"]
    assert "aliases" in {key["key"] for key in step["keys"]}
    assert "hops" in {column["name"] for column in step["columns"]}
    assert "hops  int64" in kgqa("list", "steps", "check").stdout
    assert "did you mean steps?" in kgqa("list", "stepps", code=2).stderr
    assert "did you mean check?" in kgqa("list", "steps", "chekc", code=2).stderr


def test_quiet_leaves_stderr_empty_and_the_result_on_stdout(project: Path) -> None:
    write_project(project, PATHS)
    loud = kgqa("all", project / "run.yaml", project / "loud")
    quiet = program("-q", "all", project / "run.yaml", project / "quiet")
    assert quiet.stderr == ""
    assert quiet.stdout == loud.stdout.replace("loud", "quiet")
    assert "import  " in loud.stderr
    assert "20 of 20 items" in loud.stderr


def test_verbose_says_what_the_workers_log_gets_and_the_result_stays_the_same(project: Path) -> None:
    write_project(project, PATHS)
    told = kgqa("--verbose", "all", project / "run.yaml", project / "run")
    assert "kgqa_hpc: kgqa " in told.stderr.splitlines()[0]
    assert ": started {" in told.stderr
    assert told.stdout.startswith("dataset  ")


def test_an_error_is_said_however_quiet_and_verbose_tells_where_it_was_noticed(project: Path) -> None:
    words = ("init", project / "none.yaml", project / "run")
    assert kgqa("--quiet", *words, code=2).stderr.startswith("error: ")
    told = kgqa("-v", *words, code=2)
    assert "in plain_config" in told.stderr
    assert told.stderr.rpartition("\nerror: ")[2].startswith(str(project / "none.yaml"))
    assert "choose one" in kgqa("-v", "-q", "doctor", code=2).stderr


@pytest.fixture
def as_before() -> Iterator[None]:
    yield
    terminal.set_up()


@pytest.mark.usefixtures("as_before")
def test_nothing_in_a_debug_line_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.set_up(verbose=True)
    logging.getLogger("kgqa_hpc.anything").debug("name %s", "\x1b[2Jgone")
    said = capsys.readouterr().err
    assert "gone" in said
    assert "\x1b" not in said


@pytest.mark.usefixtures("as_before")
def test_quiet_draws_no_bar_either(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.set_up(quiet=True)
    progress = Progress(interactive=True)
    progress.update(1, 2, "items")
    progress.update(2, 2, "items", last=True)
    with stage_progress(interactive=True) as stage:
        stage(1, 1000, "counting")
    terminal.note("a note")
    said = capsys.readouterr()
    assert said.err + said.out == ""
