"""A budget of money: the sum in status, a clean stop with exit code 75, and going on with a larger one."""

import json
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.cluster.stop import Stop
from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import Price
from kgqa_hpc.errors import InputError
from kgqa_hpc.status.log_files import note_progress
from kgqa_hpc.work.run import Spending
from tests.command import kgqa
from tests.runs import anchors, make_run, new_run
from tests.work.rig import reconfigure

PRICE = {"input": 2.0, "cached": 0.5, "output": 8.0}
SLOW = {"kind": "scripted", "latency": {"batch": 4, "decode_tokens_per_s": 4000}, "price": PRICE}


def status(run: Path) -> dict[str, Any]:
    return dict(json.loads(kgqa("status", run, "--json").stdout))


def test_cached_tokens_have_a_price_of_their_own() -> None:
    tokens = {"prompt": 3_000_000, "cached": 1_000_000, "completion": 500_000}
    assert Price(**PRICE).of(tokens) == 2 * 2.0 + 0.5 + 0.5 * 8.0
    assert Price(input=2, output=8).of(tokens) == 3 * 2.0 + 0.5 * 8.0


def test_a_run_stops_with_75_when_its_budget_is_spent_and_goes_on_with_a_larger_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 400, engine=SLOW, runtime={"shard_size": 400, "window": 4})
    reconfigure(run, runtime={"budget": {"money": 0.02}})
    assert "of the budget of 0.02 are spent" in kgqa("run", run.path, code=75).stderr
    stopped = status(run.path)
    assert not stopped["complete"]
    assert 0.02 <= stopped["money"]["spent"] < 1.0
    assert stopped["money"]["budget"] == 0.02
    assert "raise it" in kgqa("run", run.path, code=2).stderr
    assert status(run.path)["money"]["spent"] == stopped["money"]["spent"]
    reconfigure(run, engine={"latency": {"batch": 32}}, runtime={"budget": {"money": 1000.0}})
    kgqa("run", run.path)
    done = status(run.path)
    assert done["complete"]
    assert done["money"]["spent"] > stopped["money"]["spent"]
    (only,) = done["passes"]
    assert done["money"]["spent"] == pytest.approx(Price(**PRICE).of(only["tokens"]), rel=1e-6)
    assert "money     " in kgqa("status", run.path).stdout


def test_each_pass_counts_and_pays_only_its_own_requests(tmp_path: Path) -> None:
    engine = {"kind": "scripted", "price": PRICE}
    passes = [
        {"name": "ask", "steps": ["generate", "judge"]},
        {"name": "check", "steps": [{"use": "judge", "as": "b"}]},
    ]
    run = make_run(tmp_path / "run", 12, engine=engine, passes=passes)
    kgqa("run", run.path)
    kgqa("merge", run.path)
    accounting = json.loads((run.dataset / "accounting.json").read_text())
    done = status(run.path)
    requests = [row["requests"] for row in accounting["requests"]]
    assert [part["requests"] for part in done["passes"]] == [requests[0] + requests[1], requests[2]]
    paid = sum(Price(**PRICE).of(row["tokens"]) for row in accounting["requests"])
    assert done["money"]["spent"] == pytest.approx(paid, rel=1e-4)


@pytest.mark.parametrize(("limits", "unit"), [({"tokens": 3000}, "tokens"), ({"items": 10}, "items")])
def test_tokens_and_items_stop_a_run_too(tmp_path: Path, limits: dict[str, float], unit: str) -> None:
    slow = {"kind": "scripted", "latency": {"batch": 4, "decode_tokens_per_s": 2000}}
    run = make_run(tmp_path / "run", 400, engine=slow, runtime={"shard_size": 8, "window": 4})
    reconfigure(run, runtime={"budget": limits})
    stopped = kgqa("run", run.path, code=75).stderr
    assert f"of the budget of {limits[unit]:,} {unit} are spent" in stopped
    assert f"runtime.budget.{unit}: raise it" in stopped
    assert limits.get("items", 1) <= status(run.path)["items"]["ended"] < 400
    assert f"runtime.budget.{unit}:" in kgqa("run", run.path, code=2).stderr


def test_an_engine_without_token_counts_is_noted_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = parse_config({"engine": {"kind": "function", "call": "builtins:print"}}, "the test")
    run = new_run(tmp_path / "run", config, anchors(4), {"seed": 1})
    kgqa("run", run.path)
    capsys.readouterr()
    spending = Spending(run, {"tokens": 10})
    for _ in range(2):
        spending.require_rest()
    assert capsys.readouterr().err.count("the engine reports no tokens") == 1
    Spending(run, {"items": 10}).require_rest()
    assert not capsys.readouterr().err


def test_done_shards_count_once_after_a_restart(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 16, runtime={"shard_size": 4})
    kgqa("run", run.path)
    done = status(run.path)
    assert "money" not in done, "without a price"
    (only,) = done["passes"]
    used = only["tokens"]["prompt"] + only["tokens"]["completion"]
    stop = Stop(None, 0)
    Spending(run, {"tokens": used + 1, "items": 17}).check(stop)
    assert stop.reason is None
    Spending(run, {"items": 16}).check(stop)
    assert stop.reason is not None


def test_a_complete_run_is_complete_although_its_last_requests_spent_the_budget(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 16, runtime={"shard_size": 4})
    reconfigure(run, runtime={"budget": {"items": 16}})
    kgqa("run", run.path)
    kgqa("run", run.path)
    assert status(run.path)["complete"]


def test_hours_count_over_all_starts_of_a_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 4)
    for minute in range(31):
        note_progress(run.logs, 0, now=1e9 + 60 * minute)
    clock = iter([0.0, 1000.0, 1801.0])
    spending = Spending(run, {"hours": 1.0}, lambda: next(clock))
    spending.require_rest()
    with pytest.raises(InputError, match=r"runtime\.budget\.hours: 1\.00 of 1 are spent"):
        spending.require_rest()
