"""Loader of plugin files: a user's Python files with registry entries, `plugins: [my_steps.py]` in the configuration.

A file is an ordinary Python module. Every class in it that is a step, an anchor kind, a source, an engine or an export
becomes a registry entry under its `name`, and so does a function with a decorator such as `@kgqa_hpc.step`. Of two
entries with the same name, that of the file loaded last is used.
"""

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.registry import FILE_ENTRIES, REGISTRIES, FileEntry
from kgqa_hpc.text.streams import read_bytes

Function = TypeVar("Function", bound=Callable[..., Any])
_digests: dict[str, str] = {}  # sha256 by file name
_modules: dict[tuple[str, str], ModuleType] = {}  # by file name and sha256


def file_digest(path: Path) -> str:
    """The sha256 of a file. Raises ConfigError."""
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except OSError as problem:
        raise ConfigError(f"plugins: {path}: {problem.strerror}", "check the path") from None


def loaded_digest(name: str) -> str:
    """The sha256 of the most recently loaded file with this name."""
    return _digests[name]


def load_plugin_file(path: Path) -> None:
    """Execute the file and add its entries to the registries. Raises ConfigError with file and line."""
    key = (path.name, file_digest(path))
    _digests[path.name] = key[1]
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
        FILE_ENTRIES.setdefault(group, {})[entry.name] = FileEntry(entry, path)


def _executed(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"plugins: {path} is no Python file", "name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(path.stem)
    if before is not None and not any(loaded is before for loaded in _modules.values()):
        raise ConfigError(
            f"plugins: {path} has the name of a module that is in use", "give the file another name"
        )
    sys.modules[path.stem] = module  # pydantic and pickle look up classes there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as problem:
        del sys.modules[path.stem]
        if isinstance(problem, InputError):
            raise
        line = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__)][-1]
        line = getattr(problem, "lineno", None) or line
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
    return _marked(function, "sections")


def metric(function: Function) -> Function:
    """Mark a function (predictions, references) -> one number for each pair as a metric of `kgqa score`."""
    return _marked(function, "metrics")


def rule(function: Function) -> Function:
    """Mark a function (objections, verdicts, **options) -> bool as a decision rule (steps/decision.py)."""
    return _marked(function, "rules")


def _marked(function: Function, group: str) -> Function:
    marked: Any = function
    marked.registry, marked.name = group, function.__name__
    return function
