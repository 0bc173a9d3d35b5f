"""The types of a dataset's columns, drawn from its records, so that Parquet and JSON lines hold the same.

Everything is fixed except what judges say: the fields of `verdicts` follow from the prompts of a run, and so
do the steps under `provenance`. They are gathered while merge streams over all records, and stand in the
order in which they first occur, which is that of the steps and of the prompts' schemas.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import orjson
import pyarrow as pa

_ENGINE = ("name", "version", "model", "digest", "quantisation")
_NODE = pa.struct([("id", pa.string()), ("name", pa.string()), ("type", pa.string())])
_EDGE = pa.list_(pa.int32())
_INT64 = range(-(2**63), 2**63)


class Columns:
    """Gathers what records hold, then gives the Arrow schema and the same shape for every record."""

    def __init__(self) -> None:
        self._verdicts: dict[str, dict[str, set[str]]] = {}
        self._parameters: dict[str, dict[str, set[str]]] = {}

    def add(self, verdicts: dict[str, dict[str, Any]], parameters: dict[str, dict[str, Any]]) -> None:
        """Take the verdicts and the generation parameters of one record into account, each by step."""
        for step, verdict in verdicts.items():
            _gather(self._verdicts.setdefault(step, {}), verdict)
        for step, values in parameters.items():
            _gather(self._parameters.setdefault(step, {}), values)

    def conform(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record with every step and field of any, each of one type; null where it has none."""
        origin = record["provenance"]
        steps = list(self._parameters)
        return {
            **record,
            "verdicts": {s: _fill(record["verdicts"].get(s), f) for s, f in self._verdicts.items()},
            "provenance": {
                **origin,
                "prompt": {step: origin["prompt"].get(step) for step in steps},
                "engine": {step: origin["engine"].get(step) for step in steps},
                "parameters": {
                    step: _fill(origin["parameters"].get(step), self._parameters[step]) for step in steps
                },
                "attempts": {step: origin["attempts"].get(step) for step in steps},
            },
        }

    def schema(self) -> pa.Schema:
        """The Arrow schema of conformed records. A struct without fields (no judge ran) is left out."""
        fields: list[tuple[str, pa.DataType]] = [
            ("id", pa.string()),
            ("question", pa.string()),
            ("answer", pa.string()),
            ("graphlet_id", pa.int32()),
            ("nodes", pa.list_(_NODE)),
            ("edges", pa.list_(_EDGE)),
            ("edge_labels", pa.list_(pa.string())),
            ("num_nodes", pa.int32()),
            ("verdicts", _steps_type(self._verdicts)),
            ("accepted", pa.bool_()),
            ("reason", pa.string()),
            ("provenance", self._provenance()),
        ]
        return pa.schema([(name, kind) for name, kind in fields if not _is_empty(kind)])

    def _provenance(self) -> pa.DataType:
        steps = list(self._parameters)
        prompt = pa.struct([("name", pa.string()), ("sha256", pa.string())])
        engine = pa.struct([(key, pa.string()) for key in _ENGINE])
        anchor = pa.struct([("id", pa.string()), ("kind", pa.string()), ("weight", pa.float64())])
        tokens = pa.struct([(kind, pa.int64()) for kind in ("prompt", "completion", "cached")])
        fields = [
            ("run", pa.string()),
            ("seed", pa.int64()),
            ("anchor", anchor),
            ("prompt", pa.struct([(step, prompt) for step in steps])),
            ("engine", pa.struct([(step, engine) for step in steps])),
            ("parameters", _steps_type(self._parameters)),
            ("tokens", tokens),
            ("attempts", pa.struct([(step, pa.int32()) for step in steps])),
        ]
        return pa.struct([(name, kind) for name, kind in fields if not _is_empty(kind)])


def _gather(fields: dict[str, set[str]], values: dict[str, Any]) -> None:
    for name, value in values.items():
        fields.setdefault(name, set()).add(_kind(value))


def _kind(value: Any) -> str:
    """Of what type a value is; `json` for what has no plain column type."""
    if _is_nothing(value):
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


def _is_nothing(value: Any) -> bool:
    # JSON has no NaN and no infinity: both files hold null for them.
    return value is None or (isinstance(value, float) and not isfinite(value))


_TYPES = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "strings": pa.list_(pa.string()),
    "json": pa.string(),
}


def _common(kinds: set[str]) -> str:
    """The one type that holds all; values of different nature become JSON text."""
    kinds = kinds - {"null"}
    if not kinds:
        return "str"
    if kinds == {"int", "float"}:
        return "float"
    return next(iter(kinds)) if len(kinds) == 1 else "json"


def _fill(values: dict[str, Any] | None, fields: dict[str, set[str]]) -> dict[str, Any] | None:
    if values is None:
        return None
    return {name: _cast(values.get(name), _common(kinds)) for name, kinds in fields.items()}


def _cast(value: Any, kind: str) -> Any:
    if _is_nothing(value):
        return None
    if kind == "json":
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return float(value) if kind == "float" else value


def _steps_type(steps: dict[str, dict[str, set[str]]]) -> pa.DataType:
    inner = [(step, _fields_type(fields)) for step, fields in steps.items()]
    return pa.struct([(step, kind) for step, kind in inner if not _is_empty(kind)])


def _fields_type(fields: dict[str, set[str]]) -> pa.DataType:
    return pa.struct([(name, _TYPES[_common(kinds)]) for name, kinds in fields.items()])


def _is_empty(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and kind.num_fields == 0
