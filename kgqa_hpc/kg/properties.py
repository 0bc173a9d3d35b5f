"""Further columns of nodes and edges, typed as a whole.

A column's cells are texts; an empty cell means that the node or edge lacks the property. By its other cells a
column is integer (all `-?(0|[1-9][0-9]*)`), else decimal (all JSON numbers), else boolean (all true or false,
any case), else text. An integer beyond 64 bits or a number beyond a double makes its column text, so that no
digit is lost. In memory a column is one Arrow array with nulls: int64, double, bool or large_string.
"""

import pyarrow as pa
import pyarrow.compute as pc

TYPES = {"integer": pa.int64(), "decimal": pa.float64(), "boolean": pa.bool_(), "text": pa.large_string()}

SYNONYMS = "synonyms"  # the text property with other names of a node, joined by bars
INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_BOOLEAN = r"^(?i:true|false)$"


def typed(cells: pa.Array) -> pa.Array:
    """The cells (large_string; "" or null for no value) as a column of the type that fits all of them."""
    cells = pc.if_else(pc.equal(cells, ""), pa.scalar(None, cells.type), cells)
    for pattern, kind in ((INTEGER, "integer"), (_NUMBER, "decimal"), (_BOOLEAN, "boolean")):
        # A look at the first cells avoids three passes over most text columns.
        if not (_all_match(cells.slice(0, 64), pattern) and _all_match(cells, pattern)):
            continue
        try:
            column = cells.cast(TYPES[kind])
        except pa.ArrowInvalid:  # an integer beyond 64 bits
            break
        if kind != "decimal" or pc.all(pc.is_finite(column), skip_nulls=True, min_count=0).as_py():
            return column
    return cells.cast(TYPES["text"])


def type_name(column: pa.Array) -> str:
    """integer, decimal, boolean or text. Raises KeyError for a column of another type."""
    return {kind: name for name, kind in TYPES.items()}[column.type]


def _all_match(cells: pa.Array, pattern: str) -> bool:
    matches = pc.match_substring_regex(cells, pattern)
    return bool(pc.all(matches, skip_nulls=True, min_count=0).as_py())
