"""Fields of published graphs: cells of OREGANO's tables of entities, and members of JSON objects."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.delimited import RAGGED, DelimitedFile
from kgqa_hpc.registry import did_you_mean


def read_columns(path: Path, requested: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows of a table of entities: the id, and the stripped values of the requested columns ("" for an empty cell).

    The format is OREGANO's: tab-separated, the id first, then names and identifiers of other databases;
    headers and values are padded with blanks. If several columns have the same stripped name, the last
    non-empty value counts. Raises GraphFormatError with file and line, and for a column the table does not have.
    """
    file = DelimitedFile.open(path, RAGGED)
    header = [name.strip() for name in file.first_record.fields]
    for name in requested:
        if name not in header[1:]:
            problem = f"{path.name} line 1: column {name!r} is missing{did_you_mean(name, header)}"
            raise GraphFormatError(problem, "is it the right table?")
    numbers = list(map(str, range(len(header))))
    # Of the columns with one name, the last comes first.
    same = {name: [k for k in numbers[:0:-1] if header[int(k)] == name] for name in requested}
    columns = dict.fromkeys(["0", *(k for positions in same.values() for k in positions)])
    for rows in file.rows(numbers, list(columns), header=True):
        cells = {k: [text.strip() for text in column.to_pylist()] for k, column in rows.columns.items()}
        for row, node in enumerate(cells["0"]):
            yield node, {name: next((v for k in ks if (v := cells[k][row])), "") for name, ks in same.items()}


def members(item: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The members of a JSON object that `names` lists and that exist."""
    return {name: item[name] for name in names if item.get(name) is not None}


def first_of(item: Mapping[str, Any], names: Iterable[str]) -> str:
    """The first existing member among `names`; the text "Null", which some exports write, counts as missing."""
    values = (item.get(name) for name in names)
    return next((str(value) for value in values if value and value != "Null"), "")
