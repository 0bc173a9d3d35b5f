"""Settings and inputs as Python objects: `kgqa_hpc.Csv(nodes=...)`, `Graphlets(per_shape=10)`, `OpenAI(...)`.

Each of these functions returns the checked `Settings` of one registry entry. Its name is the entry's name in CamelCase;
names of anchor kinds are plural (`Paths`), so that they differ from those of steps and engines.

A graph in memory and an engine function are written to files in RUN/inputs. The configuration refers to them as
`{inputs}/NAME`; `with_folder` replaces `{inputs}` by the folder.
"""

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from types import CellType, CodeType
from typing import Any

from pydantic import BaseModel, ValidationError

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.engines import ENGINES
from kgqa_hpc.errors import ConfigError, FingerprintMismatch, InputError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.settings import lines_of, section
from kgqa_hpc.steps import STEPS
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.run_folder import RunFolder

_SPECIAL = {"openai": "OpenAI", "openai_batch": "OpenAIBatch", "hpo": "HPO"}
# By sort of entry: its registry, and the key that names an entry.
SORTS = {
    "graph": (SOURCES, "source"),
    "anchors": (KINDS, "kind"),
    "step": (STEPS, "use"),
    "engine": (ENGINES, "kind"),
}


@cache
def names() -> dict[str, tuple[str, str]]:
    """Kind of setting (graph source, anchor kind, step …) and name of its entry, by the name of each function."""
    entries: dict[str, tuple[str, str]] = {}
    for sort, (registry, _) in SORTS.items():
        for entry in registry.names():
            camel = _SPECIAL.get(entry, "".join(part.title() for part in entry.replace("-", "_").split("_")))
            plural = "s" if sort == "anchors" and not camel.endswith("s") else ""
            entries.setdefault(camel + plural, (sort, entry))
    return entries


def factory(name: str) -> Callable[..., Any]:
    """The function behind one of `names()`. It raises ConfigError with every problem of its settings."""
    sort, entry = names()[name]
    registry, by = SORTS[sort]

    def make(prompt: str | None = None, /, **keys: Any) -> Any:
        data = {**({"prompt": prompt} if prompt else {}), **keys, by: entry}
        if sort == "step":
            data = {"as": entry, "prompt": STEPS.get(entry).default_prompt, **data}
        try:
            return section(registry, by, data)
        except ValidationError as problem:
            lines = lines_of(BaseModel, problem, (entry,))
            raise ConfigError("\n".join(lines), "see docs/reference/config.md") from None

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Settings of {registry.what} {entry}; see docs/reference/config.md."
    return make


def plain(sort: str, value: Any) -> Any:
    """A settings object as a mapping for a configuration; a mapping or a name is returned unchanged."""
    registry, by = SORTS[sort]
    if not isinstance(value, BaseModel):
        return dict(value) if isinstance(value, Mapping) else value
    data = value.model_dump(mode="json", exclude_unset=True)
    if by not in data:  # the object was made by its Settings class itself
        data[by] = next(
            (name for name in registry.names() if registry.get(name).Settings is type(value)), None
        )
    return data


FOLDER = "inputs"
_MARK = "/{inputs}/"  # begins with / like an absolute path, so that it is not resolved against a folder
NODE_TYPE, EDGE_TYPE = "entity", "related_to"  # default types for a networkx graph without types


def graph_section(value: Any, files: dict[str, bytes]) -> Any:
    """The `graph:` section for settings, a mapping (nodes and edges may be frames), frames, or a networkx graph.

    The `source` of a mapping may be a networkx graph, too. Frames are added to `files`, the contents of RUN/inputs by
    name.
    """
    settings = dict(value) if isinstance(value, Mapping) else {"source": value}
    if hasattr(settings.get("source"), "number_of_nodes"):
        value = {**frames_of(settings.pop("source")), **settings}
    if isinstance(value, tuple) and len(value) == 2:
        value = {"nodes": value[0], "edges": value[1]}
    section = plain("graph", value)
    if not isinstance(section, Mapping):
        raise InputError(
            f"graph: {type(value).__name__} is not a graph",
            "give settings such as kgqa_hpc.Csv(...), pandas frames as (nodes, edges) or {'edges': frame}, "
            "or a networkx graph",
        )
    frames = {key: section[key] for key in ("nodes", "edges") if hasattr(section.get(key), "to_csv")}
    files |= {f"{key}.csv": frame.to_csv(index=False).encode() for key, frame in frames.items()}
    return {
        **({"source": "csv"} if frames else {}),
        **section,
        **{key: f"{_MARK}{key}.csv" for key in frames},
    }


