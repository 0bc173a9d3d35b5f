"""kgqa study: the same anchors with every variant, as one ordinary run, compared as published."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from scipy.stats import mannwhitneyu, wilcoxon

from kgqa_hpc.config import load_config, parse_config
from kgqa_hpc.dataset.explain import explain
from kgqa_hpc.engines.engine import Response
from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.plugins.evaluation import studies
from kgqa_hpc.plugins.evaluation.study import Variant, read_study, write_study
from kgqa_hpc.runs import open_run
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.runs.sampling import extend
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Retry
from kgqa_hpc.trials import preview
from tests.command import kgqa
from tests.prompts.test_published import ANCHOR

VARIANTS = ["p1_1", "p2_1", "p5"]
SCORES = [
    {"use": "score", "as": "leak", "prompt": "study_answer_in_question", "unreadable": 0, "inverted": True},
    {"use": "score", "as": "sound", "prompt": "study_question_accurate", "unreadable": 0},
]


def write_config(folder: Path, number: int = 6, **more: object) -> Path:
    names = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    with (folder / "records.jsonl").open("w") as file:
        for n in range(number):
            nodes = [{"id": f"n{n}{i}", "name": f"Node {names[n % 26]}{i}", "type": "Gene"} for i in range(3)]
            edges = {"edges": [[0, 1], [1, 2]], "edge_labels": ["binds", "binds"]}
            file.write(json.dumps({"id": f"r{n}", "group": "all", "nodes": nodes, **edges}) + "\n")
    document = {
        "anchors": {"kind": "records", "from": "records.jsonl"},
        "engine": {"kind": "scripted", "accept": 0.5, "faults": {"garbage": 0.15}},
        "variants": {"prompt": VARIANTS},
        "passes": [{"name": "main", "steps": ["generate", *SCORES]}],
        "runtime": {"shard_size": 8, "attempts": 1},
        **more,
    }
    path = folder / "study.yaml"
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not None}))
    return path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("study")
    return folder / "run", studies.study(write_config(folder, 20), folder / "run")


def test_every_anchor_is_done_once_with_every_variant_and_the_counts_add_up(done: tuple[Path, dict]) -> None:
    run, document = done
    assert [row["variant"] for row in document["variants"]] == VARIANTS
    assert document["anchors"] == 20
    for row in document["variants"]:
        assert sum(row["histogram"].values()) == 20
        assert set(row["histogram"]) <= {"0", "1", "2"}
    accounting = json.loads((run / "dataset" / "accounting.json").read_text())
    assert accounting["sampled"] == 60


def test_the_cost_of_1000_items_is_that_of_their_tokens_at_the_price_given(
    done: tuple[Path, dict], tmp_path: Path
) -> None:
    run, document = done
    copy = shutil.copytree(run, tmp_path / "run")
    shown = kgqa("study", run.parent / "study.yaml", copy, "--price", "2", "10", "--json").stdout
    for row, priced in zip(document["variants"], json.loads(shown)["variants"], strict=True):
        tokens = 1000 * row["prompt_tokens"], 1000 * row["completion_tokens"]
        assert priced["cost_of_1000"] == pytest.approx(tokens[0] * 2 / 1e6 + tokens[1] * 10 / 1e6)
        assert priced["cost_of_1000"] > 0


def test_an_item_is_asked_with_the_prompt_of_its_own_variant(done: tuple[Path, dict]) -> None:
    run, _ = done
    for variant in VARIANTS:
        story = explain(run, f"r3~{variant}")
        assert story["requests"][0]["prompt"]["name"] == variant
        assert story["requests"][0]["messages"]


def test_unreadable_pairs_score_nothing_and_unreadable_verdicts_reject_nothing(
    done: tuple[Path, dict],
) -> None:
    run, document = done
    opened, config = open_run(run)
    variants = read_study(opened, config)
    lost = sum(row["unreadable_pairs"] for row in document["variants"])
    assert lost > 0
    assert sum(row["unreadable_verdicts"] for row in document["variants"]) > 0
    assert sum(score == 0 for each in variants.values() for score in each.scores.values()) >= lost
    assert json.loads((run / "dataset" / "accounting.json").read_text())["rejected"] == {}


def test_table_figures_and_recommendation_stand_in_the_run(done: tuple[Path, dict]) -> None:
    run, document = done
    text = (run / "study" / "study.md").read_text()
    assert document["recommendation"] in text
    assert json.loads((run / "study" / "study.json").read_text()) == json.loads(json.dumps(document))
    assert (run / "study" / "boxplot.svg").exists()


def test_tests_are_those_of_scipy_on_the_scores(done: tuple[Path, dict]) -> None:
    run, document = done
    scores = {name: list(each.scores.values()) for name, each in read_study(*open_run(run)).items()}
    for one in document["comparisons"]:
        best, other = scores[one["best"]], scores[one["other"]]
        found = mannwhitneyu(best, other, alternative="two-sided", method="asymptotic")
        assert (one["u"], one["p"]) == pytest.approx((found.statistic, found.pvalue))
        paired = wilcoxon(best, other, zero_method="pratt", method="asymptotic").pvalue
        assert one["p_paired"] == pytest.approx(paired)


def test_a_study_extended_to_more_anchors_says_what_one_over_all_of_them_says(tmp_path: Path) -> None:
    few, many = ({"kind": "records", "from": "records.jsonl", "number": number} for number in (6, 10))
    run = tmp_path / "grown"
    studies.study(write_config(tmp_path, 12, anchors=few), run)
    before = {path: path.read_bytes() for path in run.glob("results/*/*.h5")}
    assert extend(run, 10).anchors == 30
    grown = studies.study(run / "config.yaml", run)
    assert grown == studies.study(write_config(tmp_path, 12, anchors=many), tmp_path / "whole")
    assert {path: path.read_bytes() for path in before} == before


def test_a_study_whose_variants_draw_their_own_anchors_is_not_extended(tmp_path: Path) -> None:
    variants = {"anchors.number": [2, 3]}
    config = write_config(
        tmp_path, 6, anchors={"kind": "records", "from": "records.jsonl"}, variants=variants
    )
    studies.study(config, tmp_path / "run")
    with pytest.raises(InputError, match="draw anchors of their own"):
        extend(tmp_path / "run", 6)


def test_planted_scores_give_the_planted_order(
    done: tuple[Path, dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = done
    opened, config = open_run(run)
    worse, same = [0.0, 1.0] * 40, [2.0, 1.0] * 40
    planted = {"p1_1": worse, "p2_1": same, "p5": same[::-1]}
    made = {n: Variant(scores={f"a{i:02}": v for i, v in enumerate(s)}) for n, s in planted.items()}
    monkeypatch.setattr("kgqa_hpc.plugins.evaluation.study.read_study", lambda *_: made)
    document = write_study(opened, config)
    best, noise, worst = "p2_1", document["comparisons"][0], document["comparisons"][1]
    assert (noise["best"], noise["other"], worst["other"]) == (best, "p5", "p1_1")
    assert noise["p_paired_holm"] == 1
    assert worst["p_paired_holm"] < 1e-6
    assert "noise" in document["recommendation"]


@pytest.mark.parametrize(
    ("variants", "word"),
    [
        ({"prompt": ["p1_1"]}, "two values"),
        ({"prompt": ["p1_1", "p1_1"]}, "different"),
        ({"prompt": ["p1_1", "a~b"]}, "letters"),
        ({"colour": ["a", "b"]}, "no step"),
        ({"nobody.prompt": ["a", "b"]}, "no step"),
        ({"sound.minimum": ["high", "low"]}, "variants"),
        ({"prompt": ["p1_1", "p5"], "sound.minimum": [1, 2]}, "one setting"),
    ],
)
def test_variants_that_cannot_be_are_refused(variants: dict, word: str) -> None:
    steps = [{"name": "main", "steps": ["generate", *SCORES]}]
    with pytest.raises(ConfigError, match=word):
        parse_config({"engine": {"kind": "scripted"}, "passes": steps, "variants": variants}, "study.yaml")


def test_a_configuration_without_variants_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="variants"):
        studies.study(write_config(tmp_path, variants=None), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unreadable_score_counts_as_it_is_told_or_loses_the_item() -> None:
    plain = {"use": "score", "as": "plain", "prompt": "study_answers_question"}
    config = parse_config(
        {"engine": {"kind": "scripted"}, "passes": [{"name": "main", "steps": ["generate", *SCORES, plain]}]},
        "t",
    )
    _, leak, sound, plain_step = build_chain(config, "main")
    item = Item(ANCHOR, output={"question": "Which?", "answer": "That."})
    assert isinstance(sound.take(item, Response("r", "nonsense", "stop"), 0), Done)
    assert isinstance(
        leak.take(item, Response("r", '{"justification": "no", "score": false}', "stop"), 0), Done
    )
    assert item.features == {"sound": 0.0, "leak": 1.0}
    assert isinstance(plain_step.take(item, Response("r", "nonsense", "stop"), 0), Retry)
    assert isinstance(sound.take(item, Response("r", "", "error", error="down"), 0), Retry)


def test_a_preview_shows_items_through_all_steps_and_what_many_would_take(tmp_path: Path) -> None:
    config = write_config(tmp_path, variants=None, engine={"kind": "scripted"})
    document = preview.preview(load_config(config), 3)
    assert len(document["items"]) == 3
    for item in document["items"]:
        assert item["status"] == "accepted"
        assert [request["id"] for request in item["requests"]] == ["generate/0", "leak/0", "sound/0"]
        assert item["output"]["question"]
    assert document["forecast"]["items"] == 100_000
    tokens = sum(item["tokens"]["prompt"] for item in document["items"])
    assert document["forecast"]["prompt_tokens"] == round(100_000 * tokens / 3)
    assert "100,000 would take" in preview.render(document)
