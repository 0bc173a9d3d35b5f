"""Settings as Python objects: `kgqa_hpc.Csv(nodes=...)`, `Graphlets(per_shape=10)`, `Generate("p5")`, `OpenAI(...)`.

Each of these functions returns the checked `Settings` of one registry entry. Its name is the entry's name in CamelCase;
names of anchor kinds are plural (`Paths`), so that they differ from those of steps and engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import Registry
from kgqa_hpc.settings import Problems, section
from kgqa_hpc.steps import STEPS

_SPECIAL = {"openai": "OpenAI", "openai_batch": "OpenAIBatch", "hpo": "HPO"}


class _Sort(NamedTuple):
    """One sort of entries: its registry and the key that names the entry."""

    registry: Registry
    by: str
    ending: str = ""


SORTS = {
    "graph": _Sort(SOURCES, "source"),
    "anchors": _Sort(KINDS, "kind", "s"),
    "step": _Sort(STEPS, "use"),
    "engine": _Sort(ENGINES, "kind"),
}


@cache
def names() -> dict[str, tuple[str, str]]:
    """(sort, entry name) of each function, by the function's name."""
    entries: dict[str, tuple[str, str]] = {}
    for sort, (registry, _, ending) in SORTS.items():
        for entry in registry.names():
            camel = _SPECIAL.get(entry, "".join(part.title() for part in entry.replace("-", "_").split("_")))
            entries.setdefault(camel if camel.endswith(ending or "\0") else camel + ending, (sort, entry))
    return entries


def factory(name: str) -> Callable[..., Any]:
    """The function behind one of `names()`."""
    sort, entry = names()[name]

    def make(prompt: str | None = None, /, **keys: Any) -> Any:
        return settings_of(sort, {**({"prompt": prompt} if prompt else {}), **keys}, entry)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Settings of {SORTS[sort].registry.what} {entry}; see docs/reference/config.md."
    return make


def settings_of(sort: str, keys: Mapping[str, Any], entry: str) -> Any:
    """The checked settings of an entry. Raises ConfigError with every problem."""
    registry, by, _ = SORTS[sort]
    data = {**keys, by: entry}
    if sort == "step":
        data = {"as": entry, "prompt": STEPS.get(entry).default_prompt, **data}
    problems = Problems()
    settings = section(registry, by, data, (entry,), problems)
    if problems.lines:
        raise ConfigError("\n".join(problems.lines), "see docs/reference/config.md")
    return settings


def plain(sort: str, value: Any) -> Any:
    """A settings object as a mapping for a configuration; a mapping or a name is returned unchanged."""
    registry, by, _ = SORTS[sort]
    if not isinstance(value, BaseModel):
        return dict(value) if isinstance(value, Mapping) else value
    data = value.model_dump(mode="json", exclude_unset=True)
    if by not in data:  # settings that were made by their own class
        data[by] = next(
            (name for name in registry.names() if registry.get(name).Settings is type(value)), None
        )
    return data