def frames_of(graph: Any) -> dict[str, Any]:
    """The nodes and edges of a networkx graph as pandas frames with the columns of CSV files.

    Names and types are in the same attributes as in GraphML (kg/sources/graphml.py); an edge of a multigraph without a
    type has its key as type. Raises InputError for a graph without edges.
    """
    import pandas as pd

    from kgqa_hpc.kg.sources.graphml import EDGE_TYPES, NAMES, NODE_TYPES

    if not graph.number_of_edges():
        raise InputError("graph: the networkx graph has no edge", "is it the right graph?")
    nodes = [
        {**data, "id": node, "name": _stated(data, NAMES, node), "type": _stated(data, NODE_TYPES, NODE_TYPE)}
        for node, data in graph.nodes(data=True)
    ]
    edges = []
    keyed = {"keys": True} if graph.is_multigraph() else {}
    for source, target, *keys, data in graph.edges(data=True, **keyed):
        key = next((key for key in keys if isinstance(key, str)), EDGE_TYPE)
        kind = _stated(data, EDGE_TYPES, key)
        edges.append({**data, "source_id": source, "target_id": target, "type": kind})
    return {"nodes": pd.DataFrame(nodes), "edges": pd.DataFrame(edges)}


def _stated(data: Mapping[str, Any], names: Iterable[str], default: Any) -> Any:
    """The first of the attributes `names` that a node or edge has."""
    return next((data[name] for name in names if data.get(name) is not None), default)


def engine_section(value: Any, files: dict[str, bytes]) -> Any:
    """The `engine:` section for settings, a mapping or a function, which is added to `files`."""
    if not callable(value):
        return plain("engine", value)
    name = getattr(value, "__name__", type(value).__name__).strip("<>")
    content = _saved(value)
    file = f"{name}-{hashlib.sha256(_described(value).encode()).hexdigest()[:12]}.pickle"
    files[file] = content
    return {"kind": "function", "call": _MARK + file, "model": name}


def place_files(files: Mapping[str, bytes], run: RunFolder) -> None:
    """Write every file into RUN/inputs. Raises FingerprintMismatch when work was done with another graph."""
    folder = run.path / FOLDER
    for name, content in files.items():
        path = folder / name
        if path.exists() and (name.endswith(".pickle") or path.read_bytes() == content):
            continue  # the file name of a function contains its digest
        if path.exists() and not run.untouched():
            raise FingerprintMismatch(
                f"{path}: {run.path} was made with another graph", "use another run folder for this graph"
            )
        make_folder(folder)
        write_file(path, content)


def with_folder(data: Any, folder: Path) -> Any:
    """The data with `{inputs}` replaced by `folder`."""
    if isinstance(data, Mapping):
        return {key: with_folder(value, folder) for key, value in data.items()}
    if isinstance(data, list):
        return [with_folder(value, folder) for value in data]
    marked = isinstance(data, str) and data.startswith(_MARK)
    return str(folder / data.removeprefix(_MARK)) if marked else data


def _described(value: Any, outer: frozenset[int] = frozenset()) -> str:
    """A function's source and the values bound to it (closure, defaults, `self`), as text: the same in each process.

    What it calls does not count. A value that cannot be pickled counts by its type alone. `outer`: ids of the values
    that contain this one.
    """
    inner = partial(_described, outer=outer | {id(value)})
    if id(value) in outer:
        return "..."
    if value is None or isinstance(value, str | bytes | int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inner, value))}]"
    if isinstance(value, set | frozenset):
        return inner(sorted(map(inner, value)))
    if isinstance(value, Mapping):
        return inner({(inner(key), inner(item)) for key, item in value.items()})
    if inspect.isfunction(value):
        bound = [value.__defaults__, value.__kwdefaults__, value.__closure__]
        return inner(value.__code__) + (inner(bound) if any(bound) else "")
    source = "" if outer else inner(type(value).__call__)
    try:
        if inspect.iscode(value):
            return _source(value) or inner([value.co_code, value.co_consts, value.co_names])
        if inspect.ismethod(value):
            return inner([value.__func__, value.__self__])
        if isinstance(value, CellType):
            return inner(value.cell_contents)
        make, *state = value.__reduce_ex__(4)
        return source + inner([make.__qualname__, *state])
    except Exception:  # noqa: BLE001  it may be the code of any class
        return source + getattr(value, "__qualname__", type(value).__qualname__)


def _source(code: CodeType) -> str:
    """The source of a function; "" where it is in no file."""
    try:
        return inspect.getsource(code)
    except OSError:
        return ""


def _saved(function: Callable[..., Any]) -> bytes:
    """The function, pickled by value together with the objects of its module that it uses. Raises InputError."""
    import cloudpickle

    inner = getattr(function, "func", function)  # for a functools.partial, the inner function
    module = sys.modules.get(getattr(inner, "__module__", None) or "")
    is_importable = module is not None and module.__name__ != "__main__"
    try:
        if is_importable:
            cloudpickle.register_pickle_by_value(module)
        content: bytes = cloudpickle.dumps(function)
    except Exception as problem:
        raise InputError(
            f"engine: {function!r} cannot be sent to the engine's process: {problem}",
            'put it into a module and name it: {"kind": "function", "call": "module:function"}',
        ) from problem
    finally:
        if is_importable:
            cloudpickle.unregister_pickle_by_value(module)
    return content
