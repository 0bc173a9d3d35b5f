"""The `kgqa` application itself: entry point, exit codes, and what several verbs share."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kgqa_hpc import __version__
from kgqa_hpc.errors import InputError, KgqaError
from kgqa_hpc.terminal import LOG, set_up
from kgqa_hpc.text.plain_text import plain, plain_json

# `kgqa --help` lists the commands in this order; what stands nowhere here comes last.
SECTIONS = {
    "From a configuration to a dataset, in this order": "init import hydrate sample run merge report all",
    "On a cluster": "plan submit status requeue doctor bench",
    "Look": "preview show explain replay kg count",
    "Judge and grow": "judge extend study panel retest hallucination calibrate human grounding score",
    "Datasets": "combine export publish diversity",
    "Documents, scripts, prompts": "index mentions gasl prompts",
}


class Verbs(TyperGroup):
    """The commands under the titles of SECTIONS, each with its first sentence whole."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        left = {name: command for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))}
        for title, names in {**SECTIONS, "Others": " ".join(left)}.items():
            rows = [(name, _first_sentence(left.pop(name).help)) for name in names.split() if name in left]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split(".\n")[0].split(". ")[0].split()).removesuffix(".") + "."


app = typer.Typer(
    name="kgqa",
    cls=Verbs,
    help="From a knowledge graph to a judged, traceable question-answer dataset.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")]
Config = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="A configuration; kgqa init --example writes one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="Default: the cores this process may use.")
]


def main() -> None:
    """Entry point: turns the project's errors into one clear line and the right exit code."""
    try:
        app()
    except KgqaError as problem:
        LOG.debug("this is where it was noticed", exc_info=True)
        print(plain(f"error: {problem}"), file=sys.stderr)
        sys.exit(problem.exit_code)
    except BrokenPipeError:  # `kgqa … | head`: not a failure of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)


def print_json(document: Any, indent: int | None = 2) -> None:
    """Print a document as JSON that no terminal obeys; what reads it gets every character back."""
    print(plain_json(json.dumps(document, indent=indent, ensure_ascii=False)))


def say(text: object, *, aside: bool = False) -> None:
    """Print text in which names, answers or paths of others may stand; `aside` to stderr."""
    print(plain(str(text)), file=sys.stderr if aside else None)


def print_result(document: Any, text: object, as_json: bool) -> None:
    """Print what a verb found: the document with --json, else the same as text."""
    if as_json:
        print_json(document)
    else:
        say(text)


def seconds(option: str, text: str) -> float:
    from kgqa_hpc.text.durations import parse_duration

    try:
        return float(str(parse_duration(text)))
    except ValueError as problem:
        raise InputError(f"{option} {text!r} {problem}") from None


def _version(wanted: bool) -> None:
    if wanted:
        print(f"kgqa {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also debug messages, on stderr. Before the verb.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only results and errors. Before the verb.")
    ] = False,
) -> None:
    if verbose and quiet:
        raise InputError("--verbose and --quiet: choose one")
    set_up(quiet=quiet, verbose=verbose)
    LOG.debug("kgqa %s, Python %s, %s", __version__, sys.version.split()[0], Path(__file__).parents[1])
