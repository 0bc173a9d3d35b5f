"""Every form holds every accepted pair, in the members its readers look for."""

import csv
import errno
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from kgqa_hpc.dataset.exports import EXPORTS
from kgqa_hpc.dataset.publish import export, publish
from kgqa_hpc.errors import ConfigError, DiskFull, InputError
from tests.dataset.conftest import records_of, seal
from tests.runs import SyntheticRun, synthetic

SPLIT = {"split": {"by": "id", "shares": {"train": 0.5, "test": 0.5}}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    """Read by the tests, changed by none."""
    return merged(tmp_path_factory.mktemp("formats"))


def merged(folder: Path) -> SyntheticRun:
    made = synthetic(folder, dataset=SPLIT)
    made.merge()
    return made


def accepted(run: Any) -> dict[str, dict[str, Any]]:
    return {record["id"]: record for record in records_of(run.folder.dataset)}


# Question and answer of a line, by format.
PAIRS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "messages": lambda one: [turn["content"] for turn in one["messages"]],
    "alpaca": lambda one: [one["instruction"], one["output"]],
    "sharegpt": lambda one: [turn["value"] for turn in one["conversations"]],
    "lm-eval": lambda one: [one["question"], one["answer"]],
    "lighteval": lambda one: [one["question"], one["answer"]],
}


@pytest.mark.parametrize("name", PAIRS)
def test_every_accepted_pair_is_in_the_file_of_its_part(run: Any, tmp_path: Path, name: str) -> None:
    export(run.folder, name, tmp_path / "out")
    records, found = accepted(run), set()
    for part in ("train", "test"):
        for one in records_of(tmp_path / "out", part):
            record = records[one["id"]]
            assert PAIRS[name](one) == [record["question"], record["answer"]]
            assert record["split"] == part
            found.add(one["id"])
    assert found == set(records)


