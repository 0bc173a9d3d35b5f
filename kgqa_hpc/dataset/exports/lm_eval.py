"""A task for EleutherAI's lm-evaluation-harness: open answers, scored by exact match and BLEU, or multiple choice.

    lm-eval --model … --tasks kgqa --include_path FOLDER

The task file names its data by a path relative to itself; the harness resolves it from where it is started, so a
small Python file beside it loads the data from wherever the folder lies.
"""

from __future__ import annotations

from pathlib import Path

from kgqa_hpc.dataset.exports.source import TRAIN, ExportSource, only_choices, pair_line, write_lines

TASK = "kgqa"
_YAML = """# Questions and answers of run {run}, for lm-evaluation-harness.
#   lm-eval --model … --tasks {task} --include_path THIS_FOLDER
task: {task}
custom_dataset: !function {task}_data.load
test_split: {test}
{few}doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
{scoring}metadata:
  version: 1.0
"""
_OPEN = """output_type: generate_until
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
_CHOICES = """output_type: multiple_choice
doc_to_choice: "{{choices}}"
doc_to_target: gold
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
"""
_DATA = '''"""Loads the questions that lie beside this file."""

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
        write_lines(source, folder, pair_line)
        test = "test" if "test" in source.splits else source.splits[0]
        few = f"fewshot_split: {TRAIN}\n" if TRAIN in source.splits and test != TRAIN else ""
        scoring = _CHOICES if only_choices(source) else _OPEN
        run = source.digest[:16]
        text = _YAML.format(run=run, task=TASK, test=test, few=few, scoring=scoring)
        (folder / f"{TASK}.yaml").write_text(text, encoding="utf-8")
        (folder / f"{TASK}_data.py").write_text(_DATA, encoding="utf-8")
