"""Registries: named anchor kinds, steps, engines, graph sources, exports, commands and other entries.

A registry joins three lists: the entries of the core, the tables of the plugins that ship with the package
(kgqa_hpc/plugins), and the entries of other packages, announced by an entry point `kgqa_hpc.<registry>`. The
module of an entry is imported only when the entry is asked for. An entry is one class with a `name` and, where it
has settings, a pydantic model `Settings`; its docstring describes it. An entry of `commands` is a function or a
typer application.

A user's package adds an entry with

    [project.entry-points."kgqa_hpc.steps"]
    translate = "my_package.translate:Translate"

Classes of a file that the configuration names under `plugins:` are entries too (kgqa_hpc/plugin_files.py). No other
entry may take the name of a shipped one: `judge` must mean the same on every machine.
"""

import difflib
import hashlib
import pkgutil
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from kgqa_hpc.errors import ConfigError, ExtensionError, KgqaError


def first_paragraph(text: str | None) -> str:
    """The first paragraph of a docstring on one line; "" if there is none."""
    return " ".join((text or "").strip().split("\n\n")[0].split())


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """', did you mean X?' with the nearest of `words`; "" if none is near."""
    near = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f", did you mean {near[0]}?" if near else ""


@cache
def shipped_plugins() -> dict[str, ModuleType]:
    """The `__init__` modules of this package's plugins, by name. They hold tables and import no other module."""
    return {
        info.name: import_module(f"kgqa_hpc.plugins.{info.name}")
        for info in pkgutil.iter_modules([str(Path(__file__).with_name("plugins"))])
        if info.ispkg
    }


@cache
def _source_digest(package: str) -> str:
    """The sha256 over names and contents of all Python files of an installed package or module."""
    spec = find_spec(package)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    files = [(path.relative_to(folder), path) for folder in folders for path in folder.rglob("*.py")]
    if spec and spec.origin and not folders:
        files = [(Path(Path(spec.origin).name), Path(spec.origin))]
    digest = hashlib.sha256()
    for name, path in sorted(files):
        content = path.read_bytes()
        digest.update(f"{name.as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


class FileEntry(NamedTuple):
    """An entry from a user's plugin file (plugin_files.py)."""

    entry: Any
    file: Path


FILE_ENTRIES: dict[str, dict[str, FileEntry]] = {}  # by registry and name
REGISTRIES: dict[str, "Registry"] = {}  # by group; each when its module is imported


class Registry:
    """A registry: all entries of one sort, by name.

    `group` is the last part of the entry-point group, `what` the noun in messages ("step"), `core` maps
    a name to "module:Class".
    """

    def __init__(self, group: str, what: str, core: Mapping[str, str]) -> None:
        self.group = group
        self.what = what
        self._shipped = dict(core)
        for plugin in shipped_plugins().values():
            table = plugin.ENTRIES.get(group, {})
            self._shipped |= {name: f"{plugin.__name__}.{path}" for name, path in table.items()}
        self._loaded: dict[str, Any] = {}
        REGISTRIES[group] = self

    def ships(self, name: str) -> bool:
        """Whether the entry is part of kgqa_hpc."""
        return name in self._shipped

    @cached_property
    def _foreign(self) -> dict[str, EntryPoint]:
        points = {point.name: point for point in entry_points(group=f"kgqa_hpc.{self.group}")}
        if clashes := sorted(points.keys() & self._shipped.keys()):
            origin = points[clashes[0]].dist
            raise ConfigError(
                f"{self.what} {clashes[0]!r} of package {origin.name if origin else '(unknown)'}: "
                "kgqa_hpc has one of that name already",
                f"rename its entry point in the group kgqa_hpc.{self.group}",
            )
        return points

    def names(self) -> list[str]:
        """All known names, shipped ones first."""
        return [*self._shipped, *sorted({*self._foreign, *self._of_files})]

    def __contains__(self, name: object) -> bool:
        return name in self._shipped or name in self._of_files or name in self._foreign

    @property
    def _of_files(self) -> dict[str, FileEntry]:
        return FILE_ENTRIES.get(self.group, {})

    def file_of(self, name: str) -> Path | None:
        """The user's plugin file that holds the entry; None for an entry of a package."""
        return self._of_files[name].file if name in self._of_files else None

    def origin(self, name: str) -> str:
        """Origin of the entry as text: 'kgqa_hpc', a package's name and version, or a plugin file."""
        if name in self._shipped:
            return "kgqa_hpc"
        if path := self.file_of(name):
            return path.name
        package = self._foreign[name].dist
        return f"{package.name} {package.version}" if package else "(unknown package)"

    def identity(self, name: str) -> dict[str, str] | None:
        """Package, version and source sha256 of an entry from another package; None for all other entries."""
        if name in self._shipped or name not in self._foreign:
            return None
        point = self._foreign[name]
        package = {"package": point.dist.name, "version": point.dist.version} if point.dist else {}
        return {**package, "source": _source_digest(point.module.partition(".")[0])}

    def entry(self, name: str) -> str:
        """The entry with its package, for messages: "step years of film-kgqa 1.0"."""
        return f"{self.what} {name} of {self.origin(name) if name in self else '(unknown package)'}"

    @contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """Within the block, turn an unexpected exception of the entry's code into an ExtensionError with its line."""
        try:
            yield
        except (KgqaError, MemoryError):
            raise
        except Exception as problem:
            frames = traceback.extract_tb(problem.__traceback__)
            raise ExtensionError(
                f"{self.entry(name)} failed: {type(problem).__name__}: {problem} "
                f"({Path(frames[-1].filename).name} line {frames[-1].lineno})",
                "kgqa -v shows the whole way there",
            ) from problem

    def get(self, name: str) -> Any:
        """The entry's class. Raises ConfigError for an unknown name or a failed import."""
        if name in self._of_files:
            return self._of_files[name].entry
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def unknown(self, name: str) -> str:
        """The message for an unknown name."""
        names = self.names()
        return f"unknown {self.what} {name!r}{did_you_mean(name, names)}; known: {', '.join(names)}"

    def _load(self, name: str) -> Any:
        if path := self._shipped.get(name):
            module, _, attribute = path.partition(":")
            return getattr(import_module(module), attribute)
        if name not in self._foreign:
            raise ConfigError(self.unknown(name))
        try:
            entry = self._foreign[name].load()
        except (Exception, SystemExit) as problem:
            raise ConfigError(
                f"{self.what} {name!r} of {self.origin(name)} cannot be imported: "
                f"{type(problem).__name__}: {problem}",
                "mend or uninstall that package",
            ) from problem
        own_name = getattr(entry, "name", name)
        if isinstance(own_name, str) and own_name != name:
            raise ExtensionError(
                f"{self.entry(name)} calls itself {own_name!r}",
                "give its class and its entry point the same name",
            )
        return entry


# Metrics of `kgqa score`: functions (predictions, references) -> a number for each pair.
METRICS = Registry("metrics", "score metric", {})
# Sections of `kgqa report`: functions (dataset) -> HTML.
SECTIONS = Registry("sections", "report section", {})
