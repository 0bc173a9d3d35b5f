"""The `kgqa` application: entry point, exit codes, and options shared by several commands."""

import json
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from kgqa_hpc import __version__
from kgqa_hpc.errors import DiskFull, InputError, KgqaError, StoppedEarly
from kgqa_hpc.registry import Registry, first_paragraph, shipped_plugins
from kgqa_hpc.terminal import LOG, set_up
from kgqa_hpc.text.plain_text import parse_duration, plain, plain_json

# `kgqa --help` describes the commands of the usual workflow, in this order, and names the others by group.
MAIN = "init preview all status show explain judge merge report publish"
GROUPS = {
    "one stage": "import sample run",
    "cluster": "doctor plan bench submit requeue broadcast",
    "look": "ls list sql kg count replay",
    "grow": "extend prompts",
    "datasets": "export combine",
    "files": "config clean",
}
# Shipped commands are in the registry by name only, so that no package takes one: typer has them.
COMMANDS = Registry("commands", "command", dict.fromkeys(" ".join([MAIN, *GROUPS.values()]).split(), ""))
ROOT_OPTIONS = ("-q", "--quiet", "-v", "--verbose")


class Verbs(TyperGroup):
    """Group of all commands; a command from the registry (a function, or a typer application with commands of its own)
    is imported only when it is called.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*super().list_commands(ctx), *COMMANDS.names()]))

    def get_command(self, ctx: Any, name: str) -> Any:
        if (command := super().get_command(ctx, name)) or name not in COMMANDS:
            return command
        entry = COMMANDS.get(name)
        parent = typer.Typer(add_completion=False, rich_markup_mode=None)
        with COMMANDS.calling(name):
            if isinstance(entry, typer.Typer):
                parent.add_typer(entry, name=name)
            else:
                # Without a callback, typer treats a single command as the application.
                parent.callback()(lambda: None)
                parent.command(name)(entry)
            group: Any = typer.main.get_group(parent)
            return group.commands[name]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as problem:
            if (option := getattr(problem, "option_name", None)) in ROOT_OPTIONS:
                raise InputError(
                    f"{option} stands before the command", f"kgqa {option} {ctx.invoked_subcommand} …"
                ) from None
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands: dict[str, Any] = {name: super(Verbs, self).get_command(ctx, name) for name in MAIN.split()}
        with formatter.section("From a configuration to a dataset"):
            texts = {name: first_paragraph(verb.help).split(". ")[0] for name, verb in commands.items()}
            formatter.write_dl([(name, f"{text.removesuffix('.')}.") for name, text in texts.items()])
        plugins = {
            plugin.SECTION.lower(): " ".join(plugin.ENTRIES.get("commands", ()))
            for plugin in shipped_plugins().values()
        }
        groups = {title: names.split() for title, names in {**GROUPS, **plugins}.items()}
        listed = {*commands, *(name for names in groups.values() for name in names)}
        groups["others"] = [name for name in self.list_commands(ctx) if name not in listed]
        with formatter.section("More, by task (kgqa list commands describes each)"):
            formatter.write_dl([(title, ", ".join(names)) for title, names in groups.items() if names])


app = typer.Typer(
    name="kgqa",
    cls=Verbs,
    help="From a knowledge graph to a judged, traceable question-answer dataset.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Run = Annotated[Path, Argument(metavar="RUN", help="The run folder.")]
Config = Annotated[Path, Argument(metavar="CONFIG", help="A configuration; kgqa init --example writes one.")]
AsJson = Annotated[bool, Option("--json", help="Print one JSON document instead of text.")]
TrustConfig = Annotated[
    bool,
    Option("--trust-config", help="Agree to the commands and servers that the run's configuration names."),
]
Threads = Annotated[int | None, Option(min=1, help="Threads; default: the cores this process may use.")]


def main() -> None:
    """Entry point: turns the project's errors into one clear line and the right exit code.

    Errors of the operating system (too many open files, no rights, no memory) are printed in the same form. Output is
    UTF-8 whatever the locale: programs read it, and an ASCII terminal would end the command at the first dash.
    """
    # Replace a closed stdout or stderr: otherwise the next file that is opened would get its descriptor.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # an error of the flush can still be reported here
    except KgqaError as problem:
        _end_with(problem)
    except BrokenPipeError:  # the reader has ended, as in `kgqa … | head`
        _drop_output()
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as problem:
        from kgqa_hpc.store.atomic import disk_error

        error = disk_error(Path(os.fsdecode(problem.filename or "output")), problem)
        if problem.filename is None:
            if not isinstance(error, DiskFull):
                raise
            _drop_output()
        _end_with(error)
    except MemoryError:
        _end_with(KgqaError("not enough memory", "free some, or ask for more (ulimit -v, --mem of Slurm)"))


def _drop_output() -> None:
    """Send further output to /dev/null, so that the flush at exit succeeds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_with(problem: KgqaError) -> NoReturn:
    LOG.debug("the error was raised here", exc_info=True)
    word = "" if isinstance(problem, StoppedEarly) else "error: "
    with suppress(OSError):  # a log on a full disk must not change the exit code
        print(plain(f"{word}{problem}"), file=sys.stderr)
    sys.exit(problem.exit_code)


def print_json(document: Any, indent: int | None = 2) -> None:
    """Print a document as JSON with control characters escaped: no terminal acts on them, and parsers restore them.

    NaN and infinity, which JSON does not have, become null.
    """
    document = json.loads(json.dumps(document), parse_constant=lambda _: None)
    print(plain_json(json.dumps(document, indent=indent, ensure_ascii=False)))


def say(text: object, *, aside: bool = False) -> None:
    """Print text with control characters of foreign names and answers removed; `aside` prints to stderr."""
    print(plain(str(text)), file=sys.stderr if aside else None)


def print_result(document: Any, text: object, as_json: bool) -> None:
    """Print a command's result: the document with --json, otherwise its text form."""
    if as_json:
        print_json(document)
    else:
        say(text)


def seconds(option: str, text: str) -> float:
    """The duration that an option gives. Raises InputError."""
    try:
        return float(str(parse_duration(text)))
    except ValueError as problem:
        raise InputError(f"{option} {text!r} {problem}") from None


def _version(requested: bool) -> None:
    if requested:
        print(f"kgqa {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: Annotated[bool, Option("--verbose", "-v", help="Also print debug messages on stderr.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print only results and errors.")] = False,
) -> None:
    if verbose and quiet:
        raise InputError("--verbose and --quiet: choose one")
    set_up(quiet=quiet, verbose=verbose)
    LOG.debug("kgqa %s, Python %s, %s", __version__, sys.version.split()[0], Path(__file__).parents[1])
