"""Registries: named anchor kinds, steps, engines, graph sources, exports, commands and other entries.

A registry joins three lists: the entries of the core, the tables of the plugins that ship with the package
(kgqa_hpc/plugins), and the entries of other packages, announced by an entry point `kgqa_hpc.<registry>`. The
module of an entry is imported only when the entry is asked for. An entry is one class with a `name` and, where it
has settings, a pydantic model `Settings`; its docstring describes it. An entry of `commands` is a function or a
typer application.

A user's package adds an entry with

    [project.entry-points."kgqa_hpc.steps"]
    translate = "my_package.translate:Translate"

A plugin file is an ordinary Python module of a user, `plugins: [my_steps.py]` in the configuration. Every class in it
that is a step, an anchor kind, a source, an engine or an export becomes an entry under its `name`, and so does a
function with a decorator such as `@kgqa_hpc.step`. Of two entries with the same name, that of the file loaded last is
used. No other entry may take the name of a shipped one: `judge` must mean the same on every machine.
"""

import difflib
import errno
import hashlib
import pkgutil
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from kgqa_hpc.errors import ConfigError, ExtensionError, InputError, KgqaError
from kgqa_hpc.text.streams import read_bytes

Function = TypeVar("Function", bound=Callable[..., Any])


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


def _place(entry: Any) -> str:
    """The file or package folder that holds an entry's code; "" where neither is known."""
    package = str(getattr(entry, "__module__", "")).partition(".")[0]
    return str(getattr(sys.modules.get(package), "__file__", None) or "").removesuffix("__init__.py")


class FileEntry(NamedTuple):
    """An entry from a user's plugin file."""

    entry: Any
    file: Path


FILE_ENTRIES: dict[str, dict[str, FileEntry]] = defaultdict(dict)  # by registry and name
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
        return [*self._shipped, *sorted({*self._foreign, *FILE_ENTRIES[self.group]})]

    def __contains__(self, name: object) -> bool:
        return name in self._shipped or name in FILE_ENTRIES[self.group] or name in self._foreign

    def file_of(self, name: str) -> Path | None:
        """The user's plugin file that holds the entry; None for an entry of a package."""
        entries = FILE_ENTRIES[self.group]
        return entries[name].file if name in entries else None

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
        """Within the block, turn an unexpected exception of the entry's code into an ExtensionError with its line.

        What the entry prints goes to stderr, as stdout holds results; another thread leaves the stream alone.
        """
        is_main = threading.current_thread() is threading.main_thread()
        try:
            with redirect_stdout(sys.stderr) if is_main else nullcontext():
                yield
        except (KgqaError, MemoryError):
            raise
        except (Exception, SystemExit) as problem:
            if getattr(problem, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                raise  # the entry is not to blame for a full disk
            in_file = FILE_ENTRIES[self.group].get(name)
            code_place = _place(in_file.entry if in_file else self._loaded.get(name))
            frames = traceback.extract_tb(problem.__traceback__)
            frame = ([frame for frame in frames if frame.filename.startswith(code_place)] or frames)[-1]
            raise ExtensionError(
                f"{self.entry(name)} failed: {type(problem).__name__}: {problem} "
                f"({Path(frame.filename).name} line {frame.lineno})",
                "kgqa -v shows the whole traceback",
            ) from problem

    def get(self, name: str) -> Any:
        """The entry's class. Raises ConfigError for an unknown name or a failed import."""
        if name in FILE_ENTRIES[self.group]:
            return FILE_ENTRIES[self.group][name].entry
        if name in self._loaded:
            return self._loaded[name]
        if path := self._shipped.get(name):
            module, _, attribute = path.partition(":")
            entry = getattr(import_module(module), attribute)
        elif name not in self._foreign:
            raise ConfigError(self.unknown(name))
        else:
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
        self._loaded[name] = entry
        return entry

    def unknown(self, name: str) -> str:
        """The message for an unknown name."""
        names = self.names()
        return f"unknown {self.what} {name!r}{did_you_mean(name, names)}; known: {', '.join(names)}"


# Metrics of `kgqa score`: functions (predictions, references) -> a number for each pair.
METRICS = Registry("metrics", "score metric", {})
# Sections of `kgqa report`: functions (dataset) -> HTML.
SECTIONS = Registry("sections", "report section", {})

LOADED_DIGESTS: dict[str, str] = {}  # by file name, the sha256 of the plugin file loaded last
_modules: dict[tuple[str, str], ModuleType] = {}  # modules of plugin files by file name and sha256


def file_digest(path: Path) -> str:
    """The sha256 of a file. Raises ConfigError."""
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except OSError as problem:
        raise ConfigError(f"plugins: {path}: {problem.strerror}", "check the path") from None


def load_plugin_file(path: Path) -> None:
    """Execute the file and add its entries to the registries. Raises ConfigError with file and line."""
    key = (path.name, file_digest(path))
    LOADED_DIGESTS[path.name] = key[1]
    if key not in _modules:
        _modules[key] = _executed(path)
    entries = list(_entries(_modules[key]))
    if not entries:
        raise ConfigError(
            f"plugins: {path} holds no entry",
            "an entry is a class with a `name`: a step, kind, source, engine or export",
        )
    for group, entry in entries:
        if group in REGISTRIES and REGISTRIES[group].ships(entry.name):
            raise ConfigError(
                f"plugins: {path}: kgqa_hpc has one of {group} named {entry.name!r} already",
                "give yours another name",
            )
        FILE_ENTRIES[group][entry.name] = FileEntry(entry, path)


def _executed(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"plugins: {path} is no Python file", "name a file that ends in .py")
    module = module_from_spec(spec)
    before = sys.modules.get(path.stem)
    if before is not None and not any(loaded is before for loaded in _modules.values()):
        raise ConfigError(
            f"plugins: {path} has the name of a module that is in use", "give the file another name"
        )
    sys.modules[path.stem] = module  # pydantic and pickle look up classes in sys.modules
    try:
        # Without the loader's cache, which may hold other code than the file whose digest is recorded.
        exec(compile(path.read_bytes(), path, "exec"), vars(module))
    except (Exception, SystemExit) as problem:
        del sys.modules[path.stem]
        if isinstance(problem, InputError):
            raise
        frames = traceback.extract_tb(problem.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == spec.origin]
        line = lines[-1] if lines else getattr(problem, "lineno", 1)
        raise ConfigError(
            f"plugins: {path} line {line}: {type(problem).__name__}: {problem}", "mend the file"
        ) from problem
    return module


def _entries(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """(registry, entry) of each entry that the module defines; imported classes are left out."""
    for value in vars(module).values():
        is_own = getattr(value, "__module__", None) == module.__name__ and not isinstance(value, ModuleType)
        if not is_own or not isinstance(getattr(value, "name", None), str):
            continue
        settings = getattr(value, "Settings", None)
        group = getattr(value, "registry", None) or getattr(settings, "registry", None)
        if isinstance(group, str):
            yield group, value
        elif isinstance(value, type) and hasattr(value, "write"):
            yield "exports", value


def section(function: Function) -> Function:
    """Mark a function (dataset) -> HTML as a section of the report; its docstring's first line is the title."""
    vars(function).update(registry="sections", name=function.__name__)
    return function


def metric(function: Function) -> Function:
    """Mark a function (predictions, references) -> one number for each pair as a metric of `kgqa score`."""
    vars(function).update(registry="metrics", name=function.__name__)
    return function


def rule(function: Function) -> Function:
    """Mark a function (objections, verdicts, **options) -> bool as a decision rule (steps/decision.py)."""
    vars(function).update(registry="rules", name=function.__name__)
    return function
