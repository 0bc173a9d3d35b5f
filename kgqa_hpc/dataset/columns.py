"""The columns of a dataset: their names and types, and the conversion of records to them.

Most columns are declared: the common ones here, the others by the anchor kind and the steps
(kgqa_hpc/columns.py). The fields of three columns are collected from the records during merge: `verdicts`
(which follow from the judges' prompts), `features`, and the parameters of each step under `provenance`.
Collected fields keep the order in which they first occur.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import orjson

from kgqa_hpc.columns import Column, Type

if TYPE_CHECKING:
    import pyarrow as pa

_ENGINE = dict.fromkeys(("name", "version", "model", "digest", "quantisation"), "string")
_OBSERVED = ("server", "structured", "omitted")  # of a server; other engines have none of it
_PROMPT = {"name": "string", "sha256": "string"}
_ANCHOR = {"id": "string", "kind": "string", "weight": "double"}
_TOKENS = dict.fromkeys(("prompt", "completion", "cached"), "int64")
_KINDS = {bool: "bool", str: "str", type(None): "null"}  # for values whose Python type is enough
_INT64 = range(-(2**63), 2**63)
_TYPES: dict[str, Type] = {
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
# Members of `provenance` that only some runs have.
EXCLUDED = Column(
    "excluded_edge_types", ["string"], "Edge types left out of the graph of anchors and answers."
)
ENTRIES = Column(
    "entries",
    ["string"],
    "Entries of other packages or of files: name, package, version, sha256 of the source.",
)
SPLIT = Column("split", "string", "Part of the dataset; parts share nothing of what they were divided by.")

Fields = dict[str, set[str]]


class Columns:
    """Collects the fields of records, then converts every record to the columns of all."""

    def __init__(self, declared: tuple[Column, ...] = ()) -> None:
        self.declared = declared
        self._verdicts: dict[str, Fields] = {}
        self._features: Fields = {}
        self._optional: set[str] = set()  # members of `provenance` that only some runs have
        self._observed: set[str] = set()  # of _OBSERVED, named by the engine of any record
        self._parameters: dict[str, Fields] = {}

    def add(self, record: dict[str, Any]) -> None:
        """Collect the fields of a record made by record.py."""
        self._optional |= {EXCLUDED.name, ENTRIES.name} & record["provenance"].keys()
        for engine in record["provenance"]["engine"].values():
            self._observed.update(name for name in _OBSERVED if engine and name in engine)
        for label, verdict in record["verdicts"].items():
            _gather(self._verdicts.setdefault(label, {}), verdict)
        for label, values in record["provenance"]["parameters"].items():
            _gather(self._parameters.setdefault(label, {}), values)
        _gather(self._features, record["features"])

    def state(self) -> list[Any]:
        """The collected fields, as plain data."""
        return [
            {label: _plain(fields) for label, fields in self._verdicts.items()},
            _plain(self._features),
            {label: _plain(fields) for label, fields in self._parameters.items()},
            sorted(self._optional),
            sorted(self._observed),
        ]

    def take(self, state: list[Any]) -> None:
        """Add the collected fields of other columns (their `state()`)."""
        verdicts, features, parameters, optional, observed = state
        self._optional |= set(optional)
        self._observed.update(observed)
        for label, fields in verdicts.items():
            _unite(self._verdicts.setdefault(label, {}), fields)
        for label, fields in parameters.items():
            _unite(self._parameters.setdefault(label, {}), fields)
        _unite(self._features, features)

    def layout(self) -> bytes:
        """A key of the converted form: the collected fields in order, with their types. Equal keys mean equal forms."""
        gathered = ({"": self._features}, self._verdicts, self._parameters)
        types = [{name: _resolved(fields) for name, fields in group.items()} for group in gathered]
        return orjson.dumps([sorted(self._observed), *types])

    def json_text(self) -> list[list[str]]:
        """Paths of the fields stored as JSON text because their values are of mixed types: member, label (if any),
        name.
        """
        groups = {("verdicts",): self._verdicts, ("provenance", "parameters"): self._parameters}
        labelled = [
            ((*at, label), fields) for at, labels in groups.items() for label, fields in labels.items()
        ]
        paths = [*labelled, (("features",), self._features)]
        return [[*at, name] for at, fields in paths for name, kind in _resolved(fields) if kind == "json"]

    def plain(self) -> bool:
        """Whether every collected field has one type, so that no value needs a conversion."""
        groups = (self._features, *self._verdicts.values(), *self._parameters.values())
        return all(
            len(kinds - {"null"}) < 2 and "json" not in kinds for group in groups for kinds in group.values()
        )

    def complete(self, record: dict[str, Any]) -> bool:
        """Whether a record has all labels and fields in order, so that `conform` would not change it (plain
        columns).
        """
        groups = (
            ({"": record["features"]}, {"": self._features}),
            (record["verdicts"], self._verdicts),
            (record["provenance"]["parameters"], self._parameters),
        )
        engines = [engine for engine in record["provenance"]["engine"].values() if engine]
        return all(self._observed <= engine.keys() for engine in engines) and all(
            list(values) == list(gathered)
            and all(list(values[label] or ()) == list(fields) for label, fields in gathered.items())
            for values, gathered in groups
        )

    def conform(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record with the labels and fields of all records, null where it has no value."""
        verdicts = record["verdicts"]
        return {
            **record,
            "verdicts": {
                label: _fill(fields, verdicts.get(label)) for label, fields in self._verdicts.items()
            },
            "features": _fill(self._features, record["features"]),
            "provenance": self._origin(record["provenance"]),
        }

    def _origin(self, origin: dict[str, Any]) -> dict[str, Any]:
        by_label = {name: origin[name] for name in ("prompt", "engine", "attempts")}
        filled = {
            name: {label: values.get(label) for label in self._parameters}
            for name, values in by_label.items()
        }
        parameters = {
            label: _fill(fields, origin["parameters"].get(label))
            for label, fields in self._parameters.items()
        }
        absent = dict.fromkeys(sorted(self._observed))
        filled["engine"] = {label: engine and absent | engine for label, engine in filled["engine"].items()}
        return {**origin, **filled, "parameters": parameters}

    def all(self, *, split: bool = False) -> tuple[Column, ...]:
        """All columns in the order of a record, without structs that have no field."""
        labels = list(self._parameters)
        provenance = {
            "run": "string",
            "seed": "int64",
            "source": "string",
            **{column.name: column.type for column in (EXCLUDED, ENTRIES) if column.name in self._optional},
            "anchor": _ANCHOR,
            "prompt": dict.fromkeys(labels, _PROMPT),
            "engine": dict.fromkeys(labels, _ENGINE | dict.fromkeys(sorted(self._observed), "string")),
            "parameters": _types(self._parameters),
            "tokens": _TOKENS,
            "attempts": dict.fromkeys(labels, "int64"),
        }
        gathered = (
            Column("verdicts", _types(self._verdicts), "What each judge said."),
            Column("features", _plain_types(self._features), "What was measured of the pair."),
            Column("provenance", provenance, "Run, anchor, prompts, engines, parameters and tokens."),
        )
        columns = [*COMMON, *gathered, *self.declared, *DECIDED, *((SPLIT,) if split else ())]
        trimmed = (column._replace(type=_trimmed(column.type)) for column in columns)
        return tuple(column for column in trimmed if column.type)


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type of a column type."""
    import pyarrow as pa

    if isinstance(kind, list):
        return pa.list_(arrow_type(kind[0]))
    if isinstance(kind, dict):
        return pa.struct([(name, arrow_type(inner)) for name, inner in kind.items()])
    plain = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
    return plain[kind]


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of conformed records."""
    import pyarrow as pa

    return pa.schema([(column.name, arrow_type(column.type)) for column in columns])


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
    return int(value) if value == int(value) and int(value) in _INT64 else None


