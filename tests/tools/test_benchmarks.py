"""The measuring tools run, and what they measure holds on a small scale."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.by_path import load

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def output(tool: str, *options: object) -> str:
    """What a tool prints, in a process of its own; it must end well."""
    command = [sys.executable, TOOLS / tool, *options]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_simulated_workers_share_the_published_work_evenly_and_do_every_item_once() -> None:
    """A twentieth of the full scale; tools/simulate_workers.py plays all of it in a minute."""
    simulate = load(TOOLS / "simulate_workers.py")
    outcome = simulate.Simulation(workers=160, items=50_000, shard_size=6, seed=3).run()
    assert outcome.efficiency >= 0.95
    assert outcome.slowest <= 1.1
    assert outcome.helped == 0, "nobody was slow enough to need help"
    card = simulate.Simulation(workers=160, items=50_000, shard_size=6, seed=3, batch=1, saturation=1).run()
    assert card.efficiency > outcome.efficiency, "a card that answers one request after the other drains"
    for seed in range(5):
        simulation = simulate.Simulation(workers=7, items=503, shard_size=10, seed=seed)
        assert simulation.run().shards == 51
        assert all(shard.state == simulate.DONE for shard in simulation.shards)
        assert simulation.useful == pytest.approx(503 * simulate.ITEM, rel=0.1)


def test_a_broadcast_is_worth_it_where_the_file_system_is_slow_for_so_many_nodes() -> None:
    startup = load(TOOLS / "simulate_startup.py")
    assert startup.broadcast(400, 40, 20) < startup.alone(400, 40, 20) == 40 / (20 / 400)
    assert startup.broadcast(400, 40, 500) > startup.alone(400, 40, 500)
    assert startup.alone(1, 30, 500) == 30 / startup.DISK


SMOKE = {
    "bench_leases.py --processes 8 --shards 200 --folder FOLDER": ["leased 200 shards", " 0 done twice", "kgqa status"],
    "bench_scheduler.py --items 300 --busy-items 0": ["300 items in"],
    "bench_answers.py --shrink 20 --json --family quotes --family fences": ['"quotes"', '"fences"', '"ours"', '"json"'],
    "bench_merge.py --items 600": ['"items": 600', '"merge": {', '"rewrite": {', '"ratio": {', '"memory_mb"'],
    # The part without a model: the embedded engine would take a minute.
    "bench_engine_overhead.py --requests 600 --seconds 0": ["round trips"],
    "bench_grammar.py --prompt demo --vocabulary 49152 --json": ['"xgrammar": "0.2.1"', '"accepts": true'],
}  # fmt: skip
LMDEPLOY = TOOLS.parent / os.environ.get("VENV_LMDEPLOY", ".venv-lmdeploy") / "kgqa.stamp"


@pytest.mark.slow
@pytest.mark.parametrize("command", SMOKE)
def test_real_processes_are_measured(tmp_path: Path, command: str) -> None:
    if "grammar" in command:
        pytest.importorskip("xllamacpp", reason="NO GGUF FILE: THE COST OF GRAMMARS IS NOT TESTED")
        if not LMDEPLOY.exists():
            pytest.skip("XGRAMMAR IS NOT INSTALLED, ITS COST NOT TESTED: tools/install_lmdeploy_cpu.sh")
    said = output(*command.replace("FOLDER", str(tmp_path)).split())
    assert [words for words in SMOKE[command] if words not in said] == []
    assert "cpu engine" not in said


def test_the_worker_keeps_the_model_gpu_busy_and_busier_than_barriers_do(tmp_path: Path) -> None:
    """In the model's own time, so that no load of this machine changes the outcome."""
    bench = load(TOOLS / "bench_scheduler.py")
    gpu = bench.keep_busy(tmp_path / "large", items=2000)
    assert [len(tokens) for tokens in gpu.lengths.values()] == [2000, 2000]
    assert gpu.busy.share >= 0.97
    for calls in bench.CALLS:
        barrier = bench.with_barriers(gpu.lengths, calls)
        assert gpu.busy.share / barrier.share > 1
        assert gpu.busy.hours < barrier.hours
    ratio = gpu.busy.share / bench.with_barriers(gpu.lengths, bench.PUBLISHED_CALLS).share
    assert any(f"{ratio:.4f}" in line and "original" in line for line in bench.comparison(gpu, bench.BATCH))
    first, second = (bench.keep_busy(tmp_path / name, items=200, batch=8, shard_size=32) for name in "ab")
    assert first.busy == second.busy
    assert first.lengths == second.lengths


def test_a_barrier_leaves_places_empty_until_the_last_answer_of_its_call() -> None:
    bench = load(TOOLS / "bench_scheduler.py")
    lengths = {"generate": [100, 50, 100, 50], "judge": [50, 50, 50, 50]}
    barrier = bench.with_barriers(lengths, {"generate": 2, "judge": 4}, batch=2)
    assert barrier.share == pytest.approx(500 / (2 * 300))
    assert barrier.hours == pytest.approx(300 / (bench.PUBLISHED_TOKENS_PER_S / 2) / 3600)


