"""What a user has before the first command: a graph as two tables, and a configuration."""

import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

CONFIG = """
seed: 7
graph: {source: csv, nodes: nodes.csv, edges: edges.csv}
anchors: {kind: graphlet, per_shape: 6}
engine: {kind: scripted}
runtime: {shard_size: 32, commit_every: 1s}
"""


def write_tables(folder: Path, nodes: Iterable[Sequence[str]], edges: Iterable[Sequence[str]]) -> None:
    """A graph as nodes.csv (id, name, type) and edges.csv (source_id, target_id, type)."""
    tables = {"nodes.csv": (("id", "name", "type"), nodes)}
    tables["edges.csv"] = (("source_id", "target_id", "type"), edges)
    for name, (header, rows) in tables.items():
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])


def write_graph(folder: Path, *, nodes: int = 120, edges: int = 420, seed: int = 7) -> None:
    """A random typed graph as nodes.csv and edges.csv."""
    draw = random.Random(seed)
    rows = [(f"N:{i}", f"entity {i}", draw.choice(["gene", "drug"])) for i in range(nodes)]
    pairs = {tuple(draw.sample(range(nodes), 2)) for _ in range(edges)}
    write_tables(folder, rows, [(f"N:{a}", f"N:{b}", "relates_to") for a, b in sorted(pairs)])


def edit(file: str | Path, old: str, new: str) -> None:
    """Replace a text that a file holds."""
    text = Path(file).read_text("utf-8")
    assert old in text
    Path(file).write_text(text.replace(old, new), "utf-8")


PATHS = CONFIG.replace("kind: graphlet, per_shape: 6", "kind: path, number: 20")  # drawn sooner


def write_project(folder: Path, config: str = CONFIG, **graph: int) -> Path:
    """Graph (arguments of `write_graph`) and configuration in a folder; the path of the configuration."""
    write_graph(folder, **graph)
    (folder / "run.yaml").write_text(config, encoding="utf-8")
    return folder / "run.yaml"
