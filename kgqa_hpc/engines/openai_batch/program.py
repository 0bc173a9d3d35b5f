"""Batches answered by a program on this machine: `vllm run-batch -i {input} -o {output} --model …`.

One batch at a time, under the supervisor of the openai engine's servers: it ends with this process. A batch whose
program was killed is run again from its input.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kgqa_hpc.engines.openai_batch.server import Look
from kgqa_hpc.errors import EngineConfigError

CLOSE_S = 30.0


class BatchProgram:
    """Implements `Batches` with a command. The id of a batch is its name."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command, self._folder = command, folder
        self._running: tuple[str, subprocess.Popen[bytes]] | None = None

    def upload(self, data: bytes) -> str:
        path = self._folder / f"{secrets.token_hex(8)}.upload"
        path.write_bytes(data)
        return path.name

    def create(self, file: str, name: str) -> str:
        (self._folder / file).rename(self._input(name))
        return name

    def find(self, name: str, began: float) -> str | None:
        return name if self._input(name).exists() else None

    def look(self, server_id: str) -> Look:
        if self._output(server_id).exists():
            return Look(True, [server_id])
        if not self._input(server_id).exists():
            return Look(True)
        if self._running is None:
            self._start(server_id)
        elif self._running[1].poll() is not None:
            self._finish(*self._running)
        return Look(False)

    def lines(self, file: str) -> Iterator[bytes]:
        with open(self._output(file), "rb") as answers:
            yield from answers

    def close(self) -> None:
        if self._running is not None:
            _, supervisor = self._running
            self._running = None
            assert supervisor.stdin is not None
            with suppress(BrokenPipeError):
                supervisor.stdin.close()
            supervisor.wait(CLOSE_S)

    def _start(self, name: str) -> None:
        paths = {"{input}": str(self._input(name)), "{output}": str(self._partial(name))}
        words = list(self._command)
        for mark, path in paths.items():
            words = [word.replace(mark, path) for word in words]
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "kgqa_hpc.engines.openai.local_server", *words],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._running = (name, supervisor)

    def _finish(self, name: str, supervisor: subprocess.Popen[bytes]) -> None:
        self.close()
        if supervisor.returncode or not self._partial(name).exists():
            raise EngineConfigError(
                f"engine.command: {self._command[0]} ended with exit code {supervisor.returncode} and "
                f"{'an' if self._partial(name).exists() else 'no'} output",
                "its last words are in the engine's log",
            )
        self._partial(name).rename(self._output(name))

    def _input(self, name: str) -> Path:
        return self._folder / f"{name}.input.jsonl"

    def _partial(self, name: str) -> Path:
        return self._folder / f"{name}.partial.jsonl"

    def _output(self, name: str) -> Path:
        return self._folder / f"{name}.output.jsonl"
