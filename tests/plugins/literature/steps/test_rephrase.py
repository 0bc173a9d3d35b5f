"""Pairs in the shape of benchmarks: the label is right whatever place the right option got."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kgqa_hpc import stages
from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import parse_config
from kgqa_hpc.dataset.exports.source import export
from kgqa_hpc.engines.engine import EngineInfo, Response
from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.plugins.literature.steps.benchmark import Examples
from kgqa_hpc.plugins.literature.steps.rephrase import options_trouble
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Reject, Retry, Step
from kgqa_hpc.store.run_folder import RunFolder

StopAnswer = Callable[[str], Response]
FORMATS = Path(__file__).parents[5] / "shared" / "data" / "formats"
WRONG = ["Ferritin", "Albumin", "Transferrin", "Hepcidin"]
REASONS = ["It carries copper.", "It stores iron.", "It binds much.", "It carries iron.", "It stops iron."]


def chain_of(use: str, seed: int = 42, **settings: Any) -> list[Step]:
    data = {
        "seed": seed,
        "anchors": {"kind": "records", "from": "pairs.jsonl"},
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": [{"use": use, **settings}]}],
        "dataset": {"decontaminate": []},
    }
    return build_chain(parse_config(data, "the test"), "main", EngineInfo("scripted", "1", "scripted-1"))


def pair(name: str = "r1") -> Item:
    item = Item(Anchor(name, "records", "all", data={"record": {"id": name}}))
    item.output = {"question": "What carries copper?", "answer": "ATP7B does."}
    return item


def medqa(correct: str = "ATP7B", wrong: list[str] | None = None) -> str:
    fields = {"analysis": "So.", "question": "A man of forty has brown rings. What is impaired?"}
    options = {"correct": correct, "wrong": WRONG if wrong is None else wrong}
    return json.dumps({**fields, **options, "reasoning": REASONS})


def test_the_place_of_the_right_option_is_drawn_evenly_and_by_the_seed(stop: StopAnswer) -> None:
    (step,), (other,) = chain_of("rephrase_medqa"), chain_of("rephrase_medqa", seed=43)
    places, moved = Counter[int](), 0
    for number in range(1000):
        items = pair(f"r{number}"), pair(f"r{number}")
        for one, item in zip((step, other), items, strict=True):
            assert isinstance(one.take(item, stop(medqa()), 0), Done)
            assert item.output["options"][item.output["correct_option"]] == "ATP7B"
        places[items[0].output["correct_option"]] += 1
        moved += items[0].output["options"] != items[1].output["options"]
    assert sorted(places) == [0, 1, 2, 3, 4]
    assert (
        sum((count - 200) ** 2 / 200 for count in places.values()) < 18.5
    )  # chi-squared, 4 degrees, p 0.001
    assert moved > 900


def test_the_source_pair_stays_beside_the_new_question(stop: StopAnswer) -> None:
    (step,) = chain_of("rephrase_medqa")
    item = pair()
    step.take(item, stop(medqa()), 0)
    assert (item.output["source_question"], item.output["source_answer"]) == (
        "What carries copper?",
        "ATP7B does.",
    )
    assert item.output["answer"] == "ATP7B"


def test_the_reasoning_takes_each_option_in_its_final_order(stop: StopAnswer) -> None:
    (step,) = chain_of("rephrase_medqa")
    reason_of = dict(zip(["ATP7B", *WRONG], REASONS, strict=True))
    for number in range(20):
        item = pair(f"r{number}")
        step.take(item, stop(medqa()), 0)
        options = item.output["options"]
        lines = [
            f"{letter}. {option}: {reason_of[option]}"
            for letter, option in zip("ABCDE", options, strict=True)
        ]
        assert item.output["reasoning"].split("\n") == lines


def test_a_prompt_may_still_ask_for_the_reasoning_in_a_single_text(stop: StopAnswer) -> None:
    (step,) = chain_of("rephrase_medqa", prompt="demo_rephrase_medqa")
    item = pair()
    answer = {"question": "A man of forty has brown rings. What is impaired?", "reasoning": "So."}
    step.take(item, stop(json.dumps({**answer, "correct": "ATP7B", "wrong": WRONG})), 0)
    assert item.output["reasoning"] == "So."


@pytest.mark.parametrize(
    ("wrong", "trouble"),
    [
        (["ferritin", "Ferritin.", "Albumin", "Hepcidin"], "options alike"),
        (["the ATP7B", "Ferritin", "Albumin", "Hepcidin"], "options alike"),
        (["All of the above", "Ferritin", "Albumin", "Hepcidin"], "option about options"),
        (["None of these", "Ferritin", "Albumin", "Hepcidin"], "option about options"),
        (["Both A and B", "Ferritin", "Albumin", "Hepcidin"], "option about options"),
        (["...", "Ferritin", "Albumin", "Hepcidin"], "empty option"),
        (["Ferritin"], "number of options"),
    ],
)
def test_options_that_are_none_are_asked_for_again(stop: StopAnswer, wrong: list[str], trouble: str) -> None:
    assert options_trouble("ATP7B", wrong) == trouble
    outcome = chain_of("rephrase_medqa")[0].take(pair(), stop(medqa(wrong=wrong)), 0)
    assert isinstance(outcome, Retry)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"correct": "x" * 300}, "correct"),
        ({"wrong": [*WRONG[:3], "x" * 300]}, "wrong"),
        ({"reasoning": [*REASONS[:4], "x" * 500]}, "reasoning"),
    ],
)
def test_an_option_that_was_cut_off_is_asked_for_again(
    stop: StopAnswer, changed: dict[str, Any], field: str
) -> None:
    """A grammar that keeps lengths ends a text that is too long wherever it is."""
    answer = json.dumps(json.loads(medqa()) | changed)
    outcome = chain_of("rephrase_medqa")[0].take(pair(), stop(answer), 0)
    assert outcome == Retry(f"too_long:{field}", lost_as="invalid")


@pytest.mark.parametrize(
    ("fields", "trouble"),
    [
        ({"question": "Which protein carries copper?"}, "no yes-or-no question"),
        ({"question": "Does ATP7B carry copper at all."}, "no yes-or-no question"),
        ({"long_answer": "x" * 1500}, "too_long:long_answer"),
    ],
)
def test_a_question_that_yes_or_no_cannot_answer_is_asked_for_again(
    stop: StopAnswer, fields: dict[str, Any], trouble: str
) -> None:
    good = {
        "question": "Does ATP7B carry copper?",
        "long_answer": "It does so in the liver.",
        "final_decision": "no",
    }
    (step,) = chain_of("rephrase_pubmedqa")
    assert isinstance(step.take(pair(), stop(json.dumps(good)), 0), Done)
    assert step.take(pair(), stop(json.dumps(good | fields)), 0) == Retry(trouble, lost_as="invalid")


@pytest.mark.skipif(not FORMATS.exists(), reason="NO REAL FILES: shared/data/formats is not there")
def test_no_question_of_the_benchmark_itself_would_be_asked_for_again(stop: StopAnswer) -> None:
    (step,) = chain_of("rephrase_pubmedqa")
    items = json.loads(gzip.decompress((FORMATS / "pubmedqa_ori_pqal.json.gz").read_bytes()))
    assert len(items) == 1000
    for item in items.values():
        fields = {"question": item["QUESTION"], "long_answer": "It does so in the liver."}
        answer = json.dumps(fields | {"final_decision": item["final_decision"]})
        assert isinstance(step.take(pair(), stop(answer), 0), Done), item["QUESTION"]


def test_a_decision_and_its_context_come_from_the_answer_and_the_verified_quotes(stop: StopAnswer) -> None:
    (step,) = chain_of("rephrase_pubmedqa")
    fields = {
        "question": "Does ATP7B carry copper?",
        "long_answer": "It does so in liver cells.",
        "final_decision": "yes",
    }
    with_quotes, without = pair(), pair()
    with_quotes.output["documents"] = [
        {"id": "1", "snippets": [{"text": "It carries copper."}]},
        {"id": "2", "snippets": None},
        {"id": "3", "snippets": [{"text": "Copper leaves."}, {"text": "It carries copper."}]},
    ]
    for item, context in ((with_quotes, "It carries copper. Copper leaves."), (without, "")):
        assert isinstance(step.take(item, stop(json.dumps(fields)), 0), Done)
        assert (item.output["final_decision"], item.output["context"]) == ("yes", context)


@pytest.mark.parametrize(
    ("verdict", "objection"),
    [
        ({"decision_follows": True, "long_answer_follows": True}, None),
        ({"decision_follows": False, "long_answer_follows": True}, "decision does not follow"),
        ({"decision_follows": True, "long_answer_follows": False}, "long answer does not follow"),
    ],
)
def test_the_judge_of_a_decision_sees_the_context_and_not_the_source_pair(
    verdict: dict[str, bool], objection: str | None
) -> None:
    data = {
        "anchors": {"kind": "records", "from": "pairs.jsonl"},
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": ["rephrase_pubmedqa", "judge_decision"]}],
    }
    config = parse_config(data, "the test")
    _, step = build_chain(config, "main", EngineInfo("scripted", "1", "scripted-1"))
    item = pair()
    item.output |= {"final_decision": "maybe", "context": "Copper leaves.", "source_answer": "Kept aside."}
    message = step.request(item, 0, 1).messages[1]["content"]
    assert "Context: Copper leaves." in message
    assert "Decision: maybe" in message
    assert "Kept aside" not in message
    assert type(step).objection(verdict) == objection
    item.output["context"] = ""
    assert not step.asks_about(item)
    assert step.compute(item) == Reject("judge_decision: no context")


def test_examples_of_pubmedqa_show_their_contexts(tmp_path: Path) -> None:
    item = {"QUESTION": "Does iron rise?", "CONTEXTS": ["Iron was measured.", "It rose."]}
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"1": {**item, "LONG_ANSWER": "It does.", "final_decision": "yes"}}))
    (example,) = Examples(path).like("iron", 1)
    assert example == (
        "Context: Iron was measured. It rose. Question: Does iron rise? Long answer: It does. Decision: yes"
    )


def test_examples_are_the_benchmarks_questions_most_like_the_pair(tmp_path: Path) -> None:
    items = [
        {"question": f"What about {thing}?", "options": {"A": "x", "B": "y"}, "answer_idx": "B"}
        for thing in ("iron", "copper in the liver", "copper", "bones")
    ]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    (step,) = chain_of("rephrase_medqa", benchmark=str(path), examples=2)
    message = step.request(pair(), 0, 1).messages[1]["content"]
    assert "Example 1: What about copper? (A) x (B) y\n" in message
    assert "Example 2: What about copper in the liver?" in message
    assert "Example 3" not in message


def test_whoever_takes_examples_of_a_benchmark_names_its_test_file_or_says_that_he_goes_without() -> None:
    step = {"use": "rephrase_medqa", "benchmark": "train.jsonl"}
    data = {
        "anchors": {"kind": "records", "from": "pairs.jsonl"},
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": [step]}],
    }
    with pytest.raises(ConfigError, match="decontaminate: is missing: name the test file of the benchmark"):
        parse_config(data, "the test")
    for files in ([], ["test.jsonl"]):
        parse_config({**data, "dataset": {"decontaminate": files}}, "the test")


def test_a_file_that_is_no_benchmark_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"question": "Q", "options": {"A": "x"}, "answer_idx": "A"}\n{"question": "Q"}\n')
    with pytest.raises(InputError, match="line 2"):
        Examples(path)
    path.write_bytes(gzip.compress(b'{"1": {"QUESTION": "Q?"}}'))
    with pytest.raises(InputError, match="item 1"):
        Examples(path)


@pytest.mark.skipif(not FORMATS.exists(), reason="NO REAL FILES: shared/data/formats is not there")
@pytest.mark.parametrize("name", ["medqa_us_4opt_test_sample_50.jsonl", "pubmedqa_ori_pqal.json.gz"])
def test_the_real_benchmark_files_are_read(name: str) -> None:
    assert len(Examples(FORMATS / name).like("mitochondria in cell death of the liver", 3)) == 3


@pytest.mark.parametrize(
    ("use", "format", "reference"),
    [
        ("rephrase_medqa", "linkbert-medqa", "linkbert_medqa_usmle_hf_sample.json"),
        ("rephrase_pubmedqa", "linkbert-pubmedqa", "linkbert_pubmedqa_hf_sample.json"),
    ],
)
def test_a_run_ends_in_linkberts_own_form(tmp_path: Path, use: str, format: str, reference: str) -> None:
    documents = [{"id": "d1", "snippets": [{"text": "It was measured."}]}]
    pairs = [
        {"id": f"r{n}", "question": f"What is {n}?", "answer": f"It is {n}.", "documents": documents}
        for n in range(60)
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in pairs))
    judges = ["judge_options"] if use == "rephrase_medqa" else ["judge_decision"]
    config = {
        "anchors": {"kind": "records", "from": "pairs.jsonl"},
        "engine": {"kind": "scripted", "accept": 0.7},
        "passes": [{"name": "main", "steps": [use, *judges]}],
        "dataset": {"z_score": None, "split": {"by": "source_id", "shares": {"train": 0.8, "test": 0.2}}},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    stages.all_stages(tmp_path / "run.yaml", tmp_path / "run")
    export(RunFolder.open(tmp_path / "run"), format, tmp_path / "out")
    accounting = json.loads((tmp_path / "run" / "dataset" / "accounting.json").read_text())
    records = [
        json.loads(line) for line in (tmp_path / "run/dataset/accepted.jsonl").read_text().splitlines()
    ]
    lines = [
        json.loads(line)
        for part in ("train", "test")
        for line in (tmp_path / "out" / f"{part}.json").read_text().splitlines()
    ]
    assert len(lines) == len(records) == accounting["accepted"] > 10
    by_question = {record["question"]: record for record in records}
    for line in lines:
        if format == "linkbert-medqa":
            assert list(line) == ["id", "sent1", "sent2", *(f"ending{n}" for n in range(5)), "label"]
            assert line[f"ending{line['label']}"] == by_question[line["sent1"]]["answer"]
        else:
            assert list(line) == ["id", "sentence1", "sentence2", "label"]
            assert line["label"] in ("yes", "no", "maybe")
    if format == "linkbert-medqa":
        assert {line["label"] for line in lines} == {0, 1, 2, 3, 4}
    if FORMATS.exists():
        real = json.loads((FORMATS / reference).read_text().splitlines()[0])
        assert real.keys() <= line.keys()


def test_a_dataset_of_another_shape_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text('{"id": "r1", "question": "What?", "answer": "That."}\n')
    config = {
        "anchors": {"kind": "records", "from": "pairs.jsonl"},
        "engine": {"kind": "scripted", "accept": 1.0},
        "passes": [{"name": "main", "steps": ["judge"]}],
        "dataset": {"z_score": None},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    stages.all_stages(tmp_path / "run.yaml", tmp_path / "run")
    with pytest.raises(InputError, match="r1 has no options"):
        export(RunFolder.open(tmp_path / "run"), "linkbert-medqa", tmp_path / "out")
