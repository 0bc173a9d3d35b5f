"""Records can be read on a terminal, whatever they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from kgqa_hpc.cli import app
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.dataset.show import render, show, why_none
from kgqa_hpc.errors import InputError
from kgqa_hpc.text.plain_text import plain, plain_line


@pytest.fixture
def folder(make_run: Any) -> Path:
    run = make_run()
    run.finish()
    merge(run.folder)
    return run.folder.path


def test_accepted_rejected_and_lost_are_shown_with_their_reasons(folder: Path) -> None:
    assert "What links the nodes" in render(show(folder, "accepted"))
    assert "rejected: judge: invalid question" in render(show(folder, "rejected"))
    assert "invalid: generate: not_json" in render(show(folder, "lost"))


def test_a_group_and_a_number_narrow_what_is_shown(folder: Path) -> None:
    records = show(folder, "accepted", "shape 2", 3)
    assert [record["group"] for record in records] == ["shape 2"] * 3
    with pytest.raises(InputError, match="no group 'shape 9'") as caught:
        show(folder, "accepted", "shape 9")
    assert "shape 1, shape 2, shape 3" in caught.value.cure


def test_verdicts_are_words_not_python(folder: Path) -> None:
    text = render(show(folder, "rejected", number=1))
    assert "valid_question: no" in text
    assert "{" not in text
    assert "False" not in text


def test_an_empty_answer_names_the_records_that_are_there(folder: Path) -> None:
    lines = why_none(folder, "accepted").splitlines()
    assert lines[0] == "none accepted"
    assert lines[1].endswith(f"rejected: kgqa show {folder} --rejected")
    assert "accepted: kgqa show" in why_none(folder, "lost")


def test_the_command_prints_records_and_refuses_two_files_at_once(folder: Path) -> None:
    shown = CliRunner().invoke(app, ["show", str(folder), "--rejected", "-n", "1"])
    assert shown.exit_code == 0
    assert "judge: invalid" in shown.stdout
    both = CliRunner().invoke(app, ["show", str(folder), "--rejected", "--lost"])
    assert isinstance(both.exception, InputError)


@given(st.text())
def test_no_control_and_no_bidirectional_character_is_left(text: str) -> None:
    shown = plain(text)
    assert not any(ord(c) < 32 and c not in "\n\t" for c in shown)
    assert not set(shown) & set("\x7f\x85\x9b\u202a\u202e\u2066\u2069\u200f\ud800")
    assert len(shown) == len(text)
    assert not set("\n\t") & set(plain_line(text))
