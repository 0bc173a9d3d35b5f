"""The measuring tools run, and what they measure holds on a small scale."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.by_path import load

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def test_simulated_workers_share_the_published_work_evenly() -> None:
    """A twentieth of the full scale; tools/simulate_workers.py plays all of it in a minute."""
    simulate = load(TOOLS / "simulate_workers.py")
    outcome = simulate.Simulation(workers=160, items=50_000, shard_size=6, seed=3).run()
    assert outcome.efficiency >= 0.95
    assert outcome.slowest <= 1.1
    assert outcome.helped == 0, "nobody was slow enough to need help"
    card = simulate.Simulation(workers=160, items=50_000, shard_size=6, seed=3, batch=1, saturation=1).run()
    assert card.efficiency > outcome.efficiency, (
        "a card that answers one request after the other drains at once"
    )


def test_in_the_simulation_every_item_is_done_once_whatever_the_seed() -> None:
    simulate = load(TOOLS / "simulate_workers.py")
    for seed in range(5):
        simulation = simulate.Simulation(workers=7, items=503, shard_size=10, seed=seed)
        outcome = simulation.run()
        assert outcome.shards == 51
        assert all(shard.state == simulate.DONE for shard in simulation.shards)
        assert simulation.useful == pytest.approx(503 * simulate.ITEM, rel=0.1)


def test_a_broadcast_is_worth_it_where_the_file_system_is_slow_for_so_many_nodes() -> None:
    startup = load(TOOLS / "simulate_startup.py")
    assert startup.broadcast(400, 40, 20) < startup.alone(400, 40, 20) == 40 / (20 / 400)
    assert startup.broadcast(400, 40, 500) > startup.alone(400, 40, 500)
    assert startup.alone(1, 30, 500) == 30 / startup.DISK


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
        [sys.executable, TOOLS / "bench_scheduler.py", "--items", "300", "--busy-items", "0"],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert "300 items in" in done.stdout


def test_the_worker_keeps_the_model_gpu_busy_and_busier_than_barriers_do(tmp_path: Path) -> None:
    """In the model's own time, so that no load of this machine changes the outcome."""
    bench = load(TOOLS / "bench_scheduler.py")
    gpu = bench.keep_busy(tmp_path, items=3000)
    assert [len(tokens) for tokens in gpu.lengths.values()] == [3000, 3000]
    assert gpu.busy.share >= 0.97
    for calls in bench.CALLS:
        barrier = bench.with_barriers(gpu.lengths, calls)
        assert gpu.busy.share / barrier.share > 1
        assert gpu.busy.hours < barrier.hours
    ratio = gpu.busy.share / bench.with_barriers(gpu.lengths, bench.PUBLISHED_CALLS).share
    assert any(f"{ratio:.4f}" in line and "original" in line for line in bench.comparison(gpu, bench.BATCH))


def test_the_busy_share_is_the_same_in_every_run(tmp_path: Path) -> None:
    bench = load(TOOLS / "bench_scheduler.py")
    first, second = (bench.keep_busy(tmp_path / name, items=200, batch=8, shard_size=32) for name in "ab")
    assert first.busy == second.busy
    assert first.lengths == second.lengths


def test_a_barrier_leaves_places_empty_until_the_last_answer_of_its_call() -> None:
    bench = load(TOOLS / "bench_scheduler.py")
    lengths = {"generate": [100, 50, 100, 50], "judge": [50, 50, 50, 50]}
    barrier = bench.with_barriers(lengths, {"generate": 2, "judge": 4}, batch=2)
    assert barrier.share == pytest.approx(500 / (2 * 300))
    assert barrier.hours == pytest.approx(300 / (bench.PUBLISHED_TOKENS_PER_S / 2) / 3600)


@pytest.mark.slow
def test_the_cost_of_the_engine_process_is_measured() -> None:
    """Only the part without a model is run; the embedded engine would take a minute."""
    done = subprocess.run(
        [sys.executable, TOOLS / "bench_engine_overhead.py", "--requests", "600", "--seconds", "0"],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert "round trips" in done.stdout
    assert "cpu engine" not in done.stdout


def test_the_merge_benchmark_measures_both_and_their_ratio() -> None:
    command = [sys.executable, TOOLS / "bench_merge.py", "--items", "600"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert told["items"] == 600
    for name in ("merge", "rewrite"):
        assert told[name]["cpu"] > 0
        assert told[name]["memory_mb"] > 10
    assert set(told["ratio"]) == {"seconds", "cpu"}


@pytest.mark.slow
def test_whole_files_go_through_the_literature_pipeline_and_add_up(tmp_path: Path) -> None:
    texts = ["TP53 binds MDM2.", "Nothing.", "", "Catalase and TP53 in mice."]
    documents = [{"id": str(n), "title": "", "text": text} for n, text in enumerate(texts)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    (tmp_path / "names.tsv").write_text("gene_names\nTP53\nMDM2\nCatalase\n")
    command = [
        sys.executable,
        TOOLS / "bench_literature.py",
        tmp_path / "whole",
        "--names",
        tmp_path / "names.tsv",
    ]
    command += ["--documents", tmp_path / "docs.jsonl"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "all add up" in done.stdout
    counts = next(json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"documents"'))
    assert counts["documents"] == {
        "drawn": 2,
        "read": 4,
        "with a name": 2,
        "without a name": 1,
        "without text": 1,
    }


@pytest.mark.slow
def test_the_whole_way_of_a_large_graph_is_measured(tmp_path: Path) -> None:
    command = [sys.executable, TOOLS / "bench_large_graph.py", "--edges", "3000", "--per-shape", "5"]
    done = subprocess.run(
        [*map(str, command), "--folder", str(tmp_path)], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert 1500 < figures["edges"] <= 3100
    assert figures["full_samples"] == 29
    assert all(figures[step]["peak_gb"] > 0 for step in ("import", "sample"))
    assert not list(tmp_path.iterdir()), "nothing is left"


def test_the_finding_of_names_is_measured_beside_the_bare_automaton(tmp_path: Path) -> None:
    documents = [{"id": str(n), "title": "", "text": f"TP53 binds MDM2, {n}."} for n in range(50)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    (tmp_path / "names.tsv").write_text("gene_names\nTP53\nMDM2\n")
    command = [sys.executable, TOOLS / "bench_names.py", "--names", tmp_path / "names.tsv"]
    command += ["--documents", tmp_path / "docs.jsonl"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    ours, bare = [line for line in done.stdout.splitlines() if "MB a CPU s" in line][:2]
    assert ours.startswith("ours")
    assert "100 found" in ours
    assert "100 found" in bare


@pytest.mark.parametrize("options", [[], ["--layout", "table"], ["--plain"]])
def test_mapping_to_a_synthetic_file_is_measured(tmp_path: Path, options: list[str]) -> None:
    lines = (
        f">sp|P{n}|X{n}_HUMAN Cat {n} OS=Homo sapiens OX=9606 GN=CAT{n} PE=1 SV=1\nMKV\n" for n in range(40)
    )
    (tmp_path / "sample.fasta").write_text("".join(lines))
    command = [
        sys.executable,
        TOOLS / "bench_proteins.py",
        tmp_path / "made",
        "--sample",
        tmp_path / "sample.fasta",
    ]
    command += ["--entries", "600", *options]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "600 entries of 3 residues" in done.stdout
    assert "'homologue': 6" in done.stdout, "a third is asked in another's organism, of which one has it"
    assert "'mapped': 15" in done.stdout
