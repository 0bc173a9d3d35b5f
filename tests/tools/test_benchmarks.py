"""The measuring tools run, and what they measure holds on a small scale."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_simulated_workers_share_the_published_work_evenly() -> None:
    """A twentieth of the full scale; tools/simulate_workers.py plays all of it in a minute."""
    simulate = load("simulate_workers")
    outcome = simulate.Simulation(workers=160, items=50_000, shard_size=6, seed=3).run()
    assert outcome.efficiency >= 0.98
    assert outcome.slowest <= 1.1
    assert outcome.helped == 0, "nobody was slow enough to need help"


def test_in_the_simulation_every_item_is_done_once_whatever_the_seed() -> None:
    simulate = load("simulate_workers")
    for seed in range(5):
        simulation = simulate.Simulation(workers=7, items=503, shard_size=10, seed=seed)
        outcome = simulation.run()
        assert outcome.shards == 51
        assert all(shard.state == simulate.DONE for shard in simulation.shards)
        assert simulation.useful == pytest.approx(503 * simulate.ITEM, rel=0.1)


@pytest.mark.slow
def test_real_processes_lease_every_shard_and_none_twice(tmp_path: Path) -> None:
    """In a process of its own, since it forks many."""
    command = [sys.executable, TOOLS / "bench_leases.py", "--processes", "8", "--shards", "200"]
    done = subprocess.run(
        [*map(str, command), "--folder", str(tmp_path)], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert "leased 200 shards" in done.stdout
    assert " 0 done twice" in done.stdout
    assert "kgqa status" in done.stdout


@pytest.mark.slow
def test_the_overhead_of_a_worker_is_measured_on_a_real_run() -> None:
    done = subprocess.run(
        [sys.executable, TOOLS / "bench_scheduler.py", "--items", "300", "--shard-size", "100"],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert "300 items in" in done.stdout
