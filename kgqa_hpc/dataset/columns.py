"""The columns of a dataset: their names and types, and the conversion of records to them.

Most columns are declared: the common ones here, the others by the anchor kind and the steps
(kgqa_hpc/columns.py). The fields of three columns are collected from the records during merge: `verdicts`
(which follow from the judges' prompts), `features`, and the parameters of each step under `provenance`.
Collected fields keep the order in which they first occur.
"""

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any

import orjson

from kgqa_hpc.columns import INT64, Column, Type
from kgqa_hpc.errors import InputError

_ENGINE = dict.fromkeys(("name", "version", "model", "digest", "quantisation"), "string")
_OBSERVED = frozenset(("server", "structured", "omitted"))  # observed by engines that use a server
_PROMPT = {"name": "string", "sha256": "string"}
_ANCHOR = {"id": "string", "kind": "string", "weight": "double"}
_TOKENS = dict.fromkeys(("prompt", "completion", "cached"), "int64")
_TYPES: dict[str, Type] = {  # column type by kind of value
    "null": "string",
    "bool": "bool",
    "int": "int64",
    "float": "double",
    "str": "string",
    "strings": ["string"],
    "json": "string",
}
COMMON = (
    Column(
        "id", "string", "Identifier of the record; that of its anchor, with a number where it has several."
    ),
    Column("question", "string", "The question."),
    Column("answer", "string", "Its answer."),
    Column("kind", "string", "Kind of anchor the question is grounded in."),
    Column("group", "string", "Group of the anchor that counts are given by."),
)
DECIDED = (
    Column("accepted", "bool", "Whether the pair passed the filters and the judges."),
    Column("reason", "string", "Why it did not; empty for accepted pairs."),
)
SPLIT = Column("split", "string", "Part of the dataset; parts share nothing of what they were divided by.")
# Members of `provenance` that only some runs have: edge types left out of the graph, and entries of other packages.
EXCLUDED, ENTRIES = "excluded_edge_types", "entries"
_OPTIONAL = {EXCLUDED: ["string"], ENTRIES: ["string"]}

Fields = dict[str, str]  # the kind of the values of each field: a key of _TYPES
Labels = dict[str, Fields]


class Columns:
    """Collector of the fields of all records; then it converts each record to the common columns."""

    def __init__(self, declared: tuple[Column, ...] = ()) -> None:
        self.declared = declared
        self._groups: list[Labels] = [{}, {}, {"features": {}}]  # in the order of _groups_of
        self._optional: set[str] = set()  # members of `provenance` that only some runs have
        self._observed: set[str] = set()  # members of _OBSERVED that occur in the engine of any record

    def add(self, record: dict[str, Any]) -> None:
        """Collect the fields of a record made by record.py."""
        provenance = record["provenance"]
        self._optional.update(_OPTIONAL.keys() & provenance)
        for engine in provenance["engine"].values():
            self._observed.update(_OBSERVED.intersection(engine or ()))
        self._collect(_groups_of(record), _kind)

    def state(self) -> list[Any]:
        """The collected fields, as plain data."""
        return [self._groups, sorted(self._optional), sorted(self._observed)]

    def take(self, state: list[Any]) -> None:
        """Add the collected fields in `state`, as another object's `state()` returns them."""
        groups, optional, observed = state
        self._optional.update(optional)
        self._observed.update(observed)
        self._collect(groups, str)

    def _collect(self, groups: Iterable[dict[str, Any]], kind_of: Callable[[Any], str]) -> None:
        """Add the fields of all labels; `kind_of` gives the kind of a field from its value."""
        for group, labels in zip(self._groups, groups, strict=True):
            for label, values in labels.items():
                fields = group.setdefault(label, {})
                for name, value in values.items():
                    kind = kind_of(value)
                    if fields.get(name) != kind:
                        fields[name] = _common(fields.get(name, kind), kind)

    def layout(self) -> bytes:
        """A key of the converted form: the collected fields in order, with their types. Equal keys mean equal forms."""
        return orjson.dumps([self._groups, sorted(self._observed)]).replace(b'"null"', b'"str"')

    def json_text(self) -> list[list[str]]:
        """Paths of the fields stored as JSON text because their values are of mixed types: member, label (if any),
        name.
        """
        members = (("verdicts",), ("provenance", "parameters"), ())
        return [
            [*member, label, name]
            for member, group in zip(members, self._groups, strict=True)
            for label, fields in group.items()
            for name, kind in fields.items()
            if kind == "json"
        ]

    def conform(self, record: dict[str, Any]) -> dict[str, Any]:
        """Give a record, in place, the labels and fields of all records, null where it has no value; returns it."""
        provenance = record["provenance"]
        verdicts, parameters, features = (
            {label: _filled(fields, labels.get(label)) for label, fields in group.items()}
            for labels, group in zip(_groups_of(record), self._groups, strict=True)
        )
        for name in ("prompt", "engine", "attempts"):
            values = provenance[name]
            provenance[name] = {label: values.get(label) for label in parameters}
        if self._observed:
            absent = dict.fromkeys(sorted(self._observed))
            engines = provenance["engine"].items()
            provenance["engine"] = {label: engine and absent | engine for label, engine in engines}
        provenance["parameters"] = parameters
        record["verdicts"], record["features"] = verdicts, features["features"]
        return record

    def all(self, *, split: bool = False) -> tuple[Column, ...]:
        """All columns in the order of a record, without structs that have no field."""
        verdicts, parameters, features = map(_types, self._groups)
        provenance = {
            "run": "string",
            "seed": "int64",
            "source": "string",
            **{name: kind for name, kind in _OPTIONAL.items() if name in self._optional},
            "anchor": _ANCHOR,
            "prompt": dict.fromkeys(parameters, _PROMPT),
            "engine": dict.fromkeys(parameters, _ENGINE | dict.fromkeys(sorted(self._observed), "string")),
            "parameters": parameters,
            "tokens": _TOKENS,
            "attempts": dict.fromkeys(parameters, "int64"),
        }
        gathered = (
            Column("verdicts", verdicts, "What each judge said."),
            Column("features", features["features"], "What was measured of the pair."),
            Column("provenance", provenance, "Run, anchor, prompts, engines, parameters and tokens."),
        )
        columns = [*COMMON, *gathered, *self.declared, *DECIDED, *((SPLIT,) if split else ())]
        trimmed = (column._replace(type=_trimmed(column.type)) for column in columns)
        return tuple(column for column in trimmed if column.type)


