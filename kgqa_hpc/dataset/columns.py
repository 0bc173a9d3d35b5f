"""The columns of a dataset: their names and types, and the conversion of records to them.

Most columns are declared: the common ones here, the others by the anchor kind and the steps
(kgqa_hpc/columns.py). The fields of GATHERED columns are collected from the records during merge, in the order
in which they first occur.
"""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

import orjson

from kgqa_hpc.columns import INT64, Column, Type
from kgqa_hpc.errors import InputError

COMMON = (
    Column(
        "id", "string", "Identifier of the record; that of its anchor, with a number where it has several."
    ),
    Column("question", "string", "The question."),
    Column("answer", "string", "Its answer."),
    Column("kind", "string", "Kind of anchor the question is grounded in."),
    Column("group", "string", "Group of the anchor that counts are given by."),
)
GATHERED = (
    Column("verdicts", {}, "What each judge said."),
    Column("features", {}, "What was measured of the pair."),
    Column("provenance", {}, "Run, anchor, prompts, engines, parameters and tokens."),
)
# Levels of mappings; deeper levels become JSON text.
_DEPTHS = {"verdicts": 2, "features": 1, "provenance": 3}
DECIDED = (
    Column("accepted", "bool", "Whether the pair passed the filters and the judges."),
    Column("reason", "string", "Why it did not; empty for accepted pairs."),
)
SPLIT = Column("split", "string", "Part of the dataset; parts share nothing of what they were divided by.")
JSON = "json"  # the collected type of values of mixed types, stored as JSON text
# The column types of the most frequent classes of values, found without a function call.
_FREQUENT = {str: "string", bool: "bool"}
_PLAIN = {**_FREQUENT, float: "double"}
NULL = "null"  # the collected type of a field without any value, stored as text


class Columns:
    """Collector of the fields of all records; then it converts each record to the common columns.

    `version` counts the changes of the columns.
    """

    def __init__(self, declared: tuple[Column, ...] = ()) -> None:
        self.declared = declared
        # Collected types; may contain JSON and NULL.
        self.types: dict[str, Type] = {name: {} for name in _DEPTHS}
        self.version = 0
        self._known: dict[int, Any] = {}  # members `attempts` of complete provenances, by their id()

    def add(self, record: Mapping[str, Any]) -> int | None:
        """Collect the fields of a record made by record.py, where provenances of the same fields share `attempts`.

        Returns the version for which `conform` would not change the record, None if it would.
        """
        attempts = record["provenance"]["attempts"]
        names = ("verdicts", "features") if id(attempts) in self._known else _DEPTHS
        if all(_is_complete(record[name], self.types[name]) for name in names):
            self._known[id(attempts)] = attempts
            return self.version
        before = self.layout()
        for name, depth in _DEPTHS.items():
            _widen(self.types[name], record[name], depth, _type_of)
        if self.layout() != before:
            self.version += 1
            self._known.clear()
        return None

    def take(self, types: Mapping[str, Any]) -> None:
        """Add the `types` that another object has collected."""
        _widen(self.types, types, max(_DEPTHS.values()) + 1, lambda collected: collected)

    def layout(self) -> bytes:
        """A key of the converted form: the collected fields in order, with their types. Equal keys mean equal forms."""
        return orjson.dumps(self.types).replace(b'"null"', b'"string"')

    def json_text(self) -> list[list[str]]:
        """Paths of the fields stored as JSON text because their values are of mixed types."""
        return list(_json_paths(self.types))

    def conform(self, record: dict[str, Any]) -> dict[str, Any]:
        """Give a record, in place, the fields of all records, null where it has no value; returns it."""
        for name, kind in self.types.items():
            record[name] = fitting(record[name], kind)
        return record

    def all(self, *, split: bool = False) -> tuple[Column, ...]:
        """All columns in the order of a record, without structs that have no field."""
        gathered = (column._replace(type=_stored(self.types[column.name])) for column in GATHERED)
        columns = [*COMMON, *gathered, *self.declared, *DECIDED, *((SPLIT,) if split else ())]
        return tuple(column for column in columns if column.type)


def _is_complete(values: Mapping[str, Any], types: Mapping[str, Type]) -> bool:
    """Whether a mapping has exactly these fields in their order, each with a value of its type or null."""
    if [*values] != [*types]:
        return False
    for value, kind in zip(values.values(), types.values(), strict=True):
        if kind.__class__ is dict:
            whole = isinstance(value, dict) and _is_complete(value, kind)
        elif value.__class__ is int:
            whole = kind == "int64" and value in INT64
        else:
            whole = kind == _PLAIN.get(value.__class__) or value is None or kind == _type_of(value) != JSON
        if not whole:
            return False
    return True


def _widen(
    fields: dict[str, Type], values: Mapping[str, Any], depth: int, type_of: Callable[[Any], Type]
) -> None:
    """Change the types of fields so that they hold these values too; mappings have at most `depth` levels."""
    for name, value in values.items():
        earlier = fields.setdefault(name, NULL)
        if depth > 1 and isinstance(value, dict) and (earlier == NULL or isinstance(earlier, dict)):
            if earlier == NULL:
                fields[name] = {}
            _widen(fields[name], value, depth - 1, type_of)
        elif (added := type_of(value)) != earlier and added != NULL:
            numbers = (earlier, added) in (("int64", "double"), ("double", "int64"))
            fields[name] = added if earlier == NULL else "double" if numbers else JSON


def _type_of(value: Any) -> Type:
    """The type of a value: JSON for a mapping, a list of other values than texts, or a huge integer."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    if is_nothing(value):
        return NULL
    if isinstance(value, float):
        return "double"
    if isinstance(value, int) and value in INT64:
        return "int64"
    texts = isinstance(value, list) and all(isinstance(part, str) for part in value)
    return ["string"] if texts else JSON


def _json_paths(types: Mapping[str, Type], *path: str) -> Iterator[list[str]]:
    for name, kind in types.items():
        if isinstance(kind, dict):
            yield from _json_paths(kind, *path, name)
        elif kind == JSON:
            yield [*path, name]


def _stored(kind: Type) -> Type:
    """The column type of a collected type, without structs that have no field: Parquet cannot store them."""
    if isinstance(kind, dict):
        return {name: part for name, inner in kind.items() if (part := _stored(inner))}
    return "string" if kind in (JSON, NULL) else kind


def fitting(value: Any, kind: Type) -> Any:
    """A step's value converted to its column's type: text in a text column, null if it cannot be converted."""
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            return None
        filled = {}
        for name, part in kind.items():
            inner = value.get(name)
            fits = inner is None or part == _FREQUENT.get(inner.__class__)
            filled[name] = inner if fits else fitting(inner, part)
        return filled
    if is_nothing(value):
        return None
    if kind == "string":
        return value if isinstance(value, str) else _json(value)
    if isinstance(kind, list):
        return [fitting(member, kind[0]) for member in value] if isinstance(value, list) else None
    if kind == JSON:
        return _json(value)
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


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
