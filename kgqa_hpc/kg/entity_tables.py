"""Tables of entities: an id in the first column, in the others names or identifiers of other data bases.

As OREGANO writes them: tab-separated, headers and values padded with blanks, several columns told apart by
white space only. Of columns whose stripped names are one, the last value that is not empty counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.delimited import DelimitedFile, Dialect
from kgqa_hpc.registry import did_you_mean

_RAGGED = Dialect("\t", ragged=True)


def read_columns(path: Path, wanted: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row's id and its values in the wanted columns, stripped; "" where there is nothing.

    Raises GraphFormatError with file and line, and for a column the table does not have.
    """
    file = DelimitedFile.open(path, _RAGGED)
    header = [name.strip() for name in file.first.fields]
    for name in wanted:
        if name not in header[1:]:
            raise GraphFormatError(
                f"{path.name} line 1: column {name!r} is missing{did_you_mean(name, header)}",
                "is it the right table?",
            )
    places = {name: [str(k) for k, each in enumerate(header) if each == name and k] for name in wanted}
    needed = ["0", *(place for each in places.values() for place in each)]
    names = [str(k) for k in range(len(header))]
    for _, batch in file.batches(names, list(dict.fromkeys(needed)), header=True):
        values = {place: column.to_pylist() for place, column in batch.items()}
        for row, node in enumerate(values["0"]):
            yield (
                node.strip(),
                {
                    name: next((v for p in reversed(each) if (v := values[p][row].strip())), "")
                    for name, each in places.items()
                },
            )
