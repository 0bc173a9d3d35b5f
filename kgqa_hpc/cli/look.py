"""Commands that change no run's work: status, plan, explain, replay, doctor, count, trials of a configuration, lists.

Lists: entries of the registries, the schema of a configuration, runs in a folder, files that may be deleted.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from kgqa_hpc.cli.app import (
    AsJson,
    Config,
    Run,
    Threads,
    TrustConfig,
    app,
    print_json,
    print_result,
    say,
    seconds,
)
from kgqa_hpc.errors import InputError
from kgqa_hpc.registry import REGISTRIES, Registry, did_you_mean, first_paragraph, load_plugin_file
from kgqa_hpc.text.plain_text import shell_word

Entry = dict[str, Any]
# Metrics of `kgqa score` that are built in, not registry entries.
_SCORES = ("bleu2", "bleu4", "rouge1", "rouge2", "rougeL", "meteor", "cider")
_GROUPS = ("kinds", "steps", "engines", "sources", "exports", "rules", "metrics", "sections", "commands")
# Modules that fill their registries at import.
_MODULES = (
    *("kgqa_hpc.anchors", "kgqa_hpc.steps.decision", "kgqa_hpc.engines"),
    *("kgqa_hpc.kg.sources", "kgqa_hpc.dataset.exports"),
)
_DETAILS = ("adds", "needs", "gives", "answer")
_COMMON = frozenset(["kind", "source", "use", "label"])  # keys that only name the entry are not listed


@app.command(name="list")
def list_(
    kind: Annotated[
        str,
        Argument(
            metavar="KIND",
            help="kinds, steps, engines, sources, exports, rules, metrics, sections or commands.",
        ),
    ],
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Name of an entry to show in full.")] = None,
    plugin: Annotated[list[Path] | None, Option(help="Python file with entries; repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the entries of a registry; with NAME, the keys and columns of one."""
    from kgqa_hpc.config.files import keys_of

    for file in plugin or ():
        load_plugin_file(file.resolve())
    for module in _MODULES:
        import_module(module)
    registries = {name: REGISTRIES["anchors" if name == "kinds" else name] for name in _GROUPS}
    if kind not in registries:
        hint = did_you_mean(kind, _GROUPS)
        raise InputError(f"{kind!r} is no kind of entry{hint}", f"there are {', '.join(_GROUPS)}")
    entries = _entries(kind, registries[kind])
    if name is None:
        width = max((len(entry["name"]) for entry in entries), default=0)
        lines = (f"{e['name']:<{width}}  {e['description']}  [{e['package']}]" for e in entries)
        print_result(entries, "\n".join(lines), as_json)
        return
    chosen = next((entry for entry in entries if entry["name"] == name), None)
    if chosen is None:
        raise InputError(f"{name!r} is none of {kind}{did_you_mean(name, [e['name'] for e in entries])}")
    if kind != "commands" and name in registries[kind]:
        entry = registries[kind].get(name)
        if kind in ("kinds", "steps"):
            chosen |= {key: getattr(entry, key) for key in _DETAILS if hasattr(entry, key)}
        if (settings := getattr(entry, "Settings", None)) is not None:
            chosen["keys"] = [key._asdict() for key in keys_of(settings, _COMMON)]
        chosen["columns"] = [column._asdict() for column in getattr(entry, "columns", ())]
    print_result(chosen, "\n".join(_lines(chosen)), as_json)


def _entries(kind: str, registry: Registry) -> list[Entry]:
    """Name, package and description (the first paragraph of its docstring or help) of each entry."""
    texts: dict[str, str | None] = {}
    if kind == "commands":
        group: Any = typer.main.get_group(app)
        for name in group.list_commands(None):
            try:
                texts[name] = group.get_command(None, name).help
            except InputError as problem:  # one of another package
                texts[name] = problem.message
    else:
        texts = dict.fromkeys(
            _SCORES if kind == "metrics" else (), "computed by `kgqa score` where installed"
        )
        texts |= {name: registry.get(name).__doc__ for name in registry.names()}
    return [
        {
            "name": name,
            "package": registry.origin(name) if name in registry else "kgqa_hpc",
            "description": first_paragraph(text),
        }
        for name, text in texts.items()
    ]


