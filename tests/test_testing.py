"""`kgqa init --plugin` and `kgqa_hpc.testing`: a file of one's own with a test, before there is a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import ExtensionError, InputError
from kgqa_hpc.steps.judge import Judge
from kgqa_hpc.steps.outcomes import Outcome
from kgqa_hpc.steps.step import Step
from kgqa_hpc.testing import EVIDENCE, Done, Retry, answer, item, record, run_step
from tests.golden.command import kgqa, succeed

pytestmark = pytest.mark.usefixtures("forget_file_entries")


def test_the_files_that_init_writes_pass_their_test_and_run(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    told = succeed("init", "--plugin", "film_steps", folder).stdout.split()
    names = "edges.csv film_steps.py film_steps.yaml film_steps_test.py"
    assert sorted(Path(path).name for path in told) == names.split()
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "film_steps_test.py"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    succeed("all", folder / "film_steps.yaml", tmp_path / "run")
    assert '"words":' in (tmp_path / "run/dataset/accepted.jsonl").read_text()
    again = kgqa("init", "--plugin", "film_steps", folder)
    assert again.code == 2
    assert "is there already" in again.error
    assert "is no name of a Python module" in kgqa("init", "--plugin", "film-steps", tmp_path / "x").error
    assert not (tmp_path / "x").exists()


def test_a_step_that_asks_takes_the_answer_of_a_model() -> None:
    pair = item(question="Who directed Solaris?", answer="Tarkovsky.")
    verdict = {"question_reasoning": "r", "valid_question": True, "my_answer": "a", "answer_reasoning": "r"}
    outcome = run_step(Judge, pair, answer(**verdict, original_answer_valid=False), gate=False)
    assert isinstance(outcome, Done)
    assert pair.verdicts["judge"]["original_answer_valid"] is False
    with pytest.raises(InputError, match="step judge asks a model"):
        run_step(Judge, pair)


def test_mistakes_of_a_step_are_told_as_in_a_run() -> None:
    class Forgetful(Step):
        name = "forgetful"
        columns = (Column("words", "int64", "Words."),)
        returned: object = None

        def compute(self, item: object) -> Outcome:
            return self.returned  # type: ignore[return-value]

    with pytest.raises(ExtensionError, match=r"step forgetful .* returned None on item test-1"):
        run_step(Forgetful, item())
    Forgetful.returned = Done(wrods=1)
    assert run_step(Forgetful, item()) == Retry("wrods is no column of it, did you mean words?", "failed")


def test_a_record_is_held_against_the_columns_of_its_kind() -> None:
    class Kind(AnchorKind):
        name = "mine"
        columns = (Column("first", "string", "The first node."),)

        def record(self, anchor: Anchor, fields: object) -> dict[str, object]:
            return {"first": anchor.nodes[0].name}

    assert record(Kind(), EVIDENCE) == {"first": "Tarkovsky"}
    Kind.columns = ()
    with pytest.raises(InputError, match="first is no column of it"):
        record(Kind(), EVIDENCE)
