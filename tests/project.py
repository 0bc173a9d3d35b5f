"""What a user has before the first command: a graph as two tables, and a configuration."""

from __future__ import annotations

import csv
import random
from pathlib import Path

CONFIG = """
seed: 7
graph: {source: csv, nodes: nodes.csv, edges: edges.csv}
anchors: {kind: graphlet, per_shape: 6}
engine: {kind: scripted}
runtime: {shard_size: 32, commit_every: 1s}
"""
PATHS = CONFIG.replace("kind: graphlet, per_shape: 6", "kind: path, number: 20")  # drawn sooner


def write_graph(folder: Path, *, nodes: int = 120, edges: int = 420, seed: int = 7) -> None:
    """A random typed graph as nodes.csv and edges.csv."""
    draw = random.Random(seed)
    with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "name", "type"])
        writer.writerows([f"N:{i}", f"entity {i}", draw.choice(["gene", "drug"])] for i in range(nodes))
    pairs = {tuple(draw.sample(range(nodes), 2)) for _ in range(edges)}
    with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["source_id", "target_id", "type"])
        writer.writerows([f"N:{a}", f"N:{b}", "relates_to"] for a, b in sorted(pairs))


def write_project(folder: Path, config: str = CONFIG) -> Path:
    """Graph and configuration in a folder; the path of the configuration."""
    write_graph(folder)
    (folder / "run.yaml").write_text(config, encoding="utf-8")
    return folder / "run.yaml"