@pytest.mark.parametrize("name", ["choices", "chain-of-thought", "text-to-query"])
def test_an_export_says_that_no_record_has_its_form(
    run: Any, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    export(run.folder, "alpaca", tmp_path / "pairs")
    assert "no record" not in capsys.readouterr().err
    export(run.folder, name, tmp_path / "out")
    assert f"no record has what {name} holds; its files are empty" in capsys.readouterr().err


def test_a_table_has_every_column_and_no_cell_is_a_formula(tmp_path: Path) -> None:
    run = merged(tmp_path)
    path = run.folder.dataset / "accepted.jsonl"
    text = path.read_text(encoding="utf-8").replace("What links", "=1+1", 1)
    text = text.replace("What links", r"What\rlinks", 1)
    path.write_text(text, encoding="utf-8")
    seal(run.folder.dataset)
    export(run.folder, "csv", tmp_path / "out")
    rows = []
    for part in ("train", "test"):
        with (tmp_path / "out" / f"{part}.csv").open(encoding="utf-8", newline="") as file:
            rows += list(csv.DictReader(file))
    records = accepted(run)
    assert {row["id"] for row in rows} == set(records)
    assert set(rows[0]) == set(next(iter(records.values())))
    assert [row["question"][:5] for row in rows if "1+1" in row["question"]] == ["'=1+1"]
    assert sum(row["question"].startswith("What\rlinks") for row in rows) == 1  # a CR ends no row
    assert json.loads(rows[0]["nodes"]) == records[rows[0]["id"]]["nodes"]


def test_a_table_without_records_has_its_columns_as_pandas_needs(tmp_path: Path) -> None:
    export(merged(tmp_path).folder, "csv", tmp_path / "out", "split = 'train'")
    train, test = ((tmp_path / "out" / f"{part}.csv").read_text("utf-8") for part in ("train", "test"))
    assert test == train.splitlines(keepends=True)[0]


def test_options_stand_in_the_question_and_the_letter_before_the_answer(tmp_path: Path) -> None:
    run = merged(tmp_path)
    path = run.folder.dataset / "accepted.jsonl"
    records = records_of(run.folder.dataset)
    for number, record in enumerate(records):
        if number % 2:
            record |= {"choices": {"A": "No.", "B": record["answer"]}, "answer_letter": "B"}
        else:
            record |= {"options": [record["answer"], "No.", "Never."], "correct_option": 0}
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    seal(run.folder.dataset)
    asked = {
        record["id"]: f"{record['question']}\nA. No.\nB. {record['answer']}"
        if "choices" in record
        else f"{record['question']}\nA. {record['answer']}\nB. No.\nC. Never."
        for record in records
    }
    said = {r["id"]: f"{'B' if 'choices' in r else 'A'}. {r['answer']}" for r in records}
    for name, pair in PAIRS.items():
        export(run.folder, name, tmp_path / name)
        lines = records_of(tmp_path / name, "train", "test")
        assert {line["id"] for line in lines} == set(asked)
        for line in lines:
            question, answer = asked[line["id"]], said[line["id"]]
            if name in ("lm-eval", "lighteval"):
                assert (line["question"], line["choices"][line["gold"]]) == (question, answer[0])
            else:
                assert pair(line) == [question, answer]
    export(run.folder, "choices", tmp_path / "choices")
    parts = [json.loads((tmp_path / f"choices/{part}.json").read_text()) for part in ("train", "test")]
    chosen = {line["id"]: (line["choices"], line["answer"]) for part in parts for line in part}
    options = {r["id"]: r.get("choices") or dict(zip("ABC", r["options"], strict=True)) for r in records}
    assert chosen == {id: (options[id], letter[0]) for id, letter in said.items()}
    task = yaml.safe_load((tmp_path / "lm-eval/kgqa.yaml").read_text().replace("!function ", ""))
    assert (task["output_type"], task["doc_to_target"]) == ("multiple_choice", "gold")
    code = (tmp_path / "lighteval/kgqa_task.py").read_text()
    compile(code, "kgqa_task.py", "exec")
    assert 'gold_index=line["gold"]' in code


def test_triples_are_the_distinct_edges_of_the_accepted_pairs(run: Any, tmp_path: Path) -> None:
    export(run.folder, "triples", tmp_path / "out")
    expected = {
        (record["nodes"][i]["id"], label, record["nodes"][j]["id"])
        for record in accepted(run).values()
        for (i, j), label in zip(record["edges"], record["edge_labels"], strict=True)
    }
    found = set()
    for part in ("train", "test"):
        with (tmp_path / "out" / f"{part}.tsv").open(encoding="utf-8") as file:
            rows = list(csv.reader(file, delimiter="\t"))
        assert rows[0] == ["head", "relation", "tail", "pairs"]
        found |= {tuple(row[:3]) for row in rows[1:]}
    assert found == expected
    assert (tmp_path / "out" / "nodes.tsv").read_text(encoding="utf-8").startswith("id\tname\ttype\n")


def test_triples_of_records_without_nodes_are_refused_by_the_records_id(tmp_path: Path) -> None:
    run = merged(tmp_path)
    path = run.folder.dataset / "accepted.jsonl"
    records = [record | {"nodes": None, "edges": None} for record in records_of(run.folder.dataset)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    seal(run.folder.dataset)
    with pytest.raises(InputError, match=r"has no nodes and edges\n.*use another format"):
        export(run.folder, "triples", tmp_path / "out")


def test_the_published_form_knows_parts_too(run: Any, tmp_path: Path) -> None:
    export(run.folder, "biographletqa", tmp_path / "out")
    both = records_of(tmp_path / "out", "train", "test")
    assert sorted(run.ids[one["id"]] for one in both) == sorted(accepted(run))


def test_the_task_for_lm_eval_loads_its_data_from_wherever_it_lies(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    export(run.folder, "lm-eval", tmp_path / "out")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import kgqa_data; print(len(kgqa_data.load()['test']))"
    )
    done = run_by(sys.executable, tmp_path, "-c", code, str(tmp_path / "out"))
    assert int(done.stdout) == len(records_of(tmp_path / "out", "test"))


def evaluator(name: str, pins: str = "") -> str:
    """A Python that has an evaluation program; they pin much, so each may have an environment of its own."""
    variable = f"KGQA_{name.upper()}_PYTHON"
    python = os.environ.get(variable) or (sys.executable if importlib.util.find_spec(name) else None)
    how = f"python -m venv V && V/bin/pip install {name.replace('_', '-')}{pins} and {variable}=V/bin/python"
    return python or pytest.skip(f"{name.upper()} IS NOT INSTALLED: {how}")


def run_by(python: str, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
    done = subprocess.run(
        [python, *command], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def test_the_harness_runs_the_task_with_its_dummy_model(run: Any, tmp_path: Path) -> None:
    python = evaluator("lm_eval")
    export(run.folder, "lm-eval", tmp_path / "out")
    task = ["--tasks", "kgqa", "--limit", "3", "--include_path", str(tmp_path / "out")]
    done = run_by(python, tmp_path, "-m", "lm_eval", "--model", "dummy", *task)
    assert "exact_match" in done.stdout


def test_lighteval_scores_a_model_that_knows_every_second_answer(run: Any, tmp_path: Path) -> None:
    python = evaluator("lighteval", " 'xxhash<4'")
    export(run.folder, "lighteval", tmp_path / "out")
    script = Path(__file__).with_name("lighteval_scripted.py")
    run_by(python, tmp_path, str(script), str(tmp_path / "out" / "kgqa_task.py"), "scores.json")
    scores = json.loads((tmp_path / "scores.json").read_text())["kgqa:0"]
    number = len(records_of(tmp_path / "out", "test"))
    assert scores["em"] == pytest.approx((number + 1) // 2 / number)
    assert scores["rougeL"] >= scores["em"]


def test_unknown_forms_and_runs_without_dataset_are_refused(run: Any, make_run: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean alpaca"):
        export(run.folder, "alpaka", tmp_path / "out")
    with pytest.raises(InputError, match="no dataset yet"):
        export(make_run().folder, "csv", tmp_path / "out")


def test_a_disk_that_becomes_full_is_not_called_a_mistake_of_the_format(
    run: SyntheticRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # of a write: it names no file
    monkeypatch.setattr(EXPORTS.get("messages"), "value", Mock(side_effect=full))
    for write in (export, lambda folder, format, out: publish(folder, out, [format])):
        with pytest.raises(DiskFull, match="out: No space left on device"):
            write(run.folder, "messages", tmp_path / "out")
        assert not list(tmp_path.iterdir())
