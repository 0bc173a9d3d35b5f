"""Commands around runs: listings, and growth.

Listings: entries of the registries, the schema of a configuration, runs in a folder, unneeded files. Growth: a larger
sample, a further judge, prompts from other programs.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from kgqa_hpc.cli.app import AsJson, Run, Threads, TrustConfig, app, print_json, print_result, say
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
_COMMON = frozenset(["kind", "source", "use", "label"])  # keys that name the entry itself

prompts_app = typer.Typer(help="Import prompts of other programs.", no_args_is_help=True)
app.add_typer(prompts_app, name="prompts")


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
        texts = {name: group.get_command(None, name).help for name in group.list_commands(None)}
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
    from kgqa_hpc.config.files import FILE, json_schema

    if not schema:
        raise InputError(
            "--schema is missing: the only output of `kgqa config` is its JSON Schema", f"> {FILE}"
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
    """Delete logs, leases, set-aside files and status of a run at rest."""
    from kgqa_hpc.status import snapshot as room

    parts = room.leftovers(run)
    if yes:
        room.clean(parts)
    lines = [f"{part['bytes'] / 1e6:>10,.1f} MB  {part['path']}" for part in parts] or ["nothing to delete"]
    last = [] if yes or not parts else [f"delete it: kgqa clean {shell_word(run)} --yes"]
    print_result(parts, "\n".join([*lines, *last]), as_json)


@app.command()
def extend(
    run: Run,
    per_shape: Annotated[int | None, Option(min=1, help="Graphlets of each shape in all.")] = None,
    number: Annotated[int | None, Option(min=1, help="Anchors in all, for other kinds.")] = None,
    threads: Threads = None,
    trust_config: TrustConfig = False,
) -> None:
    """Draw a larger sample that contains the old one; then run and merge."""
    from kgqa_hpc.runs import open_run
    from kgqa_hpc.runs.sampling import extend as draw_more

    anchors = open_run(run)[1].anchors
    by_shape = type(anchors).size == "per_shape"
    if (per_shape is not None, number is not None) != (by_shape, not by_shape):
        option = "--per-shape N" if by_shape else "--number N"
        raise InputError(f"how many? anchors of kind {anchors.kind} are counted by {option}")
    say(draw_more(run, per_shape or number or 0, threads, trust=trust_config))
    say(f"next: kgqa run {shell_word(run)}")


@app.command()
def judge(
    run: Run,
    prompt: Annotated[str, Option(help="Name of a judging prompt, or a file NAME.md.")],
    engine: Annotated[
        Path | None,
        Option(help="YAML file with the keys of `engine:`, or a configuration; default: the run's engine."),
    ] = None,
    name: Annotated[
        str | None, Option(help="Name of the judge and its pass; default: the prompt's name.")
    ] = None,
    trust_config: TrustConfig = False,
) -> None:
    """Add a judge to a run and ask it about every pair; then merge."""
    from kgqa_hpc.run import Run as AnyRun
    from kgqa_hpc.store.yaml_file import load_yaml

    opened = AnyRun(run)
    try:
        section = None if engine is None else load_yaml(engine)
    except FileNotFoundError:
        raise InputError(f"{engine}: no such file", "name a YAML file with an engine") from None
    if isinstance(section, dict):
        section = section.get("engine", section)
    opened.judge(prompt, engine=section, name=name, trust=trust_config)
    say(f"judged as {name or Path(prompt).stem}; next: kgqa merge {shell_word(run)}")


@prompts_app.command(name="import")
def prompts_import(
    file: Annotated[
        Path, Argument(metavar="FILE", help="JSON object of prompt texts, or a single text (.txt).")
    ],
    step: Annotated[
        Literal["generate", "judge", "score"], Option(help="The step that the texts are for.")
    ] = "generate",
    to: Annotated[Path, Option(help="The folder of prompts to write.")] = Path("my_prompts"),
) -> None:
    """Convert a template file of the published pipeline into prompt files."""
    from kgqa_hpc.prompts.templates import import_templates

    for path in import_templates(file, to, step):
        print(path)
