"""Build a KnowledgeGraph from batches of nodes and edges, and check everything that a graph must satisfy.

Readers parse their format only; duplicate ids, unknown nodes and empty names are handled here, alike for all
formats. An edge takes three int32, a node its id, name and type, so a reader that streams needs memory for
the graph, not for its files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgqa_hpc.errors import EmptyGraphError, GraphFormatError
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.intern import Interner
from kgqa_hpc.kg.properties import Columns
from kgqa_hpc.text.plain_text import normalized

if TYPE_CHECKING:
    from kgqa_hpc.kg.settings import GraphConfig

Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Lines = Callable[[int], int]
"""The line of a row of a batch, asked for only when something is wrong there."""
Declare = Callable[[pa.Array], tuple[pa.Array, pa.Array]]
"""Names and types of nodes that only edges mention."""
_LONG_NAME = 2_000  # bytes


@dataclass(frozen=True)
class Policy:
    """Treatment of faulty rows; the fields are settings of `GraphConfig` with the same names."""

    unknown_nodes: Literal["error", "drop"] = "error"
    unnamed_nodes: Literal["drop", "error"] = "drop"
    duplicate_nodes: Literal["error", "first"] = "error"

    @classmethod
    def of(cls, settings: GraphConfig) -> Policy:
        """The policy that a configuration sets."""
        return cls(settings.unknown_nodes, settings.unnamed_nodes, settings.duplicate_nodes)


class Assembly:
    """Collects a graph: `nodes` and `edges` take batches in any order, `finish` gives the graph.

    Node and edge order are those of the rows. Arrays are Arrow strings of equal length, without nulls. Names
    become Unicode NFC, other texts stay unchanged. Nodes without a name are kept with the name "" (reduction
    drops them) unless `policy.unnamed_nodes` is "error".
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._ids = Interner()
        self._declared = np.zeros(1024, dtype=bool)  # by number of id
        self._node_rows = _Rows()
        self._node_code: list[Codes] = []
        self._node_kept: list[Mask] = []
        self._names: list[pa.Array] = []
        self._node_types, self._edge_types = _Types(), _Types()
        self._edge_rows = _Rows()
        self._sources: list[Codes] = []
        self._targets: list[Codes] = []
        self._node_properties, self._edge_properties = Columns(), Columns()

    def nodes(
        self,
        file: str,
        ids: pa.Array,
        names: pa.Array,
        types: pa.Array,
        line_of: Lines,
        properties: Mapping[str, pa.Array] | None = None,
    ) -> None:
        """Add a batch of node rows of `file`. Raises GraphFormatError for an empty or a repeated id."""
        self._node_rows.add(file, len(ids), line_of)
        before = len(self._ids)
        codes = self._ids.numbers(_large(ids))
        self._refuse_blank(before, codes, line_of, f"{file} line", "the node's id")
        is_first = self._first_of_each_id(codes)
        self._node_code.append(codes)
        self._node_kept.append(is_first)
        row_mask = pa.array(is_first)
        self._names.append(_normalized(names).filter(row_mask))
        self._node_types.add(types.filter(row_mask))
        self._node_properties.add(len(ids), properties or {})

    def edges(
        self,
        file: str,
        sources: pa.Array,
        targets: pa.Array,
        types: pa.Array,
        line_of: Lines,
        properties: Mapping[str, pa.Array] | None = None,
    ) -> None:
        """Add a batch of edge rows of `file`. Raises GraphFormatError for an empty id."""
        self._edge_rows.add(file, len(sources), line_of)
        before = len(self._ids)
        source, target = self._ids.pairs(_large(sources), _large(targets))
        self._refuse_blank(before, source, line_of, f"{file} line", "the edge's source")
        self._refuse_blank(before, target, line_of, f"{file} line", "the edge's target")
        self._sources.append(source)
        self._targets.append(target)
        self._edge_types.add(types)
        self._edge_properties.add(len(sources), properties or {})

    def finish(
        self,
        attributes: Mapping[str, str | int],
        *,
        declare: Declare | None = None,
        defaults: tuple[str, str] | None = None,
    ) -> KnowledgeGraph:
        """Build the graph of all batches; the graph's attributes count the dropped rows.

        `declare` gives names and types to the nodes that only edges mention, in order of appearance; without
        it such nodes are unknown. With `defaults` (node type, edge type), a graph without any node name gets
        its ids as names, and a graph without any type gets the default types.

        Raises GraphFormatError with file and line, EmptyGraphError when there is no node or no edge.
        """
        if declare is not None:
            self._declare(declare)
        row_mask = np.concatenate(self._node_kept) if self._node_kept else np.empty(0, bool)
        order = _joined(self._node_code)[row_mask]
        node_file, edge_file = self._node_rows.files(), self._edge_rows.files()
        source, target, has_ends = self._ends(order, node_file)
        if not len(order):
            cure = "give at least one row after the header"
            raise EmptyGraphError(f"{node_file or edge_file} has no node", cure)
        if not has_ends.any():
            raise EmptyGraphError(
                f"{edge_file or node_file} has no edge between known nodes", "is it the right file?"
            )
        ids = self._ids.texts().take(pa.array(order))
        names = self._finished_names(ids, row_mask, named_by_id=defaults is not None)
        node_type, node_types = self._node_types.finish(None, defaults and defaults[0])
        whole = bool(has_ends.all())
        edge_type, edge_types = self._edge_types.finish(None if whole else has_ends, defaults and defaults[1])
        dropped = {
            "dropped_duplicate_nodes": int((~row_mask).sum()),
            "dropped_edges_with_unknown_nodes": int((~has_ends).sum()),
        }
        return KnowledgeGraph(
            node_ids=to_objects(ids),
            names=to_objects(names),
            node_type=node_type,
            node_types=node_types,
            edge_source=source if whole else source[has_ends],
            edge_target=target if whole else target[has_ends],
            edge_type=edge_type,
            edge_types=edge_types,
            attributes={**attributes, **{key: count for key, count in dropped.items() if count}},
            node_properties=self._node_properties.finish(None if row_mask.all() else row_mask),
            edge_properties=self._edge_properties.finish(None if whole else has_ends),
        )

    def _refuse_blank(self, before: int, codes: Codes, line_of: Lines, file_name: str, element: str) -> None:
        if len(self._ids) == before:
            return
        blank = pc.equal(pc.utf8_trim_whitespace(self._ids.texts(before)), "").to_numpy(zero_copy_only=False)
        if blank.any():
            rows = np.flatnonzero(np.isin(codes, before + np.flatnonzero(blank)))
            if len(rows):
                raise GraphFormatError(
                    f"{file_name} {line_of(int(rows[0])):,}: {element} is empty",
                    "fill it in or delete the line",
                )

    def _first_of_each_id(self, codes: Codes) -> Mask:
        """Mask of the rows to keep: all, or with `duplicate_nodes: first` the first of each id."""
        if len(self._ids) > len(self._declared):
            self._declared = np.append(
                self._declared, np.zeros(max(len(self._ids), len(self._declared)), dtype=bool)
            )
        is_first = ~self._declared[codes]
        _, rows = np.unique(codes, return_index=True)
        repeated = np.ones(len(codes), dtype=bool)
        repeated[rows] = False
        is_first &= ~repeated
        self._declared[codes] = True
        if self._policy.duplicate_nodes == "error" and not is_first.all():
            row = int(np.argmin(is_first))
            earlier = int(np.argmax(np.concatenate([*self._node_code, codes]) == codes[row]))
            start = sum(map(len, self._node_code))
            (file, line), (earlier_file, old) = (
                self._node_rows.place(start + row),
                self._node_rows.place(earlier),
            )
            text = self._ids.texts(int(codes[row]))[0]
            raise GraphFormatError(
                f"{file} line {line:,}: node id {_shown(text)} already stands in"
                + (f" line {old:,}" if earlier_file == file else f" {earlier_file} line {old:,}")
                + _more(int((~is_first).sum()) - 1, "such line"),
                "delete one of them, or set graph.duplicate_nodes: first, which keeps the first of each",
            )
        return is_first

    def _declare(self, declare: Declare) -> None:
        """Add the nodes that only edges mention, after all other nodes."""
        declared = np.zeros(len(self._ids), dtype=bool)
        declared[: len(self._declared)] = self._declared[: len(declared)]
        codes = np.flatnonzero(~declared).astype(np.int32)
        names, types = declare(self._ids.texts().take(pa.array(codes)))
        self._node_rows.add(self._edge_rows.files(), len(codes), lambda row: row + 1)
        self._node_code.append(codes)
        self._node_kept.append(np.ones(len(codes), dtype=bool))
        self._names.append(_normalized(names))
        self._node_types.add(types)
        self._node_properties.add(len(codes), {})

    def _finished_names(self, ids: pa.Array, row_mask: Mask, *, named_by_id: bool) -> pa.Array:
        names = pa.concat_arrays(self._names) if self._names else pa.array([], pa.large_string())
        self._names = []
        blank = pc.equal(pc.utf8_trim_whitespace(names), "")
        unnamed = blank.to_numpy(zero_copy_only=False)
        if named_by_id and unnamed.all():
            return ids
        if self._policy.unnamed_nodes == "error" and unnamed.any():
            position = int(np.argmax(unnamed))
            file, line = self._node_rows.place(int(np.flatnonzero(row_mask)[position]))
            raise GraphFormatError(
                f"{file} line {line:,}: node {_shown(ids[position])} has no name"
                + _more(int(unnamed.sum()) - 1, "such node"),
                "name it, or set graph.unnamed_nodes: drop, which leaves such nodes out, as published",
            )
        return pc.if_else(blank, pa.scalar("", pa.large_string()), names) if unnamed.any() else names

    def _ends(self, order: Codes, node_file: str) -> tuple[Codes, Codes, Mask]:
        """Node positions of both ends of each edge (-1: unknown), and the mask of edges with known ends."""
        position = np.full(len(self._ids), -1, np.int32)
        position[order] = np.arange(len(order), dtype=np.int32)
        codes = _joined(self._sources), _joined(self._targets)
        source, target = (position[codes_of_end] for codes_of_end in codes)
        has_ends = (source >= 0) & (target >= 0)
        if self._policy.unknown_nodes == "error" and not has_ends.all():
            row = int(np.argmin(has_ends))
            end, which = ("source", 0) if source[row] < 0 else ("target", 1)
            text = self._ids.texts(int(codes[which][row]))[0]
            stripped = pc.index(self._ids.texts(), text.as_py().strip()).as_py()
            spaces = stripped >= 0 and position[stripped] >= 0
            file, line = self._edge_rows.place(row)
            raise GraphFormatError(
                f"{file} line {line:,}: {end} {_shown(text)} is not in {node_file}"
                + _more(int((~has_ends).sum()) - 1, "such edge"),
                "the node file has it without the spaces around it"
                if spaces
                else "add it there, or run with --unknown-nodes drop"
                " (configuration: graph.unknown_nodes: drop)",
            )
        return source, target, has_ends


