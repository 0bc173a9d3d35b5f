"""Build a KnowledgeGraph from batches of nodes and edges, and check everything that a graph must satisfy.

Readers parse their format only; duplicate ids, unknown nodes and empty names are handled here, alike for all
formats. An edge takes three int32, a node its id, name and type, so a reader that streams needs memory for
the graph, not for its files. A `Buffer` makes batches of single rows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa_hpc.errors import EmptyGraphError, GraphFormatError
from kgqa_hpc.kg.graph import Codes, KnowledgeGraph, Mask, cell, typed
from kgqa_hpc.text.plain_text import normalized

if TYPE_CHECKING:
    from kgqa_hpc.kg.settings import GraphConfig

Lines = Callable[[int], int]
"""A function that gives the file's line number of a row of a batch; called only for error messages."""
Declare = Callable[[pa.Array], tuple[pa.Array, pa.Array]]
"""Names and types of nodes that only edges mention."""
_BATCH = 20_000  # rows that a Buffer holds as Python objects
_Cells = Mapping[str, Any] | None
_Row = tuple[str, str, str, int, _Cells]
_PROPERTY = "/"  # prefix of a property's column, which no other column has


class Assembly:
    """Collects a graph: `nodes` and `edges` take batches in any order, `finish` gives the graph.

    Node and edge order are those of the rows. Arrays are Arrow strings of equal length, without nulls. Names
    become Unicode NFC, other texts stay unchanged. `unknown_nodes`, `unnamed_nodes` and `duplicate_nodes` of the
    settings say how faulty rows are treated; nodes without a name are kept with the name "" (reduction drops them)
    unless they are an error.
    """

    def __init__(self, settings: GraphConfig) -> None:
        from kgqa_hpc.kg.kernels import Interner  # numba loads slowly, and only readers need it

        self._settings, self._ids = settings, Interner()
        self._nodes, self._edges = _Batches(), _Batches()

    def nodes(
        self,
        file: str,
        ids: pa.Array,
        names: pa.Array,
        types: pa.Array,
        line_of: Lines,
        properties: Mapping[str, pa.Array] | None = None,
    ) -> None:
        """Add a batch of node rows of `file`."""
        columns = {"node": self._ids.numbers(ids.cast(pa.large_string())), "name": _normalized(names)}
        self._nodes.add(file, line_of, types, properties or {}, columns)

    def edges(
        self,
        file: str,
        sources: pa.Array,
        targets: pa.Array,
        types: pa.Array,
        line_of: Lines,
        properties: Mapping[str, pa.Array] | None = None,
    ) -> None:
        """Add a batch of edge rows of `file`."""
        source, target = self._ids.pairs(*(ends.cast(pa.large_string()) for ends in (sources, targets)))
        self._edges.add(file, line_of, types, properties or {}, {"source": source, "target": target})

    def finish(
        self,
        attributes: Mapping[str, str | int],
        *,
        declare: Declare | None = None,
        defaults: tuple[str, str] | None = None,
        left_out: Sequence[str] = (),
    ) -> KnowledgeGraph:
        """Build the graph of all batches; the graph's attributes count the dropped rows.

        `declare` gives names and types to the nodes that only edges mention, in order of appearance; without
        it such nodes are unknown. With `defaults` (node type, edge type), a graph without any node name gets
        its ids as names, and a graph without any type gets the default types. Edges of the nodes `left_out` are
        dropped like those of unknown nodes, without an error.

        Raises GraphFormatError with file and line, EmptyGraphError when there is no node or no edge.
        """
        left_out_codes = self._ids.numbers(pa.array(left_out, pa.large_string()))
        texts, files = self._ids.texts(), (self._nodes.files(), self._edges.files())
        node = self._nodes.codes("node")
        source, target = map(self._edges.codes, ("source", "target"))
        self._refuse_blank(texts, node, source, target)
        if declare is not None:
            declared = np.zeros(len(texts), bool)
            declared[node] = True
            only_in_edges = np.flatnonzero(~declared).astype(np.int32)
            names, types = declare(texts.take(pa.array(only_in_edges)))
            self._nodes.add(files[1], lambda row: row + 1, types, {}, {"name": _normalized(names)})
            node = np.append(node, only_in_edges)
        row_mask = self._first_rows(node, texts)
        order = node[row_mask]
        source, target, has_ends = self._ends(order, source, target, texts, left_out_codes)
        if not len(order):
            cure = "give at least one row after the header"
            raise EmptyGraphError(f"{files[0] or files[1]} has no node", cure)
        if not has_ends.any():
            raise EmptyGraphError(
                f"{files[1] or files[0]} has no edge between known nodes", "is it the right file?"
            )
        ids = texts.take(pa.array(order))
        names = self._finished_names(ids, row_mask, named_by_id=defaults is not None)
        node_type, node_types, node_properties = self._nodes.finish(row_mask, defaults and defaults[0])
        edge_type, edge_types, edge_properties = self._edges.finish(has_ends, defaults and defaults[1])
        dropped = {
            "dropped_duplicate_nodes": int((~row_mask).sum()),
            "dropped_edges_with_unknown_nodes": int((~has_ends).sum()),
        }
        return KnowledgeGraph(
            node_ids=ids.to_numpy(zero_copy_only=False),
            names=names.to_numpy(zero_copy_only=False),
            node_type=node_type,
            node_types=node_types,
            edge_source=source if has_ends.all() else source[has_ends],
            edge_target=target if has_ends.all() else target[has_ends],
            edge_type=edge_type,
            edge_types=edge_types,
            attributes={**attributes, **{key: count for key, count in dropped.items() if count}},
            node_properties=node_properties,
            edge_properties=edge_properties,
        )

    def _refuse_blank(self, texts: pa.Array, node: Codes, source: Codes, target: Codes) -> None:
        blank = pc.equal(pc.utf8_trim_whitespace(texts), "").to_numpy(zero_copy_only=False)
        if blank.any():
            ends = (self._edges, source, "the edge's source"), (self._edges, target, "the edge's target")
            for rows, codes, element in ((self._nodes, node, "the node's id"), *ends):
                for row in np.flatnonzero(blank[codes])[:1].tolist():
                    cure = "fill it in or delete the line"
                    raise GraphFormatError(f"{' '.join(rows.place(row))}: {element} is empty", cure)

    def _first_rows(self, node: Codes, texts: pa.Array) -> Mask:
        """Mask of the node rows to keep: all, or with `duplicate_nodes: first` the first of each id."""
        rows = np.arange(len(node))
        row_of_id = np.empty(len(texts), np.int64)
        row_of_id[node[::-1]] = rows[::-1]  # in reverse, so the first row of an id is written last
        is_first: Mask = row_of_id[node] == rows
        if self._settings.duplicate_nodes == "error" and not is_first.all():
            row = int(np.argmin(is_first))
            file, line = self._nodes.place(row)
            earlier_file, earlier = self._nodes.place(row_of_id[node[row]])
            raise GraphFormatError(
                f"{file} {line}: node id {_shown(texts[node[row]])} already stands in "
                + (earlier if earlier_file == file else f"{earlier_file} {earlier}")
                + _more(int((~is_first).sum()) - 1, "such line"),
                "delete one of them, or set graph.duplicate_nodes: first, which keeps the first of each",
            )
        return is_first

    def _ends(
        self, order: Codes, sources: Codes, targets: Codes, texts: pa.Array, left_out: Codes
    ) -> tuple[Codes, Codes, Mask]:
        """Node positions of both ends of each edge (-1: unknown), and the mask of edges with known ends."""
        position = np.full(len(texts), -1, np.int32)
        position[order] = np.arange(len(order), dtype=np.int32)
        source, target = position[sources], position[targets]
        has_ends = (source >= 0) & (target >= 0)
        unknown = ~(has_ends | np.isin(sources, left_out) | np.isin(targets, left_out))
        if self._settings.unknown_nodes == "error" and unknown.any():
            row = int(np.argmax(unknown))
            end, codes = ("source", sources) if source[row] < 0 else ("target", targets)
            text = texts[codes[row]]
            declared = texts.take(pa.array(order)).to_pylist()
            alike = next((node for node in declared if _bare(node) == _bare(text.as_py())), None)
            raise GraphFormatError(
                f"{' '.join(self._edges.place(row))}: {end} {_shown(text)} is not in {self._nodes.files()}"
                + _more(int(unknown.sum()) - 1, "such edge"),
                "add it there, or run with --unknown-nodes drop (configuration: graph.unknown_nodes: drop)"
                if alike is None
                else f"there it is {_shown(pa.scalar(alike))}; write ids alike, without the spaces and without .0",
            )
        return source, target, has_ends

    def _finished_names(self, ids: pa.Array, row_mask: Mask, *, named_by_id: bool) -> pa.Array:
        names = pa.concat_arrays(self._nodes.columns.pop("name"))
        if not row_mask.all():
            names = names.filter(pa.array(row_mask))
        blank = pc.equal(pc.utf8_trim_whitespace(names), "")
        unnamed = blank.to_numpy(zero_copy_only=False)
        if named_by_id and unnamed.all():
            return ids
        if self._settings.unnamed_nodes == "error" and unnamed.any():
            position = int(np.argmax(unnamed))
            file, line = self._nodes.place(np.flatnonzero(row_mask)[position])
            raise GraphFormatError(
                f"{file} {line}: node {_shown(ids[position])} has no name"
                + _more(int(unnamed.sum()) - 1, "such node"),
                "name it, or set graph.unnamed_nodes: drop, which leaves such nodes out, as published",
            )
        return pc.if_else(blank, pa.scalar("", pa.large_string()), names) if unnamed.any() else names


