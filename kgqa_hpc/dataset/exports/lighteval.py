"""A task for Hugging Face's lighteval: open answers, scored by ROUGE and exact match, or multiple choice.

    lighteval accelerate "model_name=…" "kgqa|0" --custom-tasks FOLDER/kgqa_task.py

lighteval reads data sets by name or folder: the folder itself is one, of JSON lines by split. 0.13.0 was seen to run
it with xxhash below 4.
"""

from __future__ import annotations

from pathlib import Path

from kgqa_hpc.dataset.exports.source import TRAIN, ExportSource, only_choices, pair_line, write_lines

_TASK = '''"""Questions and answers of run {run}, for lighteval.

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
_OPEN = {
    "choices": "[f\" {line['answer']}\"]",
    "gold": "0",
    "metrics": "Metrics.exact_match, Metrics.rougeL",
}
_CHOICES = {
    "choices": '[f" {letter}" for letter in line["choices"]]',
    "gold": 'line["gold"]',
    "metrics": "Metrics.loglikelihood_acc",
}
_CARD = """---
configs:
- config_name: default
  data_files:
{files}---
"""


class LightEval:
    """kgqa_task.py, README.md and SPLIT.jsonl; lighteval needs an environment of its own (exact pins, torch)."""

    name = "lighteval"

    def write(self, source: ExportSource, folder: Path) -> None:
        write_lines(source, folder, pair_line)
        test = "test" if "test" in source.splits else source.splits[0]
        few = TRAIN if TRAIN in source.splits and test != TRAIN else None
        run = source.digest[:16]
        form = _CHOICES if only_choices(source) else _OPEN
        text = _TASK.format(run=run, splits=list(source.splits), test=test, few=few, **form)
        (folder / "kgqa_task.py").write_text(text, encoding="utf-8")
        files = "".join(f"  - split: {split}\n    path: {split}.jsonl\n" for split in source.splits)
        (folder / "README.md").write_text(_CARD.format(files=files), encoding="utf-8")
