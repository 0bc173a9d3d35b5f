"""Command `hydrate`: names the nodes of an imported graph and reports coverage, as a JSON file and as text."""

from pathlib import Path
from typing import Annotated, Any

import typer

from kgqa_hpc.cli.app import AsJson, Run, TrustConfig, print_result
from kgqa_hpc.errors import InputError, StoppedEarly
from kgqa_hpc.text.plain_text import shell_word

_REPORT = "hydration.json"
_ODD = ("duplicates", "overlong", "identifiers", "control_characters", "underscores", "suffixes")


def hydrate(
    run: Run,
    recipe: Annotated[Path | None, typer.Option(help="Recipe file; default: graph.hydrate.")] = None,
    web: Annotated[bool, typer.Option("--web", help="Also query the web services of the recipe.")] = False,
    trust_config: TrustConfig = False,
    as_json: AsJson = False,
) -> None:
    """Name the nodes of an imported graph from tables and web services, by a recipe."""
    import orjson

    from kgqa_hpc.kg.file import read_graph, write_graph
    from kgqa_hpc.kg.settings import recorded, tables_folder
    from kgqa_hpc.plugins.biokg import hydrate as hydration
    from kgqa_hpc.plugins.biokg.recipe import load_recipe
    from kgqa_hpc.runs import open_for_work
    from kgqa_hpc.runs.trust import require_own
    from kgqa_hpc.store.atomic import make_folder, write_file
    from kgqa_hpc.store.fingerprint import graph_origin

    folder, config = open_for_work(run)
    configured = None if config.graph is None or config.graph.hydrate is None else Path(config.graph.hydrate)
    if (chosen := recipe or configured) is None:
        raise InputError("which recipe?", "--recipe FILE, or graph.hydrate in the configuration")
    if web and recipe is None:
        require_own(folder, f"graph.hydrate: {chosen}", trust=trust_config)
    if not folder.kg.exists():
        raise InputError(f"{folder.kg} is missing", f"first: kgqa import {shell_word(folder.path)}")
    graph, tables = read_graph(folder.kg), None if config.graph is None else tables_folder(config.graph)
    cache = folder.path / "hydration"
    named, report = hydration.hydrate(graph, load_recipe(chosen), folder=tables, cache=cache, web=web)
    before, after = ((g.names.tolist(), dict(g.node_properties), dict(g.attributes)) for g in (graph, named))
    if before != after:
        if folder.anchors.exists():
            problem = f"{folder.anchors}: anchors with the old names were drawn already"
            raise InputError(problem, "hydrate a new run before sampling")
        write_graph(folder.kg, named, graph_origin(folder.manifest().sections, recorded(folder)))
    make_folder(folder.stats)
    write_file(folder.stats / _REPORT, orjson.dumps(report, option=orjson.OPT_INDENT_2) + b"\n")
    if report["unreachable"]:  # graph and report are already written
        problem = f"{report['unreachable']:,} ids got no answer from a web service; others are kept"
        raise StoppedEarly(problem, "run the same command again")
    print_result(report, _render(report), as_json)


def _render(report: dict[str, Any]) -> str:
    """The report as text: coverage by class, as in BioGraphletQA, Appendix B, and problems of the tables."""
    lines = []
    for kind, row in report["classes"].items():
        spaces = ", ".join(f"{space} {count:,}" for space, count in row["by_space"].items())
        lines.append(f"{kind[:24]:<26}{row['nodes']:>9,} nodes {row['named']:>9,} named  {spaces}")
        odd = [(key.replace("_", " "), row.get(key, 0)) for key in _ODD]
        if any(count for _, count in odd):
            lines.append(f"{'':<26}{', '.join(f'{count:,} {noun}' for noun, count in odd if count)}")
    for space, row in report["spaces"].items():
        if row["table_is_missing"]:
            lines.append(f"space {space}: there is no table {row['table']}")
        if row["conflicts"]:
            lines.append(f"space {space}: {row['conflicts']:,} ids have several names, the first counts")
        if row.get("not_asked"):
            lines.append(f"space {space}: {row['not_asked']:,} ids need a web request (--web)")
    return "\n".join(lines)
