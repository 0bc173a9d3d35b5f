"""What each registry holds, and which package of the user's own brings what."""

from __future__ import annotations

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.dataset.exports import EXPORTS
from kgqa_hpc.doctor.probes import Check
from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import Registry
from kgqa_hpc.steps import STEPS

REGISTRIES = (SOURCES, KINDS, STEPS, ENGINES, EXPORTS)


def registries(timeout: float) -> list[Check]:
    """One check for each registry; a foreign entry that cannot be imported is told with its package."""
    return [_registry(each) for each in REGISTRIES]


def _registry(registry: Registry) -> Check:
    name = f"{registry.group} known"
    try:
        foreign = [each for each in registry.names() if registry.origin(each) != "kgqa_hpc"]
        for each in foreign:
            registry.get(each)
    except ConfigError as problem:
        return Check(name, False, problem.message, problem.cure or "mend or uninstall that package")
    own = ", ".join(each for each in registry.names() if each not in foreign)
    others = "".join(f"; {each} of {registry.origin(each)}" for each in foreign)
    return Check(name, True, f"{own}{others}")
