"""A step of one's own: its first files, its tests by kgqa_hpc.testing, and its mistakes, refused early or counted."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import ExtensionError, InputError
from kgqa_hpc.prompts.files import shipped_prompts
from kgqa_hpc.steps.check import step
from kgqa_hpc.steps.item import Item, Outcome, end
from kgqa_hpc.steps.pair import Judge
from kgqa_hpc.steps.step import Step
from kgqa_hpc.testing import EVIDENCE, Done, Reject, Retry, answer, item, record, run_step
from tests.command import kgqa
from tests.project import write_project

CONFIG = """
seed: 7
plugins: [mine.py]
graph: {source: csv, nodes: nodes.csv, edges: edges.csv, min_degree: 0}
anchors: {kind: graphlet, per_shape: 12, shapes: [1, 3]}
engine: {kind: scripted, accept: 1.0}
passes: [{name: main, steps: [generate, mine]}]
prompts: {folder: prompts}
dataset: {z_score: null}
"""
STEP = '''
import itertools
import sys

from pydantic import BaseModel

from kgqa_hpc.columns import Column
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.step import Done, Reject, Step

NUMBERS = itertools.count()


class Mine(Step):
    """A step with a mistake."""

    name = "mine"
    Settings = StepSettings
    adds = "column"
    needs = ("question",)
    columns = (Column("score", "double", "A score."), Column("count", "int64", "A count."))

    def compute(self, item):
        return Done(score=1.0)
'''
REFUSED: dict[str, tuple[str, str, str]] = {  # what is replaced, by what, and what the message says
    "columns are names": ('Column("score", "double", "A score.")', '"score"', "is no tuple of Column"),
    "one column without a tuple": (
        "columns = (",
        'columns = Column("a", "bool", "A.")\n    _ = (',
        "is no tuple",
    ),
    "a column without a name": ('"score", "double"', '"", "double"', "is no tuple of Column"),
    "a column twice": ('Column("count"', 'Column("score"', "declares column 'score' twice"),
    "a type of Python": ('"int64"', "int", "<class 'int'> is no column type"),
    "a type of another name": ('"int64"', '"integer"', "'integer' is no column type"),
    "a member of every record": ('"score"', '"question"', "is a member of every record"),
    "a word that steps do not add": ('"column"', '"annotation"', "adds 'annotation'"),
    "settings of no class": ("= StepSettings", "= dict", "its Settings is no class of kgqa_hpc.settings"),
    "settings of pydantic": ("= StepSettings", "= BaseModel", "its Settings is no class of kgqa_hpc"),
    "a method misspelt": ("def compute", "def comptue", "has no compute(item)"),
    "an answer and no accept": (
        'adds = "column"',
        'answer = {"valid_question": "boolean"}\n    default_prompt = "mine"',
        "has no accept(item, answer)",
    ),
    "a constructor that fails": (
        "def compute",
        "def __init__(self, *given):\n        raise RuntimeError('no model')\n\n    def compute",
        "step mine of mine.py failed: RuntimeError: no model (mine.py line",
    ),
    "a constructor of no arguments": (
        "def compute",
        "def __init__(self):\n        pass\n\n    def compute",
        "step mine of mine.py failed: TypeError",
    ),
    "turns as text": ("columns = (", 'turns = "2"\n    columns = (', "step mine of mine.py: turns is '2'"),
    "a field misspelt": ('"question"', '"qestion"', "mine reads qestion, which nothing before it adds"),
    "a file that exits": ("import sys", "import sys\n\nsys.exit('done')", "SystemExit: done"),
    "a package that is not there": ("import sys", "import no_such_package", "ModuleNotFoundError"),
}
COUNTED: dict[str, str] = {  # what the step does to an item, and the reason that the item is counted under
    "return Done(score=float('nan'))": "column score is no double",
    "return Done(score=float('-inf'))": "column score is no double",
    "return Done(score='high')": "column score is no double",
    "return Done(count=2**63)": "column count is no int64",
    "return Done(count=2**70)": "columns cannot be written: Integer exceeds 64-bit range",
    "return Done(score=b'1')": "columns cannot be written: Type is not JSON serializable: bytes",
    "return Done(scroe=1.0)": "scroe is no column of it, did you mean score?",
    "item.annotations['scroe'] = 1.0": "scroe is no column of it, did you mean score?",
    "item.features['share'] = float('nan')": "feature share is no finite number",
    "item.features['words'] = {'a', 'b'}": "features cannot be written: Type is not JSON serializable: set",
    "item.output['question'] = None": "question is no text",
    "del item.output['answer']": "ended without question and answer",
    "item.output = None": "output is no mapping",
    "item.records = 'two'": "records is no list of mappings",
    "item.records = [{'question': 'Which?'}]": "ended without question and answer",
    "item.records = [{**item.output, 'reason': 5}]": "the reason of a record is no text",
    "item.records = [{**item.output, 'question': ''}]": "ended without question and answer",
    "item.output['answer'] = ' '": "ended without question and answer",
    "item.verdicts['mine'] = 'yes'": "a verdict is no mapping",
    "sys.exit('cannot go on')": "SystemExit",
    "[][0]": "IndexError",
    "item.state = (lambda: item.state)()['last']": "KeyError",
}


def write(folder: Path, text: str) -> None:
    write_project(folder, CONFIG, nodes=30, edges=60)
    (folder / "mine.py").write_text(text)
    (folder / "prompts").mkdir()
    shipped = (shipped_prompts() / "filter.md").read_text()
    (folder / "prompts/mine.md").write_text(shipped.replace("step: judge", "step: mine"))


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_in_a_class_is_refused_before_a_run_exists(mistake: str, tmp_path: Path) -> None:
    correct, wrong, words = REFUSED[mistake]
    assert correct in STEP
    write(tmp_path, STEP.replace(correct, wrong))
    ended = kgqa("init", tmp_path / "run.yaml", tmp_path / "run", code=2)
    assert words in ended.stderr
    assert "mine" in ended.stderr
    assert not (tmp_path / "run").exists()


def test_a_mistake_on_an_item_is_counted_by_its_reason_and_others_are_accepted(
    tmp_path: Path,
) -> None:
    """Every second item or so meets a mistake, each mistake in its turn."""
    turn = "        number = next(NUMBERS)\n"
    for number, body in enumerate(COUNTED):
        turn += f"        if number == {number}:\n            {body}\n"
    end = "        return Done(score=1.0)\n"
    write(tmp_path, STEP.replace(end, turn + end))
    kgqa("all", tmp_path / "run.yaml", tmp_path / "run")
    accounting = json.loads((tmp_path / "run/dataset/accounting.json").read_text())
    assert accounting["failed"] == Counter(f"mine: {reason}" for reason in COUNTED.values())
    assert accounting["sampled"] == 24
    assert accounting["accepted"] == 24 - len(COUNTED)


def test_the_files_that_init_writes_pass_their_test_and_run(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    told = kgqa("init", "--plugin", "film_steps", folder).stdout.split()
    names = "edges.csv film_steps.py film_steps.yaml film_steps_test.py"
    assert sorted(Path(path).name for path in told) == names.split()
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "film_steps_test.py"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    kgqa("all", folder / "film_steps.yaml", tmp_path / "run")
    assert '"words":' in (tmp_path / "run/dataset/accepted.jsonl").read_text()
    assert "is there already" in kgqa("init", "--plugin", "film_steps", folder, code=2).stderr
    for name in ("film-steps", "class"):
        refused = kgqa("init", "--plugin", name, tmp_path / "x", code=2).stderr
        assert "is no name of a Python module" in refused
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


def test_a_function_that_names_no_column_or_no_reason_is_told_so() -> None:
    pair = item(question="Who directed Solaris?", answer="Tarkovsky.")

    def number(item: Item) -> object:
        return {5: 3}

    assert run_step(step(number), pair) == Retry("5 is no column of it", "failed")

    def refuse(item: Item) -> object:
        return Reject("")

    assert run_step(step(refuse), pair) == Reject("refuse: no reason given")
    end(pair, Reject(""), AnchorKind(), "mine")
    assert pair.reason == "mine: no reason given"


def test_an_item_keeps_its_earlier_results_when_an_answer_is_refused() -> None:
    class Flaky(Judge):
        """A judge whose first answers store values that do not fit."""

        name = "flaky"
        columns = (Column("hard", "bool", "Whether it is hard."),)
        mistakes: ClassVar = [
            "item.features['odd'] = float('nan')",
            "item.annotations['hrad'] = True",
        ] * 2 + ["item.records = [][0]"]

        def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
            item.output["question"] = "Another?"
            if self.mistakes:
                exec(self.mistakes.pop())
            return super().accept(item, answer)

    pair = item(question="Who directed Solaris?", answer="Tarkovsky.")
    pair.features["size"] = 3
    pair.verdicts["earlier"] = {"valid_question": True}
    before = pair.results()
    verdict = {"question_reasoning": "r", "valid_question": True, "my_answer": "a", "answer_reasoning": "r"}
    response = answer(**verdict, original_answer_valid=True)
    with pytest.raises(IndexError):
        run_step(Flaky, pair, response, gate=False)
    for reason in ("hrad is no column of it, did you mean hard?", "feature odd is no finite number") * 2:
        assert pair.results() == before
        assert run_step(Flaky, pair, response, gate=False) == Retry(reason, "failed")
    assert isinstance(run_step(Flaky, pair, response, gate=False), Done)
    assert (pair.features, pair.output["question"]) == ({"size": 3}, "Another?")
    assert pair.verdicts.keys() == {"earlier", "flaky"}


KIND = '''
from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Node


class Wedge(AnchorKind):
    """A kind with a mistake."""

    name = "wedge"
    sample = Anchor("wedge-0", "wedge", "all", (Node("a", "A", "t"),))

    def start(self, anchor):
        return {}

    def draw(self, source, settings, seed, tools):
        yield Anchor("wedge-1", "wedge", "all", (Node("a", "A", "t"),))
'''


@pytest.mark.parametrize(
    ("correct", "wrong", "words"),
    [
        ("        return {}", "        return ['a']", "wedge of kind.py: start(): output is no mapping"),
        ("        return {}", "        return {'answer': {1}}", "start(): output cannot be written"),
        ('yield Anchor("wedge-1", "wedge", "all"', 'yield Anchor("w", "wedgy", "all"', "of kind 'wedgy'"),
        (
            'yield Anchor("wedge-1", "wedge", "all"',
            'yield Anchor("w", "wedge", 5',
            "kind 'wedge' and group 5",
        ),
    ],
)
def test_a_mistake_in_a_kind_is_refused_before_its_anchors_are_stored(
    correct: str, wrong: str, words: str, tmp_path: Path
) -> None:
    assert correct in KIND
    write(tmp_path, STEP)
    (tmp_path / "kind.py").write_text(KIND.replace(correct, wrong))
    config = CONFIG.replace("[mine.py]", "[mine.py, kind.py]")
    anchors = "{kind: graphlet, per_shape: 12, shapes: [1, 3]}"
    (tmp_path / "run.yaml").write_text(config.replace(anchors, "{kind: wedge}"))
    assert words in kgqa("all", tmp_path / "run.yaml", tmp_path / "run", code=2).stderr
    assert not (tmp_path / "run/anchors.h5").exists()


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
