"""Tasks for EleutherAI's lm-evaluation-harness and Hugging Face's lighteval: open answers, or multiple choice.

    lm-eval --model … --tasks kgqa --include_path FOLDER
    lighteval accelerate "model_name=…" "kgqa|0" --custom-tasks FOLDER/kgqa_task.py

lm-eval resolves paths in a task file from its own working folder, so a small Python file beside it loads the data.
lighteval reads data sets by name or folder: the folder itself is one, of JSON lines by split. lighteval 0.13.0 ran the
task with xxhash below 4.
"""

from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined

from kgqa_hpc.dataset.exports.source import TRAIN, ExportSource, Line, write_lines
from kgqa_hpc.steps.item import choices_of, right_letter, with_choices


class _Harness:
    """SPLIT.jsonl with question, answer and id, and the files that `templates` describe."""

    templates: ClassVar[dict[str, str]]

    def write(self, source: ExportSource, folder: Path) -> None:
        write_lines(source, folder, _pair_line)
        jinja = Environment(
            loader=PackageLoader("kgqa_hpc.dataset.exports", ""),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,  # the output is Python and YAML, without any foreign text
        )
        jinja.filters["repr"] = repr
        test = "test" if "test" in source.splits else source.splits[0]
        values = {
            "run": source.digest[:16],
            "splits": source.splits,
            "test": test,
            "train": TRAIN if TRAIN in source.splits and test != TRAIN else None,  # for few-shot examples
            "choices": {bool(choices_of(record)) for record in source.records()} == {True},
        }
        for file, template in self.templates.items():
            (folder / file).write_text(jinja.get_template(template).render(values), encoding="utf-8")


class LmEval(_Harness):
    """kgqa.yaml, kgqa_data.py and SPLIT.jsonl with question, answer and id; tested on `test` where there is one.

    A dataset of multiple-choice questions becomes a task of type multiple_choice, answered by letter.
    """

    name = "lm-eval"
    templates: ClassVar = {"kgqa.yaml": "lm_eval.yaml.j2", "kgqa_data.py": "lm_eval_data.py.j2"}


class LightEval(_Harness):
    """kgqa_task.py, README.md and SPLIT.jsonl; lighteval needs an environment of its own (exact pins, torch)."""

    name = "lighteval"
    templates: ClassVar = {"kgqa_task.py": "lighteval_task.py.j2", "README.md": "lighteval_card.md.j2"}


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