def fitting(value: Any, kind: Type) -> Any:
    """A step's value converted to its column's type: as text in a text column, null where it does not fit."""
    if is_nothing(value):
        return None
    if isinstance(kind, list):
        return [fitting(member, kind[0]) for member in value] if isinstance(value, list) else None
    if isinstance(kind, dict):
        inner = value if isinstance(value, dict) else None
        return inner and {name: fitting(inner.get(name), part) for name, part in kind.items()}
    if kind == "string":
        return value if isinstance(value, str) else _json(value)
    if kind == "bool":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if kind == "double":
        return float(value)
    return int(value) if value == int(value) and int(value) in INT64 else None


def without_json_text(record: dict[str, Any], paths: list[list[str]]) -> dict[str, Any]:
    """Parse the fields that are JSON text (`Columns.json_text`) of a published record, in place; returns the record."""
    for *at, name in paths:
        values: Any = record
        for step in at:
            values = values and values.get(step)
        if values and values.get(name) is not None:
            values[name] = orjson.loads(values[name])
    return record


def value_at(record: dict[str, Any], column: str, setting: str) -> Any:
    """The value of a column of a record; dots name a nested field, and what lies below null is null.

    Raises InputError, which names the `setting`, for a column that the record does not have.
    """
    value: Any = record
    for name in column.split("."):
        if value is None:
            break
        if not isinstance(value, dict) or name not in value:
            raise InputError(
                f"{setting}: {record['id']} has no column {column!r}", f"its columns: {', '.join(record)}"
            )
        value = value[name]
    return value


def is_nothing(value: Any) -> bool:
    """Whether a value is stored as null: None, NaN and the infinities, which JSON does not have."""
    return value is None or (isinstance(value, float) and not isfinite(value))


def _groups_of(record: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The members of a record whose fields are collected, each by label: verdicts, parameters, features."""
    return record["verdicts"], record["provenance"]["parameters"], {"features": record["features"]}


def _filled(fields: Fields, values: dict[str, Any] | None) -> dict[str, Any] | None:
    """Values for all fields in order, in the form of the kinds of the fields."""
    if values is None:
        return None
    filled: dict[str, Any] = {}
    for name, kind in fields.items():
        value: Any = values.get(name)
        if kind == "str" and value.__class__ is str:  # the most frequent kind
            filled[name] = value
        elif is_nothing(value):
            filled[name] = None
        else:
            filled[name] = _json(value) if kind == "json" else float(value) if kind == "float" else value
    return filled


def _kind(value: Any) -> str:
    """The kind of a value: null, bool, int, float, str, strings, or json for any other."""
    if isinstance(value, str):
        return "str"
    if isinstance(value, bool):
        return "bool"
    if is_nothing(value):
        return "null"
    if isinstance(value, float):
        return "float"
    if isinstance(value, int):
        return "int" if value in INT64 else "json"
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "strings"
    return "json"


def _common(kind: str, added: str) -> str:
    """The kind that holds values of both kinds; json for mixed ones."""
    if kind == added or added == "null":
        return kind
    if kind == "null":
        return added
    return "float" if {kind, added} == {"int", "float"} else "json"


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _types(labels: Labels) -> dict[str, dict[str, Type]]:
    return {label: {name: _TYPES[kind] for name, kind in fields.items()} for label, fields in labels.items()}


def _trimmed(kind: Type) -> Type:
    """The type without structs that have no field: Parquet cannot store them."""
    if not isinstance(kind, dict):
        return kind
    inner = {name: _trimmed(part) for name, part in kind.items()}
    return {name: part for name, part in inner.items() if part}
