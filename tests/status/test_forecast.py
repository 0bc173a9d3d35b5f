"""The forecast agrees with what the published run took, and states what it assumes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import InputError
from kgqa_hpc.status.forecast import (
    DAY,
    ENOUGH,
    PUBLISHED_TOKENS,
    Pilot,
    _half_width,
    forecast,
    item_pace,
    plan,
    render,
)
from kgqa_hpc.status.log_files import note_progress
from kgqa_hpc.store.partition import partition, read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from tests.runs import make_run
from tests.status.conftest import rows, write_rows

GENERATED, JUDGED = 269_574, 264_373  # sections 3.1.3 and 3.3: questions generated, pairs judged


def test_generation_and_judging_take_the_published_days() -> None:
    def days(items: int, step: str, **known: float) -> float:
        seconds: float = forecast(items, item_pace([step], None, **known), 1, 2 * DAY, 900)["wall_seconds"]
        return seconds / DAY

    assert 9.5 < days(GENERATED, "generate") < 10
    assert 9.5 < days(GENERATED, "generate", tokens_per_s=241) < 10
    assert PUBLISHED_TOKENS["generate"] == pytest.approx(748, abs=1)
    assert 5.5 < days(JUDGED, "judge") < 6.2


def test_more_gpus_divide_the_time_a_shorter_limit_means_more_jobs_and_a_pilot_outweighs_all() -> None:
    pace = item_pace(["generate", "judge"], None)
    single, many = (forecast(GENERATED, pace, gpus, 2 * DAY, 900) for gpus in (1, 16))
    assert many["wall_seconds"] == pytest.approx(single["wall_seconds"] / 16, rel=0.02)
    assert many["gpu_hours"] == pytest.approx(single["gpu_hours"], rel=0.1)
    assert many["jobs"] == 16
    pace = item_pace(["generate"], None)
    long, short = (forecast(GENERATED, pace, 1, limit, 900)["jobs"] for limit in (2 * DAY, 4 * 3600))
    assert long == 5
    assert short > 60
    pace = item_pace(["generate", "judge"], Pilot("pilot", 86_400.0, 300.0), pilot_gpus=2)
    assert (pace.seconds, pace.tokens) == pytest.approx((2.0, 300))
    assert "pilot pilot" in pace.source


def test_every_assumption_is_printed_and_a_limit_that_leaves_no_time_refused() -> None:
    document = forecast(1000, item_pace(["generate"], None), 4, 2 * DAY, 900)
    text = render(document)
    assert all(assumption in text for assumption in document["assumptions"])
    with pytest.raises(InputError, match="leaves no time"):
        forecast(10, item_pace(["generate"], None), 1, 600, 900)


TWO_PASSES = [{"name": "ask", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}]


def _part_done(
    folder: Path, shards: dict[str, int], tokens: int = 0, items: int = 200, **sections: Any
) -> RunFolder:
    """A run with shards of 20 items, of which each named pass has done so many."""
    run = make_run(folder, items, runtime={"shard_size": 20}, **sections)
    names = partition(run, 20).names
    trace = [{"step": "generate", "tokens": {"prompt": 5, "completion": tokens, "cached": 0}}]
    for pass_name, count in shards.items():
        for name in names[:count]:
            write_rows(run, name, rows(trace=trace), pass_name)
    assert 20 * len(read_shards_manifest(run).names) == items
    return run


def test_a_run_that_has_not_begun_costs_what_was_published(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 200)
    document = plan(run.path)
    assert document["items"] == 200
    alone = item_pace(["generate", "judge"], None)
    assert document["gpu_hours"] == pytest.approx((200 * alone.seconds + 300) / 3600)
    assert "published" in document["assumptions"][0]


def test_a_speed_is_called_measured_or_given_as_it_is(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 50)
    best = {"decode_tokens_per_s": 500, "tokens_per_item": 900}
    bench = tmp_path / "bench.json"
    bench.write_text(json.dumps({"best": best, "steps": ["generate", "judge"]}))
    measured, *_, start = plan(run.path, pilot=bench)["assumptions"][:3]
    assert measured == "500 tokens/s per GPU as measured; answer lengths of pilot bench.json"
    assert start.startswith("1 GPU starts at once")
    stated = plan(run.path, gpus=2, pilot=bench, tokens_per_s=300)["assumptions"]
    assert stated[0].startswith("300 tokens/s per GPU as given")
    assert stated[2].startswith("2 GPUs share the work")


def test_before_sampling_as_many_items_are_planned_as_the_configuration_asks_for(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 1, anchors={"per_shape": 50, "shapes": [1, 2, 3]})
    run.anchors.unlink()
    assert plan(run.path)["items"] == 150
    two = plan(make_run(tmp_path / "two", 200, passes=TWO_PASSES).path)
    assert two == plan(make_run(tmp_path / "one", 200).path), "two passes cost what their steps cost in one"


def test_what_is_done_is_not_planned_again(tmp_path: Path) -> None:
    assert plan(_part_done(tmp_path / "one", {"main": 4}).path)["items"] == 120
    half = plan(_part_done(tmp_path / "two", {"ask": 10}, passes=TWO_PASSES).path)
    # Asking is 45,674 / (45,674 + 27,821) of the published time of an item: 0.62.
    assert half["items"] == pytest.approx(200 * (1 - 0.6215), abs=1)
    both = [
        {"name": "ask", "steps": ["generate", "judge"]},
        {"name": "check", "steps": [{"use": "judge", "as": "b"}]},
    ]
    for shards, passes in ((10, TWO_PASSES), (3, both)):  # the shares of `both` sum to 1 less a rounding
        counts = {"ask": shards, "check": shards}
        run = _part_done(tmp_path / str(shards), counts, items=20 * shards, passes=passes)
        done = plan(run.path)
        assert (done["items"], done["jobs"], done["gpu_hours"]) == (0, 0, 0)


@pytest.mark.parametrize("passes", [{"main": 10}, {"ask": 10, "check": 10}])
def test_a_pilot_is_measured_in_whole_items_however_it_was_cut_into_passes(
    tmp_path: Path, passes: dict[str, int]
) -> None:
    sections = {"passes": TWO_PASSES} if len(passes) > 1 else {}
    pilot = _part_done(tmp_path / "pilot", passes, tokens=300, **sections)
    for now, ended in ((0, 0), (60, 60 * len(passes))):  # an item a second
        note_progress(pilot.logs, ended, now=float(now))
    document = plan(make_run(tmp_path / "run", 1000).path, pilot=pilot.path, pilot_gpus=2, gpus=4)
    assert document["wall_seconds"] == pytest.approx(1000 * 2 / 4 + 300)
    assert document["answer_tokens"] == 1000 * 300 * len(passes)
    assert "pilot pilot: 43,200 items a day per GPU" in document["assumptions"]
    given = plan(make_run(tmp_path / "given", 1000).path, pilot=pilot.path, tokens_per_s=3000)
    assert given["wall_seconds"] == pytest.approx(1000 * 0.1 * len(passes) + 300), "it outweighs the pilot's"


SERVER = {"kind": "openai", "model": "m", "base_url": "https://api.example.org/v1"}
OTHERS: dict[str, Any] = {"passes": [{"name": "main", "steps": ["generate", "judge"], "engine": SERVER}]}


def test_somebody_elses_server_has_no_gpus_and_no_published_speed(tmp_path: Path) -> None:
    document = plan(make_run(tmp_path / "run", 200, **OTHERS).path)
    text = render(document)
    assert document["wall_seconds"] is None
    assert "time      not known" in text
    for word in ("GPU", "A6000", "jobs"):
        assert word not in text


def test_the_cost_is_that_of_the_pilots_tokens_with_an_interval_from_its_shards(tmp_path: Path) -> None:
    pilot = _part_done(tmp_path / "pilot", {"main": 10}, tokens=300, **OTHERS)
    document = plan(make_run(tmp_path / "run", 1000, **OTHERS).path, pilot=pilot.path, price=(2.0, 10.0))
    cost = document["cost"]
    assert (cost["prompt_tokens"], cost["completion_tokens"]) == (5_000, 300_000)
    assert cost["total"] == pytest.approx(0.01 + 3.0)
    assert cost["low"] == pytest.approx(cost["high"]) == pytest.approx(cost["total"]), "all shards alike"
    assert "cost      about 3.01 (3.01 to 3.01)" in render(document)
    assert cost["measured_cost"] == pytest.approx(0.602)


def test_what_measured_too_little_is_refused_with_the_cure(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 200, **OTHERS).path
    with pytest.raises(InputError, match=f"a pilot needs {ENOUGH} items"):
        plan(run, pilot=make_run(tmp_path / "pilot", 10).path)
    with pytest.raises(InputError, match="a cost needs the tokens of 20 items") as caught:
        plan(run, price=(0.5, 1.5))
    with pytest.raises(InputError, match="--price 2 -1: a price is 0 or more"):
        plan(run, price=(2.0, -1.0))
    assert "--pilot" in caught.value.cure
    priced = {"passes": [{**OTHERS["passes"][0], "engine": {**SERVER, "price": {"input": 1, "output": 2}}}]}
    document = plan(make_run(tmp_path / "priced", 200, **priced).path)
    assert "cost" not in document
    assert f"assumed   no cost: {tmp_path}/priced: a cost needs the tokens of 20 items" in render(document)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0, 100)), min_size=2, max_size=30))
def test_the_interval_shrinks_with_more_shards_of_the_same_spread(shards: list[tuple[int, float]]) -> None:
    sizes, costs = [size for size, _ in shards], [cost for _, cost in shards]
    few, many = _half_width(sizes, costs), _half_width(sizes * 4, costs * 4)
    assert few is not None
    assert many is not None
    assert 0 <= many <= few + 1e-9
