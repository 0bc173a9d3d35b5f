"""The columns that anchor kinds and steps add to a dataset record, described without a table library.

A type is "string", "int64", "double", "bool", a list of one type (a list column), or a mapping of field
names to types (a struct column).
"""

from __future__ import annotations

from typing import Any, NamedTuple

Type = Any  # "string" | "int64" | "double" | "bool" | [Type] | {"field": Type}
PLAIN = ("string", "int64", "double", "bool")


class Column(NamedTuple):
    """One column of accepted and rejected records; `description` is one sentence for cards and Croissant."""

    name: str
    type: Type
    description: str


def check_type(kind: Type) -> None:
    """Raises ValueError for what is no column type, naming the part that is wrong."""
    if isinstance(kind, list) and len(kind) == 1:
        check_type(kind[0])
    elif isinstance(kind, dict) and kind:
        for inner in kind.values():
            check_type(inner)
    elif not (isinstance(kind, str) and kind in PLAIN):
        raise ValueError(f"{kind!r} is no column type: {', '.join(PLAIN)}, [type] or {{'field': type}}")
