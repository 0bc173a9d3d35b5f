"""The engines: those shipped here, and those of other packages by entry point `kgqa_hpc.engines`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from kgqa_hpc.engines.engine import EngineInfo, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.registry import Registry


class Engine(Protocol):
    """A started engine. It lives in a child process (engines/child.py); one thread calls `generate`.

    Made by `Class(settings, memory)`: `memory` is a file that outlives the process. Raises EngineConfigError
    when it cannot start as configured. Optional: `progress`, a number that grows while it works (tokens), so
    that a long answer is told from a hang; `probe()`, a class method that gives a Readiness; `ask_once(settings)`, a
    class method that asks a server before other work begins; `server_load`, troubles with it (engines/engine.py);
    `keeps_batches`: it is also given `folder`, a folder of the run for what outlives all processes.
    """

    info: EngineInfo

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        """Refuse before GPU time is spent: raises EngineConfigError when a schema cannot be served."""

    def generate(self, mailbox: Mailbox) -> Iterator[Response]:
        """Yield one response per request of the mailbox, in the order of completion.

        Reading the mailbox may block while nothing is queued; responses that are ready must be yielded
        meanwhile. Ends when the mailbox has ended and all are answered, or after a cancel. Trouble with one
        request is a response with finish `error`, never an exception.
        """

    def close(self) -> None:
        """Free the model. Idempotent."""


ENGINES = Registry(
    "engines",
    "engine",
    {
        "lmdeploy": "kgqa_hpc.engines.lmdeploy.engine:LmdeployEngine",
        "openai": "kgqa_hpc.engines.openai.engine:OpenAIEngine",
        "openai_batch": "kgqa_hpc.engines.openai_batch.engine:OpenAIBatchEngine",
        "cpu": "kgqa_hpc.engines.cpu.engine:CpuEngine",
        "function": "kgqa_hpc.engines.function:FunctionEngine",
        "scripted": "kgqa_hpc.engines.scripted.engine:ScriptedEngine",
    },
)
