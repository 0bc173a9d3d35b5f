"""The `kgqa` command: `kgqa` calls it in this process, `program` starts it as a user does, which takes a second.

What a verb does and says is the same in both; a program of its own is for signals, for what its own children print, and
for tests/test_cli.py, which goes once from graph to report by real commands.
"""

import functools
import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import typer.main

from kgqa_hpc.cli import main
from kgqa_hpc.terminal import set_up

# Typer builds the tree of commands anew for each call, which takes 14 ms.
typer.main.get_command = functools.cache(typer.main.get_command)
Done = subprocess.CompletedProcess[str]
FOREIGN = ("SLURM_", "OMPI_", "PMI", "PRTE_", "KGQA_", "SBATCH_")


def environment(**extra: str) -> dict[str, str]:
    """This environment without any launcher's variables."""
    return {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)} | extra


def programs(folder: Path, **texts: str) -> str:
    """Write programs of these names into a new folder `bin`; the PATH on which they come first. A text without a first
    line of its own is a shell script.
    """
    (folder / "bin").mkdir(exist_ok=True)
    for name, text in texts.items():
        path = folder / "bin" / name
        path.write_text(text if text.startswith("#!") else f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)
    return f"{folder / 'bin'}:{os.environ['PATH']}"


def bare(folder: Path, basics: str, **texts: str) -> dict[str, str]:
    """The environment of a machine that has nothing but basic programs and these shell scripts (`_` stands for `-`)."""
    for name in set(basics.split()) - texts.keys():
        (folder / name).symlink_to(shutil.which(name) or name)
    for name, text in texts.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
        path.chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder)}


def kgqa(*words: object, code: int | None = 0, **variables: str) -> Done:
    """What the command says and its exit code, which must be `code` unless that is None. Its own children's words are
    not in it.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    ended = 0
    with (
        mock.patch.object(sys, "argv", ["kgqa", *map(str, words)]),
        mock.patch.dict(os.environ, environment(**variables), clear=True),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            ended = int(end.code or 0)
        finally:
            set_up()  # for -q and -v hold for this process until they are taken back
    said = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return _as_expected(subprocess.CompletedProcess(words, ended, *said), code)


def program(
    *words: object, code: int | None = 0, more: dict[str, Any] | None = None, **variables: str
) -> Done:
    """The same by a process of its own; `more` goes to subprocess.run. Nobody ever sees a traceback."""
    line = [sys.executable, "-m", "kgqa_hpc", *map(str, words)]
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=900, env=environment(**variables), **(more or {})
    )
    return _as_expected(done, code)


def end_tree(process: subprocess.Popen[Any]) -> None:
    """Kill a process that may still live, with all that it started."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
            with suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()
    process.communicate()


def _as_expected(done: Done, code: int | None) -> Done:
    assert "-v" in done.args or "Traceback" not in done.stderr, done.stderr
    assert code in (None, done.returncode), f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


class JsonChild:
    """A Python program that answers each JSON line on its standard input with one on its standard output."""

    def __init__(self, script: Path) -> None:
        path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        self._process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(PYTHONPATH=path),
        )

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))

    def end(self) -> None:
        self._process.communicate()
