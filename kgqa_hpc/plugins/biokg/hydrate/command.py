"""`kgqa hydrate`: the graph of a run with names, its report, and the report as text."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.errors import InputError, StoppedEarly
from kgqa_hpc.kg.file import read_graph, write_graph
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.plugins.biokg.hydrate.hydrate import hydrate
from kgqa_hpc.plugins.biokg.hydrate.recipe import load_recipe
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.fingerprint import graph_origin
from kgqa_hpc.store.run_folder import RunFolder

REPORT = "hydration.json"
_ODD = ("duplicates", "overlong", "identifiers", "control_characters", "underscores", "suffixes")


def hydrate_run(run: RunFolder, recipe_file: Path, tables: Path | None, *, web: bool) -> dict[str, Any]:
    """Name the nodes of RUN/kg.h5; the report also stands in RUN/stats/hydration.json.

    `tables`: the graph's own folder, where class tables lie. Raises InputError when anchors were drawn from
    the graph already, StoppedEarly (after everything was written) when a web service did not answer.
    """
    if not run.kg.exists():
        raise InputError(f"{run.kg} is missing", f"first: kgqa import {run.path}")
    graph = read_graph(run.kg)
    named, report = hydrate(
        graph, load_recipe(recipe_file), folder=tables, cache=run.path / "hydration", web=web
    )
    if not _same(graph, named):
        if run.anchors.exists():
            raise InputError(
                f"{run.anchors}: anchors with the old names were drawn already",
                "hydrate a new run before sampling",
            )
        write_graph(run.kg, named, {}, graph_origin(run.manifest().sections))
    make_folder(run.stats)
    document = dataclasses.asdict(report)
    write_file(run.stats / REPORT, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    if report.unreachable:
        raise StoppedEarly(
            f"{report.unreachable:,} ids got no answer; all others are kept", "run the same command again"
        )
    return document


def hydrated(graph: KnowledgeGraph, recipe_file: Path, tables: Path | None) -> KnowledgeGraph:
    """A graph that is being imported, named by the local tables and the kept answers of its recipe."""
    recipe = load_recipe(recipe_file)
    return hydrate(graph, recipe, folder=tables, cache=recipe.home / "hydration", web=False)[0]


def _same(graph_a: KnowledgeGraph, graph_b: KnowledgeGraph) -> bool:
    return (
        graph_a.names.tolist() == graph_b.names.tolist()
        and dict(graph_a.node_properties) == dict(graph_b.node_properties)
        and dict(graph_a.attributes) == dict(graph_b.attributes)
    )


def render(document: dict[str, Any]) -> str:
    """Coverage per class, as in the paper's Appendix B, and what the user should check."""
    lines = []
    for kind, row in document["classes"].items():
        spaces = ", ".join(f"{space} {count:,}" for space, count in row["by_space"].items())
        lines.append(f"{kind[:24]:<26}{row['nodes']:>9,} nodes {row['named']:>9,} named  {spaces}")
        odd = [(key.replace("_", " "), row.get(key, 0)) for key in _ODD]
        if any(count for _, count in odd):
            lines.append(f"{'':<26}{', '.join(f'{count:,} {noun}' for noun, count in odd if count)}")
    for space, row in document["spaces"].items():
        if row["table_is_missing"]:
            lines.append(f"space {space}: there is no table {row['table']}")
        if row["conflicts"]:
            lines.append(f"space {space}: {row['conflicts']:,} ids have several names, the first counts")
        if row.get("not_asked"):
            lines.append(f"space {space}: {row['not_asked']:,} ids to ask the web for (--web)")
    return "\n".join(lines)
