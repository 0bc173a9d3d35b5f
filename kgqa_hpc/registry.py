"""Everything that can be many is found by name: anchor kinds, steps, engines, graph sources, exports.

A registry lists the entries the package ships, each as a module path that is imported only when the entry is
asked for, and the entries of other packages, announced by an entry point `kgqa_hpc.<registry>`. An entry is
one class with a `name` and, where it has settings, a pydantic model `Settings`; its docstring describes it.

A package of the user's own adds one with

    [project.entry-points."kgqa_hpc.steps"]
    translate = "my_package.translate:Translate"

A foreign entry may not take the name of a shipped one: `judge` must mean the same on every machine.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kgqa_hpc.errors import ConfigError


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """', did you mean X?' for the nearest of the known words, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f", did you mean {near[0]}?" if near else ""


class Registry:
    """Named entries of one sort.

    `group` is the last part of the entry-point group, `what` the word for messages ("step"), `shipped` maps
    a name to "module:Class".
    """

    def __init__(self, group: str, what: str, shipped: Mapping[str, str]) -> None:
        self.group = group
        self.what = what
        self._shipped = dict(shipped)
        self._loaded: dict[str, Any] = {}

    @cached_property
    def _foreign(self) -> dict[str, EntryPoint]:
        found = {point.name: point for point in entry_points(group=f"kgqa_hpc.{self.group}")}
        if taken := sorted(found.keys() & self._shipped.keys()):
            origin = found[taken[0]].dist
            raise ConfigError(
                f"{self.what} {taken[0]!r} of package {origin.name if origin else '(unknown)'}: "
                "kgqa_hpc has one of that name already",
                f"rename its entry point in the group kgqa_hpc.{self.group}",
            )
        return found

    def names(self) -> list[str]:
        """All known names, shipped ones first."""
        return [*self._shipped, *sorted(self._foreign)]

    def __contains__(self, name: object) -> bool:
        return name in self._shipped or name in self._foreign

    def origin(self, name: str) -> str:
        """'kgqa_hpc', or the name and version of the package that brings the entry."""
        if name in self._shipped:
            return "kgqa_hpc"
        package = self._foreign[name].dist
        return f"{package.name} {package.version}" if package else "(unknown package)"

    def get(self, name: str) -> Any:
        """The entry's class. Raises ConfigError for an unknown name, or one that cannot be imported."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def unknown(self, name: str) -> str:
        """The message for an unknown name."""
        known = self.names()
        return f"unknown {self.what} {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}"

    def _load(self, name: str) -> Any:
        if path := self._shipped.get(name):
            module, _, attribute = path.partition(":")
            return getattr(import_module(module), attribute)
        if name not in self._foreign:
            raise ConfigError(self.unknown(name))
        try:
            return self._foreign[name].load()
        except Exception as problem:
            raise ConfigError(
                f"{self.what} {name!r} of {self.origin(name)} cannot be imported: "
                f"{type(problem).__name__}: {problem}",
                "mend or uninstall that package",
            ) from problem
