"""Tasks for EleutherAI's lm-evaluation-harness and Hugging Face's lighteval: open answers, or multiple choice.

    lm-eval --model … --tasks kgqa --include_path FOLDER
    lighteval accelerate "model_name=…" "kgqa|0" --custom-tasks FOLDER/kgqa_task.py

lm-eval resolves paths in a task file from its own working folder, so a small Python file beside it loads the data.
lighteval reads data sets by name or folder: the folder itself is one, of JSON lines by split. lighteval 0.13.0 ran the
task with xxhash below 4.
"""

from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.exports.source import TRAIN, ExportSource, Line, write_lines
from kgqa_hpc.steps.item import choices_of, right_letter, with_choices

TASK = "kgqa"
_LM_EVAL = """# Questions and answers of run {run}, for lm-evaluation-harness.
#   lm-eval --model … --tasks {task} --include_path THIS_FOLDER
task: {task}
custom_dataset: !function {task}_data.load
test_split: {test}
{few}doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
{scoring}metadata:
  version: 1.0
"""
_LM_EVAL_OPEN = """output_type: generate_until
doc_to_target: "{{answer}}"
generation_kwargs:
  until: ["\\n\\n", "Question:"]
  max_gen_toks: 512
  do_sample: false
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
    ignore_case: true
    ignore_punctuation: true
  - metric: bleu
    aggregation: bleu
    higher_is_better: true
"""
_LM_EVAL_CHOICES = """output_type: multiple_choice
doc_to_choice: "{{choices}}"
doc_to_target: gold
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
"""
_LM_EVAL_DATA = '''"""Loads the questions that lie beside this file."""

from pathlib import Path

import datasets


def load(**_):
    folder = Path(__file__).parent
    files = {path.stem: str(path) for path in sorted(folder.glob("*.jsonl"))}
    return datasets.load_dataset("json", data_files=files)
'''


class LmEval:
    """kgqa.yaml, kgqa_data.py and SPLIT.jsonl with question, answer and id; tested on `test` where there is one.

    A dataset of multiple-choice questions becomes a task of type multiple_choice, answered by letter.
    """

    name = "lm-eval"

    def write(self, source: ExportSource, folder: Path) -> None:
        write_lines(source, folder, _pair_line)
        test, train = _parts(source)
        few = f"fewshot_split: {train}\n" if train else ""
        scoring = _LM_EVAL_CHOICES if _only_choices(source) else _LM_EVAL_OPEN
        run = source.digest[:16]
        text = _LM_EVAL.format(run=run, task=TASK, test=test, few=few, scoring=scoring)
        (folder / f"{TASK}.yaml").write_text(text, encoding="utf-8")
        (folder / f"{TASK}_data.py").write_text(_LM_EVAL_DATA, encoding="utf-8")


_LIGHTEVAL = '''"""Questions and answers of run {run}, for lighteval.

    lighteval accelerate "model_name=…" "kgqa|0" --custom-tasks THIS_FILE
"""

from pathlib import Path

from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc


def pair(line, task_name=None):
    return Doc(
        task_name=task_name,
        query=f"Question: {{line['question']}}\\nAnswer:",
        choices={choices},
        gold_index={gold},
    )


TASKS_TABLE = [
    LightevalTaskConfig(
        name="kgqa",
        prompt_function=pair,
        hf_repo=str(Path(__file__).parent),
        hf_subset="default",
        hf_avail_splits={splits!r},
        evaluation_splits=[{test!r}],
        few_shots_split={few!r},
        few_shots_select=None,
        generation_size=512,
        stop_sequence=["\\n\\n", "Question:"],
        metrics=[{metrics}],
        version=1,
    )
]
'''
_LIGHTEVAL_OPEN = {
    "choices": "[f\" {line['answer']}\"]",
    "gold": "0",
    "metrics": "Metrics.exact_match, Metrics.rougeL",
}
_LIGHTEVAL_CHOICES = {
    "choices": '[f" {letter}" for letter in line["choices"]]',
    "gold": 'line["gold"]',
    "metrics": "Metrics.loglikelihood_acc",
}
_LIGHTEVAL_CARD = """---
configs:
- config_name: default
  data_files:
{files}---
"""


class LightEval:
    """kgqa_task.py, README.md and SPLIT.jsonl; lighteval needs an environment of its own (exact pins, torch)."""

    name = "lighteval"

    def write(self, source: ExportSource, folder: Path) -> None:
        write_lines(source, folder, _pair_line)
        test, train = _parts(source)
        run = source.digest[:16]
        form = _LIGHTEVAL_CHOICES if _only_choices(source) else _LIGHTEVAL_OPEN
        text = _LIGHTEVAL.format(run=run, splits=list(source.splits), test=test, few=train, **form)
        (folder / "kgqa_task.py").write_text(text, encoding="utf-8")
        files = "".join(f"  - split: {split}\n    path: {split}.jsonl\n" for split in source.splits)
        (folder / "README.md").write_text(_LIGHTEVAL_CARD.format(files=files), encoding="utf-8")


def _parts(source: ExportSource) -> tuple[str, str | None]:
    """The part for testing, and the part for few-shot examples: `train`, or None without another `train`."""
    test = "test" if "test" in source.splits else source.splits[0]
    return test, TRAIN if TRAIN in source.splits and test != TRAIN else None


def _pair_line(record: dict[str, Any]) -> Line:
    """The members of a record that evaluation harnesses read.

    For a multiple-choice record the question includes the options, and two members are added: `choices`
    (letters) and `gold`, the position of the right option, from 0.
    """
    line = {name: record[name] for name in ("id", "question", "answer")}
    if not (choices := choices_of(record)):
        return line
    gold = list(choices).index(right_letter(record))
    return {
        **line,
        "question": with_choices(line["question"], choices),
        "choices": list(choices),
        "gold": gold,
    }


def _only_choices(source: ExportSource) -> bool:
    """Whether there are records and all are multiple-choice questions."""
    kinds = {bool(choices_of(record)) for record in source.records()}
    return kinds == {True}