def _lines(entry: Entry) -> Iterator[str]:
    yield f"{entry['name']}  [{entry['package']}]\n{entry['description']}"
    for name in _DETAILS:
        if value := entry.get(name):
            yield f"{name}: {value if isinstance(value, str) else ', '.join(value)}"
    for title, members in (
        ("keys", ("key", "type", "default", "meaning")),
        ("columns", ("name", "type", "description")),
    ):
        if rows := entry.get(title):
            yield f"\n{title}:"
            yield from (
                "  " + "  ".join(str(row[member]) for member in members if row[member]) for row in rows
            )


@app.command()
def config(
    schema: Annotated[bool, Option("--schema", help="Print the JSON Schema of a configuration.")] = False,
) -> None:
    """Print the JSON Schema of a configuration, for editors."""
    from kgqa_hpc.config.files import SCHEMA_FILE, json_schema

    if not schema:
        raise InputError(
            "--schema is missing: the only output of `kgqa config` is its JSON Schema", f"> {SCHEMA_FILE}"
        )
    print_json(json_schema())


@app.command()
def ls(
    folder: Annotated[
        Path, Argument(metavar="[FOLDER]", help="Folder to search, three levels deep.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the runs below a folder."""
    from kgqa_hpc.status.render import render_runs
    from kgqa_hpc.status.snapshot import runs_below

    rows = runs_below(folder)
    print_result(rows, render_runs(rows, folder), as_json)


@app.command()
def clean(
    run: Run,
    yes: Annotated[bool, Option("--yes", help="Delete the files, not only list them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete logs, leases, quarantined files and status of an idle run."""
    from kgqa_hpc.status import snapshot as room

    parts = room.leftovers(run)
    if yes:
        room.clean(parts)
    lines = [f"{part['bytes'] / 1e6:>10,.1f} MB  {part['path']}" for part in parts] or ["nothing to delete"]
    last = [] if yes or not parts else [f"delete it: kgqa clean {shell_word(run)} --yes"]
    print_result(parts, "\n".join([*lines, *last]), as_json)


@app.command()
def status(
    run: Run,
    watch: Annotated[bool, Option("--watch", help="Refresh until the run is complete.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show finished and remaining work, speed, and stalled workers."""
    from kgqa_hpc.stages import standing
    from kgqa_hpc.status import render as room

    if watch and as_json:
        raise InputError(
            "--watch and --json exclude each other", f"repeat kgqa status {shell_word(run)} --json"
        )
    if watch:
        room.watch(lambda: standing(run))
    else:
        now = standing(run)
        print_result(now, room.render(now), as_json)


@app.command()
def plan(
    run: Run,
    gpus: Annotated[int, Option(min=1, help="GPUs that work in parallel.")] = 1,
    time: Annotated[
        str | None, Option(help="Time limit of a job; default: runtime.time_limit or 2 days.")
    ] = None,
    pilot: Annotated[
        Path | None, Option(help="Small finished run on the same engine, or the JSON of kgqa bench.")
    ] = None,
    pilot_gpus: Annotated[int, Option(min=1, help="GPUs of the pilot run.")] = 1,
    tokens_per_second: Annotated[
        float | None, Option(min=0.01, help="Tokens that one GPU generates per second.")
    ] = None,
    price: Annotated[
        tuple[float, float] | None, Option(help="Prices of a million input and a million output tokens.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate GPU-hours, wall time, jobs, disk and cost of a run."""
    from kgqa_hpc.status import forecast as room

    document = room.plan(
        run,
        gpus=gpus,
        limit=None if time is None else seconds("--time", time),
        pilot=pilot,
        pilot_gpus=pilot_gpus,
        tokens_per_s=tokens_per_second,
        price=price,
    )
    print_result(document, room.render(document), as_json)


@app.command()
def explain(
    run: Run,
    items: Annotated[list[str], Argument(metavar="ITEM", help="Ids of records or anchors.")],
    as_json: AsJson = False,
) -> None:
    """Show the full history of items: anchor, prompts, raw outputs, verdicts, versions."""
    from kgqa_hpc.dataset import explain as room

    stories = [room.explain(run, item) for item in items]
    text = "\n\n".join(map(room.render, stories))
    print_result(stories if len(stories) > 1 else stories[0], text, as_json)


@app.command()
def replay(
    run: Run,
    item: Annotated[str, Argument(metavar="ITEM", help="The id of a record or anchor.")],
    trust_config: TrustConfig = False,
    as_json: AsJson = False,
) -> None:
    """Repeat an item's requests and show how the answers differ; RUN stays unchanged."""
    from kgqa_hpc.trials import replay as room

    document = room.replay(run, item, trust=trust_config)
    print_result(document, room.render(document), as_json)


@app.command()
def doctor(
    gpu: Annotated[
        bool, Option("--gpu", help="Also test a GPU kernel, guided decoding, and a start on two GPUs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check this machine, and print the cure of each failed check."""
    from dataclasses import asdict

    from kgqa_hpc import doctor as room

    checks = room.diagnose()
    if gpu:
        from kgqa_hpc.doctor.gpu import gpu_checks

        checks += gpu_checks()
    print_result([asdict(check) for check in checks], room.render(checks), as_json)
    raise typer.Exit(room.exit_code(checks))


@app.command()
def count(
    nodes: Annotated[str, Option(help="CSV with id,name,type, or .gz.")],
    edges: Annotated[str, Option(help="CSV with source_id,target_id,type, or .gz.")],
    min_degree: Annotated[int, Option(min=0, help="Smallest degree of a node.")] = 3,
    max_degree: Annotated[int, Option(min=1, help="Largest degree of a node.")] = 100,
    backend: Annotated[Literal["native", "graph-tool"], Option(help="Program that counts.")] = "native",
    unknown_nodes: Annotated[
        Literal["error", "drop"], Option(help="Treatment of edges with unknown nodes.")
    ] = "error",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Count the 29 graphlet shapes of a reduced graph exactly, without a run."""
    from kgqa_hpc import stages
    from kgqa_hpc.graphlets.shapes import SHAPES

    files = {"source": "csv", "nodes": nodes, "edges": edges, "unknown_nodes": unknown_nodes}
    limits = {"min_degree": min_degree, "max_degree": max_degree}
    document = stages.count({**files, **limits}, backend, threads)
    lines = [f"{document['nodes']:,} nodes, {document['edges']:,} edges"]
    for key, total in document["counts"].items():
        lines.append(f"{key:>3}  {SHAPES[int(key)].name:<34} {total:>26,}")
    print_result(document, "\n".join(lines), as_json)


@app.command()
def bench(
    config: Config,
    run: Annotated[
        Path | None, Option(help="Run with the prompts; default: prompts over CONFIG's graph.")
    ] = None,
    number: Annotated[
        int | None,
        Option("-n", "--number", min=1, help="Prompts per measurement; default: three times its batch."),
    ] = None,
    batch: Annotated[list[int] | None, Option(min=1, help="Requests in flight; repeatable.")] = None,
    out: Annotated[Path | None, Option(help="Also write the JSON here, for plan --pilot.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure CONFIG's engine: tokens per second, latency, cost of guided decoding."""
    import json

    from kgqa_hpc.store.atomic import make_folder, write_file
    from kgqa_hpc.trials import bench as room

    if out is not None:
        make_folder(out.parent)

    def row_done(document: dict[str, Any]) -> None:
        if out is not None:
            write_file(out, json.dumps(document, indent=2).encode() + b"\n")
        lines = room.header(document) if len(document["rows"]) == 1 else []
        for line in (*lines, room.row_line(document["rows"][-1])):
            say(line, aside=as_json)

    document = room.bench(config, run, number=number, batches=batch, row_done=row_done)
    print_result(document, "\n".join(room.summary(document)), as_json)


@app.command()
def preview(
    config: Config,
    number: Annotated[int, Option("-n", "--number", min=1, max=1000, help="Items.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Process a few items with all steps before a run exists."""
    from kgqa_hpc import run as room

    document = room.Run.from_config(config, "preview").preview(number)
    print_result(document, document, as_json)
