"""Reasoning stands before the answer, and the published form has the published names, types and order."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from kgqa_hpc.cli import app
from kgqa_hpc.dataset.exports.items import _ORDINAL
from kgqa_hpc.dataset.merge import PUBLISHED as FILE
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.dataset.publish import export
from kgqa_hpc.errors import InputError
from kgqa_hpc.run import Run
from kgqa_hpc.store.run_folder import RunFolder
from tests.dataset.conftest import records_of
from tests.dataset.exports.test_formats import PAIRS
from tests.golden.cases import config, write_graph
from tests.runs import SyntheticRun, synthetic

FIELDS = ("analysis", "draft_question", "draft_answer", "reflection")


class ThinkingRun(SyntheticRun):
    """A run whose writer's trace has thoughts, as with `keep_thoughts: true`."""

    def records(self, name: str) -> list[dict[str, Any]]:
        records = super().records(name)
        for record in records:
            for entry in record["trace"]:
                entry["thought"] = f"{entry['step']} thinks of {record['id']}"
        return records


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A merged run of the prompt p5, whose answers have fields to think in; in an order of its own."""
    folder = tmp_path_factory.mktemp("reasoning")
    steps = [{"use": "generate", "prompt": "p5"}, {"use": "judge", "prompt": "filter"}]
    file = config(
        folder,
        graph=write_graph(folder),
        anchors={"per_shape": 2, "shapes": [1, 2, 5]},
        passes=[{"name": "main", "steps": steps}],
        dataset={
            "z_score": None,
            "order": "question",
            "split": {"by": "id", "shares": {"train": 0.5, "test": 0.5}},
        },
    )
    Run.from_config(file, folder / "run").all()
    return RunFolder.open(folder / "run")


def written(run: RunFolder, item: str) -> Mapping[str, Any]:
    """The fields that the writer of an item gave, by `kgqa explain`."""
    story = json.loads(CliRunner().invoke(app, ["explain", str(run.path), item, "--json"]).stdout)
    texts = [entry["text"] for entry in story["requests"] if entry["step"] == "generate"]
    return dict(json.loads(texts[-1]))


@pytest.mark.parametrize("name", ["messages", "alpaca", "sharegpt"])
def test_the_fields_of_thinking_stand_before_the_answer_that_they_led_to(
    run: RunFolder, tmp_path: Path, name: str
) -> None:
    command = ["export", str(run.path), "--to", name, "--out", str(tmp_path / "out"), "--with", "reasoning"]
    assert CliRunner().invoke(app, command).exit_code == 0
    exported = records_of(tmp_path / "out", "train", "test")
    records = {record["id"]: record for record in records_of(run.dataset)}
    assert records.keys() == {line["id"] for line in exported}
    for line in exported:
        fields = written(run, line["id"])
        thoughts = "\n\n".join(fields[field].strip() for field in FIELDS if fields.get(field))
        assert thoughts
        assert PAIRS[name](line)[1] == f"<think>\n{thoughts}\n</think>\n\n{records[line['id']]['answer']}"


def test_without_the_option_no_reasoning_is_exported(run: RunFolder, tmp_path: Path) -> None:
    export(run, "messages", tmp_path / "out")
    assert "<think>" not in (tmp_path / "out" / "train.jsonl").read_text(encoding="utf-8")


def test_the_thought_of_the_writer_is_exported_and_not_that_of_a_judge(tmp_path: Path) -> None:
    made = synthetic(tmp_path, name="plain")
    thinking = ThinkingRun(tmp_path / "run", 24, 8, made.config.model_dump(mode="json"))
    thinking.merge()
    export(thinking.folder, "alpaca", tmp_path / "out", reasoning=True)
    exported = records_of(tmp_path / "out", "train")
    assert exported
    for line in exported:
        thought = line["output"].removeprefix("<think>\n").partition("\n</think>\n\n")[0]
        assert thought == f"generate thinks of {line['id']}"


def test_a_form_without_room_for_reasoning_says_which_have_it(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="csv has no room") as caught:
        export(run, "csv", tmp_path / "out", reasoning=True)
    assert caught.value.cure == "one of messages, alpaca, sharegpt"
    assert not (tmp_path / "out").exists()


PUBLISHED = """
id nodes edges graphlet_id edge_labels node_names graphlet_text num_nodes graphlet_index text question
answer json_parsed filtering_text
"""
REAL = Path(__file__).parents[3] / "../shared/data/shapes/bgqa_real_record.json"


def published(run: Any) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (run.folder.dataset / FILE).read_bytes().split(b"\n")[:-1]]


def test_exactly_the_accepted_pairs_are_exported_with_their_raw_answers(merged: Any) -> None:
    run = merged[0]
    for record, pair in zip(published(run), records_of(run.folder.dataset), strict=True):
        assert list(record) == PUBLISHED.split()
        assert (record["question"], record["edges"]) == (pair["question"], pair["edges"])
        assert json.loads(record["text"])["question"] == record["question"]
        assert json.loads(record["filtering_text"])["valid_question"] is True
        # The place in the sample, and the ordinal of the shape within its size:
        # 3 nodes: shapes 1, 2; 4 nodes: 4, 3, 6, 5, 7, 8
        assert pair["id"] == run.ids[record["id"]]
        assert record["graphlet_index"] == {1: 0, 2: 1, 3: 1}[record["graphlet_id"]]


@pytest.mark.skipif(not REAL.exists(), reason="the published record is not at hand")
def test_names_types_and_index_equal_a_real_published_record(merged: Any) -> None:
    real = json.loads(REAL.read_text(encoding="utf-8"))
    ours = published(merged[0])[0]
    assert list(ours) == list(real)
    assert [type(value) for value in ours.values()] == [type(value) for value in real.values()]
    for name in ("nodes", "edges", "edge_labels", "node_names", "graphlet_text"):
        assert type(ours[name][0]) is type(real[name][0])
    for record in (real, ours):
        texts = [f" - {i}: {name} \n" for i, name in enumerate(record["node_names"])]
        assert record["graphlet_text"] == texts
    assert _ORDINAL[real["graphlet_id"]] == real["graphlet_index"]
    assert sorted(_ORDINAL) == list(range(1, 30))


def test_a_dataset_ordered_by_a_column_exports_each_pairs_own_answers(merged: Any, make_merged: Any) -> None:
    plain = {record["question"]: record for record in published(merged[0])}
    records = published(make_merged(published=True, dataset={"order": "answer"})[0])
    assert [one["answer"] for one in records] == sorted(one["answer"] for one in records)
    assert {record["question"]: record for record in records} == plain
    assert [record["id"] for record in records] != sorted(record["id"] for record in records)


def test_once_asked_for_it_follows_every_later_merge_and_not_before(make_merged: Any) -> None:
    run, _ = make_merged(items=8)
    assert not (run.folder.dataset / FILE).exists()
    merge(run.folder, published=True)
    before = published(run)
    merge(run.folder)
    assert published(run) == before