def without_json_text(record: dict[str, Any], paths: list[list[str]]) -> dict[str, Any]:
    """Parse the fields that are JSON text (`Columns.json_text`) of a published record, in place; returns the record."""
    for *at, name in paths:
        values: Any = record
        for step in at:
            values = values and values.get(step)
        if values and values.get(name) is not None:
            values[name] = orjson.loads(values[name])
    return record


def is_nothing(value: Any) -> bool:
    """Whether a value is stored as null: None, NaN and the infinities, which JSON does not have."""
    return value is None or (isinstance(value, float) and not isfinite(value))


def _fill(fields: Fields, values: dict[str, Any] | None) -> dict[str, Any] | None:
    """Values for all fields in order, converted to their types."""
    if values is None:
        return None
    return {name: _cast(values.get(name), _common(kinds)) for name, kinds in fields.items()}


def _gather(fields: Fields, values: dict[str, Any]) -> None:
    for name, value in values.items():
        kind = _KINDS.get(value.__class__) or _kind(value)
        kinds = fields.get(name)
        if kinds is None:
            fields[name] = {kind}
        else:
            kinds.add(kind)


def _unite(fields: Fields, more: dict[str, list[str]]) -> None:
    for name, kinds in more.items():
        fields.setdefault(name, set()).update(kinds)


def _plain(fields: Fields) -> dict[str, list[str]]:
    return {name: sorted(kinds) for name, kinds in fields.items()}


def _kind(value: Any) -> str:
    """The type of a value: null, bool, int, float, str, strings, or json for any other."""
    if is_nothing(value):
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int" if value in _INT64 else "json"
    if isinstance(value, float):
        return "float"
    if isinstance(value, str):
        return "str"
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "strings"
    return "json"


def _common(kinds: set[str]) -> str:
    """The type that holds all `kinds` of values; json for mixed ones."""
    kinds = kinds - {"null"}
    if not kinds:
        return "str"
    if kinds == {"int", "float"}:
        return "float"
    return next(iter(kinds)) if len(kinds) == 1 else "json"


def _cast(value: Any, kind: str) -> Any:
    if is_nothing(value):
        return None
    if kind == "json":
        return _json(value)
    return float(value) if kind == "float" else value


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _resolved(fields: Fields) -> list[tuple[str, str]]:
    return [(name, _common(kinds)) for name, kinds in fields.items()]


def _plain_types(fields: Fields) -> dict[str, Type]:
    return {name: _TYPES[kind] for name, kind in _resolved(fields)}


def _types(labels: dict[str, Fields]) -> dict[str, Type]:
    return {label: _plain_types(fields) for label, fields in labels.items()}


def _trimmed(kind: Type) -> Type:
    """The type without structs that have no field: Parquet cannot store them."""
    if not isinstance(kind, dict):
        return kind
    inner = {name: _trimmed(part) for name, part in kind.items()}
    return {name: part for name, part in inner.items() if part}
