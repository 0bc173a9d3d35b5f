"""Engines, which answer prompts: their interface, their registry, and their settings from a configuration.

Packages add engines by the entry point `kgqa_hpc.engines`. `EngineConfig` is the type of the field `engine` in a
pydantic model: it validates through the registry, and its errors name the full key (`engine.kind`,
`engine.faults.crash`).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.registry import Registry
from kgqa_hpc.settings import section


class Engine(Protocol):
    """A started engine. It lives in a child process (engines/child.py); one thread calls `generate`.

    Made by `Class(settings, memory)`: `memory` is a file that outlives the process. Raises EngineConfigError
    when it cannot start as configured. Optional attributes: `progress`, a number that grows while the engine works
    (tokens), which tells a long answer from a hang; `probe()`, a class method that returns a Readiness
    (default: whether the `package` of the settings is installed);
    `ask_once(settings)`, a static method that tries the server or function before other work begins; `server_load`,
    counts of server failures (engines/engine.py); `keeps_batches`: the constructor also takes `folder`, a folder of
    the run for files that outlive all processes.
    """

    info: EngineInfo

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        """Check the schemas before GPU time is spent. Raises EngineConfigError when one cannot be served."""

    def generate(self, mailbox: Mailbox) -> Iterator[Response]:
        """Yield one response per request of the mailbox, in the order of completion.

        Reading the mailbox may block while it is empty; responses that are ready must be yielded before.
        Ends when the mailbox has ended and all requests are answered, or after a cancel. An error of one
        request is a response with finish `error`, never an exception.
        """

    def close(self) -> None:
        """Free the model. Idempotent."""


ENGINES = Registry(
    "engines",
    "engine",
    {
        "lmdeploy": "kgqa_hpc.engines.lmdeploy:LmdeployEngine",
        "openai": "kgqa_hpc.engines.openai.engine:OpenAIEngine",
        "cpu": "kgqa_hpc.engines.cpu:CpuEngine",
        "function": "kgqa_hpc.engines.function:FunctionEngine",
        "scripted": "kgqa_hpc.engines.scripted:ScriptedEngine",
    },
)


def parse_engine(data: Any, base: Path | None = None) -> EngineSettings:
    """Checked settings of the engine that `data["kind"]` names; settings pass as they are.

    Relative paths start in the folder `base`.

    Raises ValueError, as pydantic's ValidationError with the key of every problem, and ConfigError for an engine
    of another package that cannot be imported.
    """
    if isinstance(data, EngineSettings):
        return data
    if not isinstance(data, Mapping):
        raise ValueError("must be a mapping such as {kind: cpu}")
    if (kind := str(data.get("kind"))) in ENGINES:
        retired = ENGINES.get(kind).Settings.retired
        data = {key: value for key, value in data.items() if key not in retired}
    settings: EngineSettings = section(ENGINES, "kind", data, base)
    return settings


EngineConfig = Annotated[
    Any, BeforeValidator(lambda data, info: parse_engine(data, (info.context or {}).get("base")))
]


def operational(kind: str) -> frozenset[str]:
    """Settings of a kind of engine that never change an answer. The fingerprint leaves them out: a run can continue
    with other machines, servers or batch sizes.
    """
    settings: type[EngineSettings] = ENGINES.get(kind).Settings
    return settings.operational | {"price"}