def written(folder: Path, texts: list[str]) -> list[object]:
    """Options that name documents with these texts and a table of names."""
    documents = [{"id": str(n), "title": "", "text": text} for n, text in enumerate(texts)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    (folder / "names.tsv").write_text("gene_names\nTP53\nMDM2\nCatalase\n")
    return ["--names", folder / "names.tsv", "--documents", folder / "docs.jsonl"]


@pytest.mark.slow
def test_whole_files_go_through_the_literature_pipeline_and_add_up(tmp_path: Path) -> None:
    options = written(tmp_path, ["TP53 binds MDM2.", "Nothing.", "", "Catalase and TP53 in mice."])
    said = output("bench_literature.py", tmp_path / "whole", *options)
    assert "all add up" in said
    counts = next(json.loads(line) for line in said.splitlines() if line.startswith('{"documents"'))
    fates = {"drawn": 2, "with a name": 2, "without a name": 1, "without text": 1}
    assert counts["documents"] == {"read": 4, **fates}


def test_the_finding_of_names_is_measured_beside_the_bare_automaton(tmp_path: Path) -> None:
    said = output("bench_names.py", *written(tmp_path, [f"TP53 binds MDM2, {n}." for n in range(50)]))
    ours, bare = [line for line in said.splitlines() if "MB a CPU s" in line][:2]
    assert ours.startswith("ours")
    assert "100 found" in ours
    assert "100 found" in bare


@pytest.mark.slow
def test_the_whole_way_of_a_large_graph_is_measured(tmp_path: Path) -> None:
    words = ("--edges", 3000, "--per-shape", 5, "--folder", tmp_path)
    figures = json.loads(output("bench_large_graph.py", *words))
    assert 1500 < figures["edges"] <= 3100
    assert figures["full_samples"] == 29
    assert all(figures[step]["peak_gb"] > 0 for step in ("import", "sample"))
    assert not list(tmp_path.iterdir()), "nothing is left"


@pytest.mark.parametrize("options", [[], ["--layout", "table"], ["--plain"]])
def test_mapping_to_a_synthetic_file_is_measured(tmp_path: Path, options: list[str]) -> None:
    heads = (f">sp|P{n}|X{n}_HUMAN Cat {n} OS=Homo sapiens OX=9606 GN=CAT{n} PE=1 SV=1" for n in range(40))
    (tmp_path / "sample.fasta").write_text("".join(f"{head}\nMKV\n" for head in heads))
    words = (tmp_path / "made", "--sample", tmp_path / "sample.fasta", "--entries", 600, *options)
    said = output("bench_proteins.py", *words)
    assert "600 entries of 3 residues" in said
    assert "'homologue': 6" in said, "a third is asked in another's organism, of which one has it"
    assert "'mapped': 15" in said


def test_an_exponent_is_that_of_times() -> None:
    bench = load(TOOLS / "bench_answers.py")
    lengths = [1000, 2000, 4000, 8000, 16000]
    assert bench.exponent(lengths, [n * 1e-6 for n in lengths]) == pytest.approx(1)
    assert bench.exponent(lengths, [n * n * 1e-9 for n in lengths]) == pytest.approx(2)
    assert bench.exponent(lengths, [1.0, 2.0, None, None, None]) is None


@pytest.mark.slow
def test_a_whole_run_is_measured_stage_by_stage(tmp_path: Path) -> None:
    words = ("--items", 300, "--workers", 1, "--json", "--folder", tmp_path)
    stages = json.loads(output("bench_run.py", *words))["stages"]
    assert [stage["stage"] for stage in stages][:3] == ["import", "sample", "partition"]
    assert stages[-1]["items"] > 200
    assert all(stage["cpu_s"] > 0 and stage["peak_mb"] > 20 for stage in stages)


def test_questions_repeat_fewer_topics_with_memory() -> None:
    rows = output("topic_memory.py", "--number", 80, "--memory", 0, 20).splitlines()[2:]
    table = {name: (float(a), float(b)) for name, a, b in (row.rsplit(maxsplit=2) for row in rows)}
    assert table["questions"] == (80, 80)
    assert table["topics, different / all"][1] > table["topics, different / all"][0]
    assert table["a topic of the 20 before"][1] < table["a topic of the 20 before"][0]
    subjects = [{"bone"}, {"skin"}, set(), {"bone", "ear"}, {"skin"}]
    repeats = load(TOOLS / "topic_memory.py").repeats
    assert repeats(subjects, window=3) == 0.5  # bone after three, skin after three; of four with a topic
    assert repeats(subjects, window=2) == 0
