"""A stranger finds things: the path that a question suggests holds the answer.

Who moves the code changes the path here, and asks whether a stranger would still guess it.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "kgqa_hpc"

QUESTIONS = [
    ("Which stages has a run, in which order?", "stages.py", "STAGES"),
    ("How does one worker take over the lease of a dead one?", "store/lease.py", "_depose"),
    ("How are names cleaned before they go into a prompt?", "prompts/safe_text.py", "clean_text"),
    ("What does a journal do with a line that is torn?", "store/journal.py", "read_journal"),
    ("How is a file written so that it is whole or absent?", "store/atomic.py", "write_file"),
    ("What makes two configurations the same run?", "store/fingerprint.py", "fingerprint"),
    ("Which nodes are left out because of their degree?", "kg/reduce.py", "reduce_to"),
    ("Which shapes of graphlets are there?", "graphlets/shapes.py", "SHAPES"),
    ("How is JSON taken out of a model's answer?", "steps/answer_json.py", "parse_json"),
    ("How is an engine restarted after it died?", "work/pace.py", "bring_up"),
    ("When does a job stop before its limit?", "cluster/stop.py", "Stop"),
    ("What does a job ask of Slurm?", "cluster/jobs.py", "Resources"),
    ("What has a run done so far?", "status/snapshot.py", "survey"),
    ("How long will a run take?", "status/forecast.py", "forecast"),
    ("Which questions are nearly the same?", "dataset/duplicates.py", "near_duplicates"),
    ("Do accepted, rejected and lost items add up?", "dataset/accounting.py", "Accounting"),
    ("How is 2-00:00:00 read?", "text/durations.py", "parse_duration"),
    ("How many cores may this process use?", "threads.py", "usable_cores"),
    ("Where is an unknown key answered with the nearest known one?", "settings.py", "sentence"),
    ("How is a run opened?", "runs/open.py", "open_run"),
    ("What is missing before a run is made?", "runs/checks.py", "problems"),
    ("Where is a prompt's front matter checked?", "prompts/front_matter.py", "FrontMatter"),
    ("How are a finished run's records drawn as anchors?", "anchors/records.py", "RecordAnchors"),
    ("How is a configuration's engine measured?", "trials/measure.py", "measure"),
    ("What does doctor ask of folders?", "doctor/probes.py", "_folder"),
    ("Which starting configurations are there?", "config/files.py", "examples"),
    ("How is a YAML file read?", "store/yaml_file.py", "load_yaml"),
    ("Which GPUs does a rank get?", "cluster/ranks.py", "assign_gpus"),
    ("Which errors are there, with which exit codes?", "errors.py", "KgqaError"),
    ("How does a package of my own add a kind, a step, an engine?", "registry.py", "Registry"),
]


@pytest.mark.parametrize(("question", "path", "name"), QUESTIONS, ids=[path for _, path, _ in QUESTIONS])
def test_the_path_that_a_question_suggests_holds_the_answer(question: str, path: str, name: str) -> None:
    file = PACKAGE / path
    assert file.is_file(), f"{question} {path} is no file"
    assert name in _defined(file), f"{question} {path} does not define {name}"


def _defined(file: Path) -> set[str]:
    """Names that a module defines: functions, classes, their methods, and constants."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {each.id for each in targets if isinstance(each, ast.Name) and each.id.isupper()}
    return names
