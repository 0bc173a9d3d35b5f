"""kgqa study: the same anchors with every variant, as one ordinary run, compared as published; planted differences of
variants are found, planted noise is called noise, both are drawn."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgqa_hpc.dataset.explain import explain
from kgqa_hpc.engines.engine import Response
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import estimate, mean_of
from kgqa_hpc.plugins.evaluation.study import (
    Comparison,
    compare,
    read_study,
    recommendation,
    study,
    study_figures,
    summarise,
)
from kgqa_hpc.runs import open_run
from kgqa_hpc.runs.sampling import extend
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Retry
from tests.by_path import load
from tests.command import kgqa
from tests.prompts.test_published import ANCHOR
from tests.record_runs import chain_of, config_of, jsonl, stop, written

VARIANTS = ["p1_1", "p2_1", "p5"]
SCORES = [
    {"use": "score", "as": "leak", "prompt": "study_answer_in_question", "unreadable": 0, "inverted": True},
    {"use": "score", "as": "sound", "prompt": "study_question_accurate", "unreadable": 0},
]


def write_config(folder: Path, number: int = 6, **more: object) -> Path:
    edges = {"edges": [[0, 1], [1, 2]], "edge_labels": ["binds", "binds"]}
    nodes = (
        [{"id": f"n{n}{i}", "name": f"Node {n}-{i}", "type": "Gene"} for i in range(3)] for n in range(number)
    )
    rows = ({"id": f"r{n}", "group": "all", "nodes": row, **edges} for n, row in enumerate(nodes))
    jsonl(folder / "records.jsonl", rows)
    sections = {
        "anchors": {"kind": "records", "from": "records.jsonl"},
        "engine": {"kind": "scripted", "accept": 0.5, "faults": {"garbage": 0.15}},
        "variants": {"prompt": VARIANTS},
        "runtime": {"shard_size": 8, "attempts": 1},
        **more,
    }
    document = config_of("generate", *SCORES, **sections)
    return written(
        folder / "study.yaml", {key: value for key, value in document.items() if value is not None}
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("study")
    return folder / "run", study(write_config(folder, 20), folder / "run")


def test_every_anchor_is_done_once_with_every_variant_and_the_run_tells_it(done: tuple[Path, dict]) -> None:
    run, document = done
    assert [row["variant"] for row in document["variants"]] == VARIANTS
    assert document["anchors"] == 20
    for row in document["variants"]:
        assert sum(row["histogram"].values()) == 20
        assert row["histogram"].keys() <= {"0", "1", "2"}
    assert json.loads((run / "dataset" / "accounting.json").read_text())["sampled"] == 60
    assert document["recommendation"] in (run / "study" / "study.md").read_text()
    assert json.loads((run / "study" / "study.json").read_text()) == json.loads(json.dumps(document))
    assert (run / "study" / "boxplot.svg").exists()
    for variant in VARIANTS:  # each item is asked with the prompt of its own variant
        story = explain(run, f"r3~{variant}")
        assert story["requests"][0]["prompt"]["name"] == variant
        assert story["requests"][0]["messages"]


def test_unreadable_pairs_score_nothing_unreadable_verdicts_reject_nothing(done: tuple[Path, dict]) -> None:
    run, document = done
    opened, config = open_run(run)
    rows = read_study(opened, config)
    lost = sum(row["unreadable_pairs"] for row in document["variants"])
    assert lost > 0
    assert sum(row["unreadable_verdicts"] for row in document["variants"]) > 0
    assert (rows["score"] == 0).sum() >= lost
    # Rows of an anchor are pairs, in whatever order shards hold them.
    assert rows["anchor"].is_monotonic_increasing
    assert json.loads((run / "dataset" / "accounting.json").read_text())["rejected"] == {}


def test_a_study_extended_to_more_anchors_says_what_one_over_all_of_them_says(tmp_path: Path) -> None:
    few, many = ({"kind": "records", "from": "records.jsonl", "number": number} for number in (6, 10))
    run = tmp_path / "grown"
    study(write_config(tmp_path, 12, anchors=few), run)
    before = {path: path.read_bytes() for path in run.glob("results/*/*.h5")}
    assert extend(run, 10).anchors == 30
    grown = study(run / "config.yaml", run)
    assert grown == study(write_config(tmp_path, 12, anchors=many), tmp_path / "whole")
    assert {path: path.read_bytes() for path in before} == before


def test_items_that_were_declined_or_rejected_before_scoring_are_told_by_variant(tmp_path: Path) -> None:
    steps = ["generate", {"use": "check", "reject": ["few_nodes"], "nodes": 3}, *SCORES]
    passes = [{"name": "main", "steps": steps}]
    document = study(write_config(tmp_path, 20, passes=passes), tmp_path / "run")
    rejected = {row["variant"]: row["rejected"] for row in document["variants"]}
    counted = json.loads((tmp_path / "run" / "dataset" / "accounting.json").read_text())["rejected"]
    assert sum(rejected.values()) == sum(counted.values()) > 0
    of_each = ", ".join(f"{name} {number}" for name, number in rejected.items() if number)
    text = (tmp_path / "run" / "study" / "study.md").read_text()
    assert f"missing scores count as 0: {of_each}." in text


def test_a_study_whose_variants_draw_their_own_anchors_is_not_extended(tmp_path: Path) -> None:
    study(write_config(tmp_path, 6, variants={"anchors.number": [2, 3]}), tmp_path / "run")
    with pytest.raises(InputError, match="draw anchors of their own"):
        extend(tmp_path / "run", 6)


def test_a_study_of_one_anchor_has_means_without_intervals(tmp_path: Path) -> None:
    document = study(write_config(tmp_path, 1), tmp_path / "run")
    assert [row["low"] for row in document["variants"]] == [None] * 3
    assert (tmp_path / "run" / "study" / "study.md").read_text().count(" | - | 0.00 | ") == 3


ONLY_WRITTEN = [{"name": "main", "steps": ["generate"]}]


@pytest.mark.parametrize(
    ("wrong", "word"), [({"variants": None}, "variants"), ({"passes": ONLY_WRITTEN}, "steps that score")]
)
def test_a_configuration_without_variants_or_scores_is_no_study(
    wrong: dict[str, Any], word: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=word):
        study(write_config(tmp_path, **wrong), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unreadable_score_counts_as_it_is_told_or_loses_the_item() -> None:
    plain = {"use": "score", "as": "plain", "prompt": "study_answers_question"}
    _, leak, sound, plain_step = chain_of("generate", *SCORES, plain)
    item = Item(ANCHOR, output={"question": "Which?", "answer": "That."})
    assert isinstance(sound.take(item, stop("nonsense"), 0), Done)
    assert isinstance(leak.take(item, stop('{"justification": "no", "score": false}'), 0), Done)
    assert item.features == {"sound": 0.0, "leak": 1.0}
    assert isinstance(plain_step.take(item, stop("nonsense"), 0), Retry)
    assert isinstance(sound.take(item, Response("r", "", "error", error="down"), 0), Retry)


MEANS = {"low": 3.4, "middle": 4.2, "same": 5.0, "best": 5.0}
ANCHORS = 150
TOOL = Path(__file__).parents[3] / "tools" / "planted_study.py"  # plants its truth in the scripted engine


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("planted")
    config = load(TOOL).write_config(folder, MEANS, ANCHORS, garbage=0.0)
    shown = kgqa("study", config, folder / "run", "--price", "1", "4", "--json").stdout
    document: dict = json.loads(shown)
    assert json.loads((folder / "run" / "study" / "study.json").read_text())["paired"] is True
    return document


def test_every_planted_mean_lies_in_its_interval_and_the_order_is_the_planted_one(planted: dict) -> None:
    rows = {row["variant"]: row for row in planted["variants"]}
    for name, mean in MEANS.items():
        assert abs(rows[name]["mean"] - mean) < 0.4, (name, rows[name])  # 4 standard errors
    assert rows["low"]["high"] < rows["middle"]["low"] <= rows["middle"]["high"] < rows["best"]["low"]
    assert sorted(rows, key=lambda name: rows[name]["mean"])[:2] == ["low", "middle"]


def test_planted_differences_are_found_and_the_planted_tie_is_called_noise(planted: dict) -> None:
    by_other = {one["other"]: one for one in planted["comparisons"]}
    assert list(by_other)[1:] == ["middle", "low"]
    assert by_other["middle"]["p_holm"] < 1e-3
    assert by_other["low"]["p_paired_holm"] < 1e-6
    assert by_other["middle"]["p_paired_holm"] < 1e-3
    assert by_other["low"]["delta"] > by_other["middle"]["delta"] > 0.2
    tie = next(one for name, one in by_other.items() if name in ("same", "best"))
    assert tie["p_holm"] > 0.05
    assert tie["p_paired_holm"] > 0.05
    assert f"difference from {tie['other']} is noise" in planted["recommendation"]
    assert not {"middle", "\n"} & set(re.findall(r"\w+|\n", planted["recommendation"]))


def test_what_a_prompt_takes_is_told_apart_from_what_scoring_takes_and_priced(planted: dict) -> None:
    for row in planted["variants"]:
        read, written = row["prompt_tokens"], row["completion_tokens"]
        assert 0 < read < 100
        assert row["scoring_tokens"] > written
        assert row["cost_of_1000"] == pytest.approx((read + 4 * written) / 1000)


PROMPT_5 = (4, 4, 19, 84, 206, 304, 379)  # BioGraphletQA's notebooks: scores 0 to 6 of prompt 5
BASE = np.repeat(np.arange(7.0), PROMPT_5)


def test_the_published_histogram_of_prompt_5_gives_its_mean() -> None:
    row = summarise(BASE)
    assert row["items"] == 1000
    assert round(row["mean"], 2) == 4.91
    assert [row["histogram"].get(str(k), 0) for k in range(7)] == list(PROMPT_5)
    assert row["low"] < 4.907 < row["high"]
    assert row["high"] - row["low"] == pytest.approx(2 * 1.96 * row["sd"] / 1000**0.5, rel=0.1)
    assert summarise(BASE, seed=3) == summarise(BASE, seed=3) != row


def test_counted_rows_are_the_items_they_stand_for() -> None:
    levels, counts = np.array([1.0, 2.0, 5.0]), np.array([50.0, 30.0, 20.0])
    single = estimate(mean_of(np.repeat(levels, counts.astype(int))), 100, resamples=4000)
    counted = estimate(mean_of(levels), counts, resamples=4000)
    assert counted["value"] == single["value"]
    assert [counted["low"], counted["high"]] == pytest.approx([single["low"], single["high"]], abs=0.04)


def test_pairs_see_a_difference_that_unpaired_scores_do_not() -> None:
    rng = np.random.default_rng(6)
    base = rng.integers(1, 6, 300).astype(float)
    comparison = compare({"a": base, "b": base + (rng.random(300) < 0.08)}, paired=True)[0]
    assert comparison.best == "b"
    assert comparison.p_holm > 0.05
    assert (comparison.p_paired_holm or 0) < 1e-4
    assert recommendation([comparison]).startswith("Take b:")


def test_variants_that_are_all_the_same_are_noise() -> None:
    comparisons = compare(dict.fromkeys("abc", np.full(20, 3.0)), paired=True)
    assert {c.p_holm for c in comparisons} == {1.0}
    assert "no variant is told from it" in recommendation(comparisons)
    assert "p >= 0.29 after" in recommendation([comparisons[0]._replace(p_paired_holm=0.298)])


def test_both_figures_name_every_variant_and_the_p_values(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    scores = {f"p{i}": np.clip(BASE - i * 0.5 * rng.random(1000), 0, 6).round() for i in range(7)}
    comparisons = compare(scores, paired=True)
    first, again = (study_figures(scores, comparisons, tmp_path / name) for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    box, histograms = (path.read_text(encoding="utf-8") for path in first)
    assert all(f">p{i}<" in box and f">p{i} (mean " in histograms for i in range(7))
    assert len(re.findall(r"\(p = [^ ]+ after Holm\)", box)) == 2
    assert len(study_figures({"only": np.array([1.0, 2.0])}, [], tmp_path)) == 2


@pytest.mark.parametrize(
    ("scores", "criteria", "levels"),
    [([2.0, 3.0], 6, "0 1 2 3 4 5 6"), ([2.0, 3.0], 0, "2 3"), ([0.5, 7.0], 6, "0.5 7")],
)
def test_sums_of_criteria_are_shown_on_the_whole_scale_and_other_scores_on_their_own(
    tmp_path: Path, scores: list[float], criteria: int, levels: str
) -> None:
    pytest.importorskip("matplotlib")
    _, path = study_figures({"a": np.array(scores)}, [], tmp_path, criteria=criteria)
    axis = path.read_text(encoding="utf-8").partition('id="matplotlib.axis_2"')[0]
    assert " ".join(re.findall(r"<text [^>]*>([0-9.]+)</text>", axis)) == levels


def test_stars_tell_how_small_a_p_is(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    scores = {name: np.array([1.0, 2.0]) for name in "abc"}
    for small, large, stars in ((0.0005, 0.005, ("***", "**")), (0.02, 0.2, ("*", "ns"))):
        pairs = (("b", small), ("c", large))
        comparisons = [Comparison("a", name, 0.0, p, p, 0.0, 0.0) for name, p in pairs]
        box = study_figures(scores, comparisons, tmp_path)[0].read_text(encoding="utf-8")
        assert tuple(re.findall(r">([*ns]+) \(p = ", box)) == stars