class _Batches:
    """The rows of all batches so far as columns in chunks, with the file and line of each row."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {}
        self._types: dict[str, int] = {}  # codes in the order of first appearance
        self._starts = [0]
        self._batches: list[tuple[str, Lines]] = []

    def add(
        self,
        file: str,
        line_of: Lines,
        types: pa.Array,
        properties: Mapping[str, pa.Array],
        columns: Mapping[str, Any],
    ) -> None:
        """Append a batch; a property that a batch lacks is null in its rows."""
        encoded = types.dictionary_encode()
        codes = [self._types.setdefault(kind, len(self._types)) for kind in encoded.dictionary.to_pylist()]
        batch = {**columns, "type": np.array(codes, np.int32)[encoded.indices.to_numpy()]}
        batch |= {_PROPERTY + name: cells.cast(pa.large_string()) for name, cells in properties.items()}
        for name in dict.fromkeys((*self.columns, *batch)):
            if name not in self.columns:
                before = self._starts[-1]
                self.columns[name] = [pa.nulls(before, pa.large_string())] if before else []
            chunk = batch.get(name)
            self.columns[name].append(pa.nulls(len(types), pa.large_string()) if chunk is None else chunk)
        self._batches.append((file, line_of))
        self._starts.append(self._starts[-1] + len(types))

    def codes(self, name: str) -> Codes:
        """Take a column of codes, int32, out of the collected columns."""
        return np.concatenate([np.empty(0, np.int32), *self.columns.pop(name, ())])

    def finish(self, keep: Mask, default: str | None) -> tuple[Codes, tuple[str, ...], dict[str, pa.Array]]:
        """Type codes of the rows to keep, the types they have, and the properties any of them has.

        Releases the collected columns. `default`: the type of all rows if no row has a type.
        """
        codes, names = self.codes("type"), list(self._types)
        if not keep.all():
            used = pa.array(codes[keep]).dictionary_encode()
            codes, names = used.indices.to_numpy(), [names[code] for code in used.dictionary.to_pylist()]
        properties: dict[str, pa.Array] = {}
        for name in [name for name in self.columns if name.startswith(_PROPERTY)]:
            column = typed(pa.concat_arrays(self.columns.pop(name)))
            column = column if keep.all() else column.filter(pa.array(keep))
            if column.null_count < len(column):
                properties[name.removeprefix(_PROPERTY)] = column
        self.columns.clear()
        return codes, (default,) if default is not None and names == [""] else tuple(names), properties

    def place(self, row: int) -> tuple[str, str]:
        """File and line of a row for an error message; `row` is counted over all batches."""
        batch = bisect_right(self._starts, row) - 1
        file, line_of = self._batches[batch]
        return file, f"line {line_of(int(row) - self._starts[batch]):,}"

    def files(self) -> str:
        """The distinct file names; if there are many, the first three."""
        names = list(dict.fromkeys(file for file, _ in self._batches))
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@dataclass
class Buffer:
    """Nodes and edges of one file, each with its line and its properties, passed to an assembly in batches.

    Rows without properties hold texts and numbers only, which the garbage collector need not visit.
    """

    assembly: Assembly
    file: str
    _nodes: list[_Row] = field(default_factory=list)
    _edges: list[_Row] = field(default_factory=list)

    def node(self, line: int, node: str, name: str, kind: str, properties: _Cells = None) -> None:
        self._nodes.append((node, name, kind, line, properties or None))
        if len(self._nodes) >= _BATCH:
            self._pass_on(self._nodes, self.assembly.nodes)

    def edge(self, line: int, source: str, target: str, kind: str, properties: _Cells = None) -> None:
        self._edges.append((source, target, kind, line, properties or None))
        if len(self._edges) >= _BATCH:
            self._pass_on(self._edges, self.assembly.edges)

    def flush(self) -> None:
        """Pass on the remaining rows; call it at the end of the file."""
        self._pass_on(self._nodes, self.assembly.nodes)
        self._pass_on(self._edges, self.assembly.edges)

    def _pass_on(self, rows: list[_Row], take: Callable[..., None]) -> None:
        columns = [self._column(rows, [row[position] for row in rows]) for position in range(3)]
        names = dict.fromkeys(name for row in rows if row[4] for name in row[4])
        cells = {name: [cell(row[4].get(name)) if row[4] else "" for row in rows] for name in names}
        properties = {name: self._column(rows, texts) for name, texts in cells.items()}
        # Only the rows' line numbers are kept (8 bytes a row), not the rows.
        take(self.file, *columns, array("q", [row[3] for row in rows]).__getitem__, properties)
        rows.clear()

    def _column(self, rows: list[_Row], values: list[Any]) -> pa.Array:
        """Arrow strings of the values. Raises GraphFormatError with the line for a value that is not text."""
        try:
            column = pa.array(values, pa.large_string())
        except (TypeError, ValueError):
            column = None
        if column is None or column.null_count:
            row, value = next(
                (row, value)
                for row, value in zip(rows, values, strict=True)
                if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value)
            )
            problem = f"{self.file} line {row[3]:,}: expected a text, found {repr(value)[:60]}"
            raise GraphFormatError(problem, "mend it")
        return column


def _normalized(names: pa.Array) -> pa.Array:
    """The names in NFC. Arrow before version 26 leaves accents apart, so Python normalises what is not ASCII."""
    names = names.cast(pa.large_string())
    foreign = pc.invert(pc.string_is_ascii(names))
    texts = [normalized("NFC", name) for name in names.filter(foreign).to_pylist()]
    return pc.replace_with_mask(names, foreign, pa.array(texts, pa.large_string()))


def _bare(node: str) -> str:
    """An id without what programs change in it: spaces around it, its case, and `.0` of a number read as a float."""
    return node.strip().removesuffix(".0").casefold()


def _more(count: int, noun: str) -> str:
    return f" (and {count:,} more {noun}{'s' if count > 1 else ''})" if count else ""


def _shown(value: pa.Scalar) -> str:
    """A value for an error message: quoted, on one line, cut to a line's length."""
    text = value.as_py()
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
