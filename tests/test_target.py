"""A target is reached exactly, whatever is killed meanwhile, and a budget is kept and accounted for."""

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc import stages, target
from kgqa_hpc.config.sections import Target
from kgqa_hpc.dataset.filters import BEYOND
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.run import Run
from kgqa_hpc.runs import run_config
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.target import Standing, _gpu_hours, next_size, run_towards
from kgqa_hpc.target import _rounds as rounds
from tests.command import kgqa
from tests.dataset.conftest import contents, records_of
from tests.families.conftest import sampled
from tests.project import write_graph
from tests.waiting import wait_for
from tests.work.rig import Processes, answers_kept, reconfigure


def prepared(
    folder: Path, target: dict[str, Any], latency: dict[str, Any] | None = None, **more: Any
) -> RunFolder:
    """A run over a random graph of 60 nodes, ready for `kgqa run`; it begins with 8 of each shape."""
    folder.mkdir(parents=True)
    write_graph(folder, nodes=60, edges=170, seed=3)
    config = {
        "graph": {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv"},
        "anchors": {"per_shape": 8, "shapes": [1, 3, 4]},
        "engine": {"kind": "scripted", "accept": 0.5, **({"latency": latency} if latency else {})},
        "target": target,
        "runtime": {"shard_size": 10, "commit_every": 1, "lease": 2},
        **more,
    }
    return sampled(folder, config)


def dataset(run: RunFolder) -> dict[str, bytes]:
    stages.merge(run.path)
    return contents(run.dataset)


def test_the_dataset_has_exactly_so_many_accepted_records(tmp_path: Path) -> None:
    run = prepared(tmp_path / "all", {"accepted": 40}, dataset={"duplicates": {"exact": True}})
    run_towards(run.path)
    counts = stages.merge(run.path)
    assert len(records_of(run.dataset)) == counts.total.accepted == 40
    last = rounds(run)[-1]
    assert last["why"] == "reached"
    assert counts.total.rejected[BEYOND] == last["accepted"]["all"] - 40 == counts.filters["target"][BEYOND]
    assert counts.total.sampled == last["sampled"]
    assert counts.total.waiting == 0
    assert len(rounds(run)) > 1


def test_each_group_has_exactly_so_many_and_the_same_command_finds_it_done(tmp_path: Path) -> None:
    run = prepared(tmp_path / "each", {"accepted": 12, "per": "group"})
    config = tmp_path / "each" / "run.yaml"
    Run.from_config(config, run.path).all()
    groups = Counter(record["group"] for record in records_of(run.dataset))
    assert groups == dict.fromkeys(("shape 1", "shape 3", "shape 4"), 12)
    told = rounds(run)
    before = {path: path.read_bytes() for path in run.results("main").glob("*.h5")}
    Run.from_config(config, run.path).all()
    assert rounds(run) == told
    assert {path: path.read_bytes() for path in run.results("main").glob("*.h5")} == before
    higher = yaml.safe_load(config.read_text()) | {"target": {"accepted": 15, "per": "group"}}
    config.write_text(yaml.safe_dump(higher))
    Run.from_config(config, run.path).all()
    assert set(Counter(record["group"] for record in records_of(run.dataset)).values()) == {15}
    assert all(path.read_bytes() == data for path, data in before.items())


@pytest.mark.slow
def test_kills_at_any_moment_change_no_byte_of_the_target(tmp_path: Path, processes: Processes) -> None:
    target = {"accepted": 60}
    whole = prepared(tmp_path / "whole", target)
    run_towards(whole.path)
    killed = prepared(tmp_path / "killed", target, {"batch": 4, "per_request_s": 1})
    chance = random.Random(8)
    for _ in range(3):
        before, decided, many = answers_kept(killed), len(rounds(killed)), chance.randrange(500, 4000)

        def due() -> bool:
            return len(rounds(killed)) > decided or answers_kept(killed) > before + many  # noqa: B023

        pair = [processes.start(killed), processes.start(killed)]
        wait_for(lambda: due() or all(one.poll() is not None for one in pair), "answers")  # noqa: B023
        assert any(one.poll() is None for one in pair), "half a minute of answers is left"
        for one in pair:
            one.kill()
            one.wait()
    reconfigure(killed, engine={"latency": {"batch": 4}})
    kgqa("run", killed.path)
    keys = ("size", "sampled", "accepted", "next")
    first, second = ([[one[key] for key in keys] for one in rounds(run)] for run in (killed, whole))
    assert first == second
    assert dataset(killed) == dataset(whole)
    assert len(records_of(whole.dataset)) == 60


@pytest.mark.parametrize("died_in", ["grow", "write_manifest"])
def test_a_growth_that_was_killed_goes_on_with_the_same_number(
    died_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = prepared(tmp_path / "run", {"accepted": 30})
    place = "RunFolder.grow" if died_in == "grow" else "write_manifest"
    with monkeypatch.context() as patch:
        patch.setattr(f"kgqa_hpc.store.run_folder.{place}", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_towards(run.path)
    assert rounds(run)[-1]["next"]
    Run.from_config(tmp_path / "run" / "run.yaml", run.path).all()
    assert len(records_of(run.dataset)) == 30
    assert not any(run.quarantine.rglob("*")) if run.quarantine.exists() else True


def test_a_run_that_was_stopped_before_its_decision_is_not_complete_and_goes_back_into_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = prepared(tmp_path / "run", {"accepted": 30})
    mark = ("--since", kgqa("requeue", run.path).stdout.strip(), "--exit-code", 75)
    with monkeypatch.context() as patch:
        patch.setattr(target, "_decide", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_towards(run.path)
    status = kgqa("status", run.path).stdout
    assert "next: kgqa run" in status
    assert "· complete" not in status
    kgqa("requeue", run.path, *mark, code=75)
    assert "the target is not decided yet: kgqa run" in kgqa("merge", run.path).stderr
    kgqa("run", run.path)
    kgqa("requeue", run.path, *mark)
    assert "next: kgqa merge" in kgqa("status", run.path).stdout
    assert "not decided" not in kgqa("merge", run.path).stderr


def test_a_worker_that_slept_while_another_drew_the_larger_sample_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = prepared(tmp_path / "all", {"accepted": 30})
    drawn = target.extend

    def twice(folder: Path, size: int, **rest: Any) -> Any:
        drawn(folder, size, **rest)  # by another worker, whose lease began after ours had expired
        return drawn(folder, size, **rest)

    monkeypatch.setattr(target, "extend", twice)
    run_towards(run.path)
    assert len(rounds(run)) > 1
    assert stages.merge(run.path).total.accepted == 30


@pytest.mark.parametrize("budget", [{"items": 50}, {"tokens": 100_000}])
def test_a_budget_ends_it_and_what_was_spent_is_told(tmp_path: Path, budget: dict[str, int]) -> None:
    run = prepared(tmp_path / "run", {"accepted": 1000, "budget": budget})
    run_towards(run.path)
    ((name, allowed),) = budget.items()
    last = rounds(run)[-1]
    assert last["why"] == f"the budget of {name} allows no more"
    counts = stages.merge(run.path)
    assert last["spent"]["items"] == counts.total.sampled
    tokens = sum(row["tokens"]["prompt"] + row["tokens"]["completion"] for row in counts.requests)
    assert last["spent"]["tokens"] == tokens
    # One more of each shape would pass the budget; tokens may pass it by what items of the last round differ.
    assert allowed * 0.8 <= last["spent"][name] <= allowed * (1 if name == "items" else 1.1)


def test_a_graph_without_more_anchors_ends_it(tmp_path: Path) -> None:
    run = prepared(
        tmp_path / "run",
        {"accepted": 5000},
        anchors={"kind": "hub", "number": 20, "min_degree": 3},
        passes=[{"name": "main", "steps": [{"use": "generate", "prompt": "hub"}]}],
    )
    run_towards(run.path)
    assert rounds(run)[-1]["why"] == "there are no more anchors"
    assert stages.merge(run.path).total.sampled == rounds(run)[-1]["sampled"] < 60


def test_gpu_hours_are_those_of_the_workers_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    run = prepared(tmp_path / "run", {"accepted": 1000, "budget": {"gpu_hours": 1e-6}})
    run_towards(run.path)
    (only,) = rounds(run)
    assert only["why"] == "the budget of GPU-hours allows no more"
    assert only["spent"]["gpu_hours"] > 0


def test_what_cannot_be_a_target_is_refused_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"target\.budget\.items: the sample it begins with has up to 24"):
        prepared(tmp_path / "small", {"accepted": 5, "budget": {"items": 23}})
    with pytest.raises(ConfigError, match="target: a study has none"):
        prepared(tmp_path / "study", {"accepted": 5}, variants={"generate.prompt": ["p1_1", "p5"]})


@given(
    size=st.integers(1, 1000),
    full=st.lists(st.booleans(), min_size=1, max_size=6),
    rate=st.floats(0, 1),
    wanted=st.integers(1, 5000),
    items=st.integers(1, 20_000),
    even=st.booleans(),
)
def test_a_next_sample_is_larger_and_within_the_budget(
    size: int, full: list[bool], rate: float, wanted: int, items: int, even: bool
) -> None:
    share = size if even else size // len(full) + 1
    sampled = {f"g{i}": share if whole else share // 2 for i, whole in enumerate(full)}
    have = {group: int(number * rate) for group, number in sampled.items()}
    now = Standing(size, even, sampled, have, {"items": sum(sampled.values())})
    target = Target.model_validate({"accepted": wanted, "per": "group", "budget": {"items": items}})
    found, why = next_size(target, now)
    if found is None:
        assert why
        return
    assert found > size
    growing = {group for group, number in sampled.items() if number >= size} if even else set(sampled)
    ended = sum(number for group, number in sampled.items() if group not in growing)
    assert (found * len(growing) + ended if even else found) <= items


def test_logs_that_others_wrote_are_read_without_harm(tmp_path: Path) -> None:
    run = prepared(tmp_path / "a", {"accepted": 5})
    config = run_config(run)
    folder = run.logs / "x"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "fifo.jsonl")
    lines = ["5", "[]", "null", '{"event": "started"}', '{"event": "started", "time": "now"}']
    lines += ['{"event": "started", "time": 100, "gpus": 7}', '{"event": "ended", "time": 460}']
    lines += ["[" * 2000, "torn"]
    (folder / "hand.jsonl").write_text("\n".join(lines))
    assert _gpu_hours(run, config) == pytest.approx(0.1 * config.engine.gpus_per_worker)
