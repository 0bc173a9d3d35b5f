"""`kgqa -q` says results and errors alone, `kgqa -v` also what it does."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgqa_hpc import terminal
from kgqa_hpc.terminal import Progress, stage_progress
from tests.command import kgqa, program
from tests.project import PATHS, write_project


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    terminal.set_up()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path, PATHS)
    return tmp_path


def test_quiet_leaves_stderr_empty_and_the_result_on_stdout(project: Path) -> None:
    loud = kgqa("all", project / "run.yaml", project / "loud")
    quiet = program("-q", "all", project / "run.yaml", project / "quiet")
    assert quiet.stderr == ""
    assert quiet.stdout == loud.stdout.replace("loud", "quiet")
    assert "import  " in loud.stderr
    assert "20 of 20 items" in loud.stderr


def test_verbose_says_what_the_workers_log_gets_and_the_result_stays_the_same(project: Path) -> None:
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


def test_nothing_in_a_debug_line_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.set_up(verbose=True)
    logging.getLogger("kgqa_hpc.anything").debug("name %s", "\x1b[2Jgone")
    said = capsys.readouterr().err
    assert "gone" in said
    assert "\x1b" not in said


def test_quiet_draws_no_bar_either(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.set_up(quiet=True)
    progress = Progress(interactive=True)
    progress.update(1, 2, "items")
    progress.close(2, 2, "items")
    with stage_progress(interactive=True) as stage:
        stage(1, 1000, "counting")
    terminal.note("a note")
    said = capsys.readouterr()
    assert said.err + said.out == ""