class _Rows:
    """File and line of each row."""

    def __init__(self) -> None:
        self._total = 0
        self._starts: list[int] = []
        self._batches: list[tuple[str, Lines]] = []

    def add(self, file: str, rows: int, line_of: Lines) -> None:
        self._starts.append(self._total)
        self._batches.append((file, line_of))
        self._total += rows

    def place(self, row: int) -> tuple[str, int]:
        """File and line of a row, counted over all batches."""
        batch = bisect_right(self._starts, row) - 1
        file, line_of = self._batches[batch]
        return file, line_of(row - self._starts[batch])

    def files(self) -> str:
        """The distinct file names; if there are many, the first three."""
        names = list(dict.fromkeys(file for file, _ in self._batches))
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


class _Types:
    """Types as codes, in the order of their first appearance."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}
        self._chunks: list[Codes] = []

    def add(self, values: pa.Array) -> None:
        encoded = values.dictionary_encode()
        codes = [self._code.setdefault(kind, len(self._code)) for kind in encoded.dictionary.to_pylist()]
        self._chunks.append(np.array(codes, np.int32)[encoded.indices.to_numpy()])

    def finish(self, keep: Mask | None, default: str | None) -> tuple[Codes, tuple[str, ...]]:
        """Codes int32 of the kept rows and the names of the types they have."""
        codes, names = _joined(self._chunks), list(self._code)
        if keep is not None:
            used = pa.array(codes[keep]).dictionary_encode()
            codes, names = used.indices.to_numpy(), [names[code] for code in used.dictionary.to_pylist()]
        if default is not None and names == [""]:
            names = [default]
        return codes, tuple(names)


def _joined(chunks: list[Codes]) -> Codes:
    """Concatenate `chunks`, and empty the list to free their memory."""
    whole = np.concatenate(chunks) if chunks else np.empty(0, np.int32)
    chunks.clear()
    return whole


def _large(values: pa.Array) -> pa.Array:
    return values if values.type == pa.large_string() else values.cast(pa.large_string())


def _normalized(names: pa.Array) -> pa.Array:
    """The names in NFC. Arrow sorts a run of accents in quadratic time, so Python normalises long names."""
    names = _large(names)
    if (pc.max(pc.binary_length(names)).as_py() or 0) <= _LONG_NAME:
        return pc.utf8_normalize(names, "NFC")
    return pa.array([normalized("NFC", name) for name in names.to_pylist()], pa.large_string())


def to_objects(values: pa.Array) -> npt.NDArray[np.object_]:
    """An object array of str."""
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=object)


def _more(count: int, noun: str) -> str:
    return f" (and {count:,} more {noun}{'s' if count > 1 else ''})" if count else ""


def _shown(value: pa.Scalar) -> str:
    """A value for an error message: quoted, on one line, cut to a line's length."""
    text = value.as_py()
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
