"""Pairs in the shape of benchmarks: the label is right whatever place the right option got."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.dataset.publish import export
from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.plugins.literature.rephrase import Examples, options_trouble
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Reject, Retry, Step
from kgqa_hpc.store.run_folder import RunFolder
from tests.record_runs import chain_of, config_of, item_of, jsonl, made_run, stop

FORMATS = Path(__file__).parents[5] / "shared" / "data" / "formats"
WRONG = ["Ferritin", "Albumin", "Transferrin", "Hepcidin"]
REASONS = ["It carries copper.", "It stores iron.", "It binds much.", "It carries iron.", "It stops iron."]


def rephrase(form: str, seed: int = 42, **settings: Any) -> Step:
    use = {"use": f"rephrase_{form}", **settings}
    return chain_of(use, seed=seed, dataset={"decontaminate": []})[0]


def pair(name: str = "r1") -> Item:
    return item_of(name, question="What carries copper?", answer="ATP7B does.")


def medqa(**changes: Any) -> str:
    fields = {"analysis": "So.", "question": "A man of forty has brown rings. What is impaired?"}
    options = {"correct": "ATP7B", "wrong": WRONG, "reasoning": REASONS}
    return json.dumps({**fields, **options, **changes})


def pubmedqa(**changes: Any) -> str:
    fields = {"question": "Does ATP7B carry copper?", "long_answer": "It does so in the liver."}
    return json.dumps({**fields, "final_decision": "no", **changes})


def test_the_place_of_the_right_option_is_drawn_evenly_and_by_the_seed() -> None:
    steps = rephrase("medqa"), rephrase("medqa", seed=43)
    places, moved = Counter[int](), 0
    for number in range(1000):
        items = pair(f"r{number}"), pair(f"r{number}")
        for step, item in zip(steps, items, strict=True):
            assert isinstance(step.take(item, stop(medqa()), 0), Done)
            assert item.output["options"][item.output["correct_option"]] == "ATP7B"
        places[items[0].output["correct_option"]] += 1
        moved += items[0].output["options"] != items[1].output["options"]
    assert sorted(places) == [0, 1, 2, 3, 4]
    # chi-squared, 4 degrees, p 0.001
    assert sum((count - 200) ** 2 / 200 for count in places.values()) < 18.5
    assert moved > 900


def test_the_reasoning_takes_each_option_in_its_final_order_beside_the_source_pair() -> None:
    step, reason_of = rephrase("medqa"), dict(zip(["ATP7B", *WRONG], REASONS, strict=True))
    for number in range(20):
        item = pair(f"r{number}")
        step.take(item, stop(medqa()), 0)
        lettered = zip("ABCDE", item.output["options"], strict=True)
        lines = [f"{letter}. {option}: {reason_of[option]}" for letter, option in lettered]
        assert item.output["reasoning"].split("\n") == lines
    source = item.output["source_question"], item.output["source_answer"]
    assert source == ("What carries copper?", "ATP7B does.")
    assert item.output["answer"] == "ATP7B"


def test_a_prompt_may_still_ask_for_the_reasoning_in_a_single_text() -> None:
    item = pair()
    rephrase("medqa", prompt="demo_rephrase_medqa").take(item, stop(medqa(reasoning="So.")), 0)
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
def test_options_that_are_none_are_asked_for_again(wrong: list[str], trouble: str) -> None:
    assert options_trouble("ATP7B", wrong) == trouble
    assert isinstance(rephrase("medqa").take(pair(), stop(medqa(wrong=wrong)), 0), Retry)


@pytest.mark.parametrize(
    ("form", "changes", "trouble"),
    [
        # A grammar that keeps lengths ends a text that is too long wherever it is.
        ("medqa", {"correct": "x" * 300}, "too_long:correct"),
        ("medqa", {"wrong": [*WRONG[:3], "x" * 300]}, "too_long:wrong"),
        ("medqa", {"reasoning": [*REASONS[:4], "x" * 500]}, "too_long:reasoning"),
        ("pubmedqa", {"long_answer": "x" * 1500}, "too_long:long_answer"),
        ("pubmedqa", {"question": "Which protein carries copper?"}, "no yes-or-no question"),
        ("pubmedqa", {"question": "Does ATP7B carry copper at all."}, "no yes-or-no question"),
    ],
)
def test_what_was_cut_off_or_yes_or_no_cannot_answer_is_asked_for_again(
    form: str, changes: dict[str, Any], trouble: str
) -> None:
    answer = {"medqa": medqa, "pubmedqa": pubmedqa}[form]
    assert isinstance(rephrase(form).take(pair(), stop(answer()), 0), Done)
    assert rephrase(form).take(pair(), stop(answer(**changes)), 0) == Retry(trouble, lost_as="invalid")


@pytest.mark.skipif(not FORMATS.exists(), reason="NO REAL FILES: shared/data/formats is not there")
def test_no_question_of_the_benchmark_itself_would_be_asked_for_again() -> None:
    step = rephrase("pubmedqa")
    items = json.loads(gzip.decompress((FORMATS / "pubmedqa_ori_pqal.json.gz").read_bytes()))
    assert len(items) == 1000
    for item in items.values():
        answer = pubmedqa(question=item["QUESTION"], final_decision=item["final_decision"])
        assert isinstance(step.take(pair(), stop(answer), 0), Done), item["QUESTION"]


def test_a_decision_and_its_context_come_from_the_answer_and_the_verified_quotes() -> None:
    with_quotes, without = pair(), pair()
    with_quotes.output["documents"] = [
        {"id": "1", "snippets": [{"text": "It carries copper."}]},
        {"id": "2", "snippets": None},
        {"id": "3", "snippets": [{"text": "Copper leaves."}, {"text": "It carries copper."}]},
    ]
    for item, context in ((with_quotes, "It carries copper. Copper leaves."), (without, "")):
        answer = stop(pubmedqa(final_decision="yes"))
        assert isinstance(rephrase("pubmedqa").take(item, answer, 0), Done)
        assert (item.output["final_decision"], item.output["context"]) == ("yes", context)


def test_the_judge_of_a_decision_sees_the_context_and_not_the_source_pair() -> None:
    _, step = chain_of("rephrase_pubmedqa", "judge_decision")
    item = pair()
    item.output |= {"final_decision": "maybe", "context": "Copper leaves.", "source_answer": "Kept aside."}
    message = step.request(item, 0).messages[1]["content"]
    assert "Context: Copper leaves." in message
    assert "Decision: maybe" in message
    assert "Kept aside" not in message
    item.output["context"] = ""
    assert not step.asks_about(item)
    assert step.compute(item) == Reject("judge_decision: no context")


def test_examples_of_pubmedqa_show_their_contexts(tmp_path: Path) -> None:
    item: dict[str, Any] = {"QUESTION": "Does iron rise?", "CONTEXTS": ["Iron was measured.", "It rose."]}
    item |= {"LONG_ANSWER": "It does.", "final_decision": "yes"}
    path = jsonl(tmp_path / "train.json", [{"1": item}])
    context = "Context: Iron was measured. It rose."
    shown = f"{context} Question: Does iron rise? Long answer: It does. Decision: yes"
    assert Examples(path).like("iron", 1) == [shown]


def test_examples_are_the_benchmarks_questions_most_like_the_pair(tmp_path: Path) -> None:
    things = ("iron", "copper in the liver", "copper", "bones")
    item = {"options": {"A": "x", "B": "y"}, "answer_idx": "B"}
    path = jsonl(tmp_path / "train.jsonl", [{"question": f"What about {thing}?", **item} for thing in things])
    step = rephrase("medqa", benchmark=str(path), examples=2)
    message = step.request(pair(), 0, 1).messages[1]["content"]
    assert "Example 1: What about copper? (A) x (B) y\n" in message
    assert "Example 2: What about copper in the liver?" in message
    assert "Example 3" not in message


def test_whoever_takes_examples_of_a_benchmark_names_its_test_file_or_says_that_he_goes_without() -> None:
    data = config_of({"use": "rephrase_medqa", "benchmark": "train.jsonl"})
    with pytest.raises(ConfigError, match="decontaminate: is missing: name the test file of the benchmark"):
        parse_config(data, "the test")
    for files in ([], ["test.jsonl"]):
        parse_config({**data, "dataset": {"decontaminate": files}}, "the test")


@pytest.mark.parametrize(
    ("content", "item"),
    [
        (b'{"question": "Q", "options": {"A": "x"}, "answer_idx": "A"}\n{"question": "Q"}\n', "line 2"),
        (gzip.compress(b'{"1": {"QUESTION": "Q?"}}', mtime=0), "item 1"),
    ],
)
def test_a_file_that_is_no_benchmark_is_told_with_its_item(tmp_path: Path, content: bytes, item: str) -> None:
    (tmp_path / "train.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=item):
        Examples(tmp_path / "train.jsonl")


@pytest.mark.skipif(not FORMATS.exists(), reason="NO REAL FILES: shared/data/formats is not there")
@pytest.mark.parametrize("name", ["medqa_us_4opt_test_sample_50.jsonl", "pubmedqa_ori_pqal.json.gz"])
def test_the_real_benchmark_files_are_read(name: str) -> None:
    assert len(Examples(FORMATS / name).like("mitochondria in cell death of the liver", 3)) == 3


@pytest.mark.parametrize(("form", "judge"), [("medqa", "judge_options"), ("pubmedqa", "judge_decision")])
def test_a_run_ends_in_linkberts_own_form(tmp_path: Path, form: str, judge: str) -> None:
    """What its lines say is held by the tests that read them as LinkBERT does."""
    quoted = {"documents": [{"id": "d1", "snippets": [{"text": "It was measured."}]}]}
    texts = ({"id": f"r{n}", "question": f"What is {n}?", "answer": f"It is {n}."} for n in range(60))
    jsonl(tmp_path / "pairs.jsonl", (pair | quoted for pair in texts))
    engine = {"kind": "scripted", "accept": 0.7}
    split = {"by": "source_id", "shares": {"train": 0.8, "test": 0.2}}
    config = config_of(f"rephrase_{form}", judge, engine=engine, dataset={"z_score": None, "split": split})
    run = made_run(tmp_path, config)
    export(RunFolder.open(run), f"linkbert-{form}", tmp_path / "out")
    files = [run / "dataset" / "accepted.jsonl", *(tmp_path / "out" / f"{n}.json" for n in ("train", "test"))]
    records, *parts = (file.read_text().splitlines() for file in files)
    assert sum(map(len, parts)) == len(records) > 10
