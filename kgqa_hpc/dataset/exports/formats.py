"""Formats that need the records alone: for fine-tuning, question families, text to query, tables and harnesses.

In the formats of fine-tuning programs a multiple-choice question includes its options, and its answer the
letter. The column `sequence` (literature runs with `map_protein`) is added to the question, because a
question about "the protein" cannot be answered without it. With `--with reasoning` the model's reasoning
precedes the answer, between <think> and </think>.

Tasks for EleutherAI's lm-evaluation-harness and Hugging Face's lighteval have open answers, or multiple choice:

    lm-eval --model … --tasks kgqa --include_path FOLDER
    lighteval accelerate "model_name=…" "kgqa|0" --custom-tasks FOLDER/kgqa_task.py

lm-eval resolves paths in a task file from its own working folder, so a small Python file beside it loads the data.
lighteval reads data sets by name or folder: the folder itself is one, of JSON lines by split. lighteval 0.13.0 ran the
task with xxhash below 4.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import orjson

from kgqa_hpc.dataset.card import templates
from kgqa_hpc.dataset.files import THINKING, TRAIN, ExportSource
from kgqa_hpc.errors import InputError
from kgqa_hpc.steps.item import choices_of, right_letter, with_choices
from kgqa_hpc.terminal import note
from kgqa_hpc.text.plain_text import csv_lines

Record = dict[str, Any]
Line = dict[str, Any]
QUALITY = "quality_score"  # the label of the scoring step (`as: quality_score`)


def _asked(record: Record) -> str:
    """The user's turn: the protein's sequence if the record has one, then the question with its options."""
    question, sequence = with_choices(record["question"], choices_of(record)), record.get("sequence")
    return f"Protein sequence: {sequence}\n\n{question}" if sequence else question


def _answered(record: Record) -> str:
    """The assistant's turn: the reasoning if requested, the letter if the question has options, then the
    answer.
    """
    answer = f"{right_letter(record)}. {record['answer']}" if choices_of(record) else record["answer"]
    reasoning = record.get(THINKING)
    return f"<think>\n{reasoning}\n</think>\n\n{answer}" if reasoning else answer


class _Values:
    """A file for each part of the split: JSON lines (.jsonl) or a list (.json) of the `value` of each record.

    A record whose value is None is left out.
    """

    name: str
    value: Callable[[Record], Line | None]
    suffix = "jsonl"

    def write(self, source: ExportSource, folder: Path) -> None:
        empty = True
        for split in source.splits:
            with (folder / f"{split}.{self.suffix}").open("wb") as file:
                values = map(orjson.dumps, filter(None, map(self.value, source.records(split))))
                if self.suffix == "json":
                    file.write(b"[\n" + next(values, b""))
                    file.writelines(b",\n" + value for value in values)
                    file.write(b"\n]\n")
                else:
                    file.writelines(value + b"\n" for value in values)
                empty &= file.tell() <= len("[\n\n]\n")
        if empty:
            note(f"note: no record has what {self.name} holds; its files are empty")


def _format(suffix: str) -> Callable[[Callable[[Record], Line | None]], type[_Values]]:
    """Decorator for a function from a record to a value: makes an export format with its name and docstring."""

    def made(value: Callable[[Record], Line | None]) -> type[_Values]:
        name = value.__name__.replace("_", "-")
        members = {"name": name, "suffix": suffix, "value": staticmethod(value), "__doc__": value.__doc__}
        return type(name, (_Values,), members)

    return made


@_format("jsonl")
def messages(record: Record) -> Line:
    """SPLIT.jsonl with `{"messages": [{"role": "user", …}, {"role": "assistant", …}], "id": …}`.

    Chat messages, as OpenAI, TRL, Axolotl and vLLM take them.
    """
    user = {"role": "user", "content": _asked(record)}
    return {"messages": [user, {"role": "assistant", "content": _answered(record)}], "id": record["id"]}


@_format("jsonl")
def alpaca(record: Record) -> Line:
    """SPLIT.jsonl with `{"instruction": question, "input": sequence or "", "output": answer, "id": …}`.

    The columns of the Alpaca dataset, which most trainers read.
    """
    question = with_choices(record["question"], choices_of(record))
    members = {"instruction": question, "input": record.get("sequence") or "", "output": _answered(record)}
    return {**members, "id": record["id"]}


@_format("jsonl")
def sharegpt(record: Record) -> Line:
    """SPLIT.jsonl with `{"conversations": [{"from": "human", …}, {"from": "gpt", …}], "id": …}`.

    As LLaMA-Factory, FastChat and Axolotl read it.
    """
    human = {"from": "human", "value": _asked(record)}
    return {"id": record["id"], "conversations": [human, {"from": "gpt", "value": _answered(record)}]}


@_format("jsonl")
def text_to_query(record: Record) -> Line | None:
    """SPLIT.jsonl with id, question, query (SPARQL), cypher and answers, of the records that have a query."""
    if not record.get("query"):
        return None
    answers = record["answers"] if "answers" in record else [record["asked"]]
    return {**_members(record, "id", "question", "query"), "cypher": record.get("cypher"), "answers": answers}


@_format("json")
def standard(record: Record) -> Line:
    """SPLIT.json: id, question, answer, type, and metadata (difficulty, quality_score, graph_nodes_used)."""
    more = {"difficulty": record.get("difficulty"), **_quality(record)}
    more["graph_nodes_used"] = record.get("graph_nodes_used")
    kind = record.get("reasoning_type") or record["kind"]
    return {**_members(record, "id", "question", "answer"), "type": kind, "metadata": more}


@_format("json")
def choices(record: Record) -> Line | None:
    """SPLIT.json of the records with options: question, choices, letter of the answer, type, quality."""
    if not (options := choices_of(record)):
        return None
    answer = {"answer": right_letter(record), "reasoning_type": record.get("reasoning_type")}
    return {**_members(record, "id", "question"), "choices": options, **answer, **_quality(record)}


@_format("json")
def chain_of_thought(record: Record) -> Line | None:
    """SPLIT.json of the records with steps: question, an answer with its reasoning, and the steps."""
    steps = record.get("steps")
    if not steps:
        return None
    lines = [
        f"Step {number}: {step['entity']} {step['relation'].replace('_', ' ')} {step['target']}."
        for number, step in enumerate(steps, start=1)
    ]
    answer = "\n".join([*lines, f"Therefore: {record['answer']}"])
    return {**_members(record, "id", "question"), "answer": answer, "steps": steps}


def _members(record: Record, *names: str) -> Line:
    return {name: record[name] for name in names}


def _quality(record: Record) -> Line:
    return {QUALITY: (record.get("features") or {}).get(QUALITY)}


# A cell with such a first character would be a formula in a spreadsheet program; a leading apostrophe, which
# such programs hide, prevents that.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class CsvTable:
    """SPLIT.csv (UTF-8, RFC 4180) with every column of the records."""

    name = "csv"

    def write(self, source: ExportSource, folder: Path) -> None:
        titles = list(islice(source.records(), 1))  # iterating over a record gives its keys: the header row
        for split in source.splits:
            rows = (map(_cell, record.values()) for record in source.records(split))
            _write_table(folder / f"{split}.csv", chain(titles, rows), ",")


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return orjson.dumps(value).decode() if isinstance(value, dict | list) else value


def _write_table(path: Path, rows: Iterable[Iterable[Any]], delimiter: str = "\t") -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(csv_lines(rows, delimiter))


class Triples:
    """Tab-separated tables, readable as a graph source: SPLIT.tsv (head, relation, tail by node id, pairs);
    nodes.tsv (id, name, type).

    Raises InputError for records without nodes and edges.
    """

    name = "triples"

    def write(self, source: ExportSource, folder: Path) -> None:
        nodes: dict[str, tuple[str, str]] = {}
        for split in source.splits:
            counts = Counter[tuple[str, str, str]]()
            for record in source.records(split):
                if record.get("nodes") is None or record.get("edges") is None:
                    raise InputError(f"{record['id']} has no nodes and edges", "use another format")
                ids = [node["id"] for node in record["nodes"]]
                nodes |= {node["id"]: (node["name"], node["type"]) for node in record["nodes"]}
                edges = zip(record["edges"], record["edge_labels"], strict=True)
                counts.update({(ids[head], label, ids[tail]) for (head, tail), label in edges})
            rows = ((*triple, number) for triple, number in sorted(counts.items()))
            _write_table(folder / f"{split}.tsv", [("head", "relation", "tail", "pairs"), *rows])
        named = ((id, *attributes) for id, attributes in sorted(nodes.items()))
        _write_table(folder / "nodes.tsv", [("id", "name", "type"), *named])


class _Harness(_Values):
    """SPLIT.jsonl with question, answer and id, and the files that `templates` describe."""

    templates: ClassVar[dict[str, str]]

    def value(self, record: Record) -> Line:
        """The members of a record that evaluation harnesses read.

        For a multiple-choice record the question includes the options, and two members are added: `choices`
        (letters) and `gold`, the position of the right option, from 0.
        """
        line = _members(record, "id", "question", "answer")
        if not (choices := choices_of(record)):
            return line
        letters = list(choices)
        line["question"] = with_choices(line["question"], choices)
        return {**line, "choices": letters, "gold": letters.index(right_letter(record))}

    def write(self, source: ExportSource, folder: Path) -> None:
        super().write(source, folder)
        # Templates of Python and YAML files, which get no untrusted text.
        jinja = templates("kgqa_hpc.dataset.exports")
        test = "test" if "test" in source.splits else source.splits[0]
        values = {
            "run": source.digest[:16],
            "splits": source.splits,
            "test": test,
            # The split for few-shot examples.
            "train": TRAIN if TRAIN in source.splits and test != TRAIN else None,
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
