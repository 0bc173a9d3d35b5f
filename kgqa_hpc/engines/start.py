"""Start the engine a configuration asks for; imports the one module it needs."""

from __future__ import annotations

from pathlib import Path

from kgqa_hpc.engines.config import (
    CpuEngineConfig,
    EngineConfig,
    LmdeployEngineConfig,
    OpenAIEngineConfig,
    ScriptedEngineConfig,
)
from kgqa_hpc.engines.engine import Engine


def start_engine(config: EngineConfig, memory: Path | None = None) -> Engine:
    """A started engine in this process; workers use engines/process.py, which calls this in a child.

    `memory` is a file in which the scripted engine remembers faults across restarts. Raises EngineConfigError
    when the engine cannot start as configured.
    """
    if isinstance(config, ScriptedEngineConfig):
        from kgqa_hpc.engines.scripted import ScriptedEngine

        return ScriptedEngine(config, memory)
    if isinstance(config, CpuEngineConfig):
        from kgqa_hpc.engines.cpu import CpuEngine

        return CpuEngine(config)
    if isinstance(config, OpenAIEngineConfig):
        from kgqa_hpc.engines.openai import OpenAIEngine

        return OpenAIEngine(config)
    assert isinstance(config, LmdeployEngineConfig)
    from kgqa_hpc.engines.lmdeploy import LmdeployEngine

    return LmdeployEngine(config)
