"""The columns that anchor kinds and steps add to a dataset record, described without a table library.

A type is "string", "int64", "double", "bool", a list of one type (a list column), or a mapping of field
names to types (a struct column).
"""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, NamedTuple

from kgqa_hpc.errors import ExtensionError

Type = Any  # "string" | "int64" | "double" | "bool" | [Type] | {"field": Type}
INT64 = range(-(2**63), 2**63)
PLAIN = ("string", "int64", "double", "bool")
# Fields that every record has (dataset/columns.py); columns of steps and kinds must not use these names.
COMMON_NAMES = frozenset(["id", "question", "answer", "kind", "group", "accepted", "reason"])
COMMON_NAMES |= {"verdicts", "features", "provenance", "split"}


class Column(NamedTuple):
    """A column of accepted and rejected records; `description` is one sentence for the dataset card and Croissant.

    The values of a `filterable` column are also stored under `features`, for the option `--score` and the figures.
    """

    name: str
    type: Type
    description: str
    filterable: bool = False


def check_type(kind: Type) -> None:
    """Raises ValueError for an invalid column type; the message names the wrong part."""
    if isinstance(kind, list) and len(kind) == 1:
        check_type(kind[0])
    elif isinstance(kind, dict) and kind:
        for inner in kind.values():
            check_type(inner)
    elif not (isinstance(kind, str) and kind in PLAIN):
        raise ValueError(f"{kind!r} is no column type: {', '.join(PLAIN)}, [type] or {{'field': type}}")


def check_columns(columns: Iterable[Column], entry: str) -> None:
    """Raises ExtensionError for a column without a name, with an invalid type, a repeated name or a common name.

    `entry` names the step or kind that declares the columns, with its package.
    """
    names: set[str] = set()
    if isinstance(columns, Column) or not all(
        isinstance(column, Column) and column.name for column in columns
    ):
        raise ExtensionError(f"{entry}: `columns` is no tuple of Column", 'columns = (Column("years", ...),)')
    for column in columns:
        try:
            check_type(column.type)
        except ValueError as problem:
            raise ExtensionError(
                f"{entry}: column {column.name!r}: {problem}", "mend its `columns`"
            ) from None
        if column.name in COMMON_NAMES:
            raise ExtensionError(
                f"{entry}: column {column.name!r} is a member of every record", "give it another name"
            )
        if column.name in names:
            raise ExtensionError(f"{entry}: declares column {column.name!r} twice", "give one another name")
        names.add(column.name)


def fits(value: Any, kind: Type) -> bool:
    """Whether a column of this type can hold the value.

    Any column can hold None, a double also an integer; no column holds NaN or an infinity, which JSON lacks.
    """
    if value is None:
        return True
    if isinstance(kind, list):
        return isinstance(value, list | tuple) and all(fits(member, kind[0]) for member in value)
    if isinstance(kind, dict):
        return isinstance(value, Mapping) and all(fits(value.get(name), kind[name]) for name in kind)
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "string" or isinstance(value, bool):
        return isinstance(value, str)
    if kind == "int64":
        return isinstance(value, int) and value in INT64
    return isinstance(value, int) or (isinstance(value, float) and isfinite(value))


def misfit(columns: Iterable[Column], values: Mapping[str, Any]) -> str | None:
    """A sentence about the first column that cannot hold its value; None if all fit."""
    for column in columns:
        if not fits(values.get(column.name), column.type):
            return f"column {column.name} is no {column.type}"
    return None
