"""Hydration: names the nodes of a graph by a recipe, cleans each name and records its origin.

The recipe orders the identifier spaces of each class; a node gets the name of the first space that has one. The graph
gets the node properties name_space, name_id, name_table and name_date, and given_name where a name of the input was
replaced, so hydration is idempotent. BioGraphletQA, section 3.1.1 and Appendix B.

Cleaning a name has these steps, each counted: control characters become blanks, and so do underscores if the recipe
says so; the recipe's suffixes and a final database reference in brackets are cut (`Imatinib [DB00619]`,
`a [Source:HGNC;Acc:7]`); runs of blanks become one; Unicode NFC. A name that is an identifier is dropped; an overlong
name is kept, cut or dropped by the recipe's rule.
"""

import dataclasses
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.plugins.biokg.published import read_columns
from kgqa_hpc.plugins.biokg.recipe import GIVEN, EntityClass, Recipe, Rules, Source, load_recipe
from kgqa_hpc.plugins.biokg.spaces import Spaces
from kgqa_hpc.text.plain_text import normalized

_COLUMNS = ("name_space", "name_id", "name_table", "name_date")
_Origin = tuple[str, str, str, str]
_NO_ORIGIN, _FROM_GIVEN = ("", "", "", ""), (GIVEN, "", "", "")
_BRACKETS = {"]": "[", ")": "("}
# Maximum characters of a text that are cleaned; the rest is cut off. No real name is as long.
_LIMIT = 10_000


def hydrate(
    graph: KnowledgeGraph,
    recipe: Recipe,
    *,
    folder: Path | None = None,
    cache: Path | None = None,
    web: bool = False,
) -> tuple[KnowledgeGraph, dict[str, Any]]:
    """The graph with names, and a report: coverage of `classes` and `spaces`, number of `unreachable` ids.

    `folder`: the folder of class tables, unless the recipe names another; `cache`: the folder of stored answers of
    web services; `web`: also query these services. Raises GraphFormatError for a table that cannot be read.
    """
    spaces = Spaces(recipe, recipe.path(recipe.cache) if recipe.cache else cache, web=web)
    work = _Work(graph, recipe, recipe.path(recipe.folder) if recipe.folder else folder, spaces)
    # The class of each node type; None if the recipe does not name nodes of this type
    classes = {kind: recipe.classes.get(kind) or recipe.classes.get("*") for kind in graph.node_types}
    for kind, entity in classes.items():
        if entity is not None:
            work.collect(kind, entity)
    coverage = {kind: work.name_class(kind, entity) for kind, entity in classes.items()}
    report = spaces.report()
    unreachable = sum(space["unreachable"] for space in report.values())
    return work.result(), {"classes": coverage, "spaces": report, "unreachable": unreachable}


def hydrated(graph: KnowledgeGraph, recipe_file: Path, tables: Path | None) -> KnowledgeGraph:
    """The graph with names from the recipe's local tables and stored web answers; queries no web service."""
    recipe = load_recipe(recipe_file)
    return hydrate(graph, recipe, folder=tables, cache=recipe.home / "hydration", web=False)[0]


class _Work:
    """The names assigned so far, and the ids of each node in each identifier space."""

    def __init__(self, graph: KnowledgeGraph, recipe: Recipe, folder: Path | None, spaces: Spaces) -> None:
        self._graph, self._recipe, self._folder, self._spaces = graph, recipe, folder, spaces
        self._given = _given_names(graph)
        self._names = np.array([""] * graph.num_nodes, dtype=object)
        self._origin = [_NO_ORIGIN] * graph.num_nodes
        self._ids: dict[tuple[str, int], dict[int, str]] = {}  # (class, index of the source) -> node -> id
        self._members: dict[str, list[int]] = {
            kind: np.flatnonzero(graph.node_type == code).tolist()
            for code, kind in enumerate(graph.node_types)
        }

    def collect(self, kind: str, entity: EntityClass) -> None:
        """Find the ids of the nodes of a class and register them with their spaces."""
        columns = list(dict.fromkeys(source.column for source in entity.names if source.column))
        cells: dict[str, dict[str, str]] = {}
        if entity.table is not None and columns:
            path = (self._folder or self._recipe.home) / entity.table
            ids = {self._graph.node_ids[node] for node in self._members[kind]}
            cells = {node: values for node, values in read_columns(path, columns) if node in ids}
        for number, source in enumerate(entity.names):
            if source.space == GIVEN:
                continue
            keys = {}
            for node in self._members[kind]:
                text = self._cell(source, node, cells)
                key = text if source.is_name else text.split(source.separator)[0].strip()
                if key:
                    keys[node] = key if source.is_name else self._recipe.spaces[source.space].local(key)
            self._ids[kind, number] = keys
            if not source.is_name:
                self._spaces.wanted[source.space].update(keys.values())

    def _cell(self, source: Source, node: int, cells: dict[str, dict[str, str]]) -> str:
        """The text of a source for a node: a cell of the class's table, a property, or part of the node's id."""
        key = str(self._graph.node_ids[node])
        if source.column:
            return cells.get(key, {}).get(source.column, "")
        if source.property:
            column = self._graph.node_properties.get(source.property)
            value = None if column is None else column[node].as_py()
            return "" if value is None else str(value)
        return key.partition(source.after)[2] if source.after else key

    def name_class(self, kind: str, entity: EntityClass | None) -> dict[str, Any]:
        """Name the nodes of a class and return its coverage; if `entity` is None, the names stay unchanged."""
        unnamed, counts, by_space = self._members[kind], Counter[str](), Counter[str]()
        if entity is None:
            for node in filter(self._given.__getitem__, unnamed):
                self._names[node], self._origin[node] = self._given[node], _FROM_GIVEN
                by_space[GIVEN] += 1
            return self._coverage(kind, by_space, counts)
        order = list(enumerate(entity.names))
        if not any(source.space == GIVEN for source in entity.names):
            order.insert(0, (-1, Source(space=GIVEN)))
        for number, source in order:
            ids = self._ids.get((kind, number), {})
            if source.space != GIVEN and not source.is_name:
                self._spaces.ask(source.space, [ids[node] for node in unnamed if node in ids])
            still_unnamed = []
            for node in unnamed:
                name, origin = self._name(source, node, ids.get(node, ""), counts)
                if not name:
                    still_unnamed.append(node)
                    continue
                self._names[node], self._origin[node] = name, origin
            by_space[source.space] += len(unnamed) - len(still_unnamed)
            unnamed = still_unnamed
        for node in unnamed:
            has_id = any(node in self._ids.get((kind, number), {}) for number, _ in order)
            counts["identifier_without_name" if has_id else "no_identifier"] += 1
        return self._coverage(kind, by_space, counts)

    def _name(self, source: Source, node: int, key: str, counts: Counter[str]) -> tuple[str, _Origin]:
        rules, node_id = self._recipe.rules, str(self._graph.node_ids[node])
        if source.space == GIVEN:
            return cleaned(str(self._given[node]), [node_id], rules, counts), _FROM_GIVEN
        if source.is_name:
            name = cleaned(key, [node_id], rules, counts, underscores=source.underscores)
            return name, (source.space, "", source.column or source.property or "", "")
        named = self._spaces.name(source.space, key) if key else None
        if named is None:
            return "", _NO_ORIGIN
        text, table, date = named
        space = self._recipe.spaces[source.space]
        extra: Any = {"underscores": space.underscores, "suffixes": space.suffixes}
        name = cleaned(text, [node_id, key], rules, counts, **extra)
        return name, (source.space, key, table, date)

    def _coverage(self, kind: str, by_space: Counter[str], counts: Counter[str]) -> dict[str, Any]:
        members = self._members[kind]
        names = Counter(self._names[node] for node in members if self._names[node])
        repeated = {name for name, count in names.items() if count > 1}
        if self._recipe.rules.duplicates == "add_id":
            for node in members:
                if self._names[node] in repeated:
                    self._names[node] = f"{self._names[node]} ({self._graph.node_ids[node]})"
        named = sum(names.values())
        return {
            "nodes": len(members),
            "named": named,
            "unnamed": len(members) - named,
            "by_space": {space: count for space, count in by_space.items() if count},
            "distinct_names": len(names),
            "duplicates": sum(names[name] for name in repeated),
            **{key: counts[key] for key in sorted(counts)},
        }

    def result(self) -> KnowledgeGraph:
        """The graph with its names and their origin."""
        replaced = (g if g and g != n else "" for g, n in zip(self._given, self._names, strict=True))
        columns = dict(zip(_COLUMNS, zip(*self._origin, strict=True), strict=False))
        columns["given_name"] = tuple(replaced)
        properties = {k: c for k, c in self._graph.node_properties.items() if k not in columns}
        for name, values in columns.items():
            if any(values):
                properties[name] = pa.array([value or None for value in values], pa.large_string())
        attributes = {**self._graph.attributes, "hydration_recipe_sha256": self._recipe.sha256}
        changes: Any = {"names": self._names, "node_properties": properties, "attributes": attributes}
        return dataclasses.replace(self._graph, **changes)


def _given_names(graph: KnowledgeGraph) -> list[str]:
    """The names of the graph before hydration, also for a graph that was hydrated earlier."""
    names = [str(name) for name in graph.names]
    if (space := graph.node_properties.get("name_space")) is None:
        return names
    column = graph.node_properties.get("given_name")
    before = [None] * len(names) if column is None else column.to_pylist()
    return [
        old if old is not None else name if origin in (GIVEN, None) else ""
        for name, origin, old in zip(names, space.to_pylist(), before, strict=True)
    ]


def cleaned(
    text: str,
    identifiers: Iterable[str],
    rules: Rules,
    counts: Counter[str],
    *,
    underscores: bool = False,
    suffixes: Iterable[str] = (),
) -> str:
    """The cleaned name in a text, "" if it has none; changes and refusals are counted in `counts`.

    `identifiers`: the ids by which the text was looked up; a name equal to one of them is refused.
    """
    identifiers_folded = {identifier.casefold() for identifier in identifiers if identifier}
    text = text[:_LIMIT]
    if not text.isprintable():
        counts["control_characters"] += any(unicodedata.category(letter) == "Cc" for letter in text)
        text = "".join(letter if letter.isprintable() else " " for letter in text)
    if underscores and "_" in text:
        counts["underscores"] += 1
        text = text.replace("_", " ")
    name = normalized("NFC", " ".join(_without_endings(text, identifiers_folded, suffixes, counts).split()))
    if not name:
        return ""
    if rules.ids == "drop" and _is_identifier(name, identifiers_folded):
        counts["identifiers"] += 1
        return ""
    if len(name) > rules.longest:
        counts["overlong"] += 1
        if rules.overlong == "drop":
            return ""
        if rules.overlong == "cut":
            return name[: rules.longest - 1].rstrip() + "…"
    return name


def _is_identifier(name: str, identifiers: set[str]) -> bool:
    """Whether a name is one of the ids, a CURIE (HP:0000118, MESH:D01), an IRI, or nothing but digits."""
    if name.casefold() in identifiers or name.isdigit() or name.startswith(("http://", "https://")):
        return True
    prefix, colon, local = name.partition(":")
    if not colon or " " in name or not prefix.replace("_", "").replace(".", "").isalnum():
        return False
    if identifiers:
        return name.casefold().endswith(tuple(identifiers))
    return any(letter.isdigit() for letter in local)


def _without_endings(text: str, identifiers: set[str], suffixes: Iterable[str], counts: Counter[str]) -> str:
    """The text without the recipe's suffixes and without a final database reference in brackets."""
    text = text.strip()
    for suffix in suffixes:
        if text.endswith(suffix) and len(text) > len(suffix):
            text = text[: -len(suffix)].rstrip()
            counts["suffixes"] += 1
    opening = _BRACKETS.get(text[-1:])
    if opening:
        begin, bracket, inside = text[:-1].rpartition(opening)
        if bracket and begin.strip() and _is_reference(inside.strip(), identifiers):
            counts["suffixes"] += 1
            return begin
    return text


def _is_reference(inside: str, identifiers: set[str]) -> bool:
    if inside.casefold() in identifiers or inside.casefold().startswith("source:"):
        return True
    prefix, colon, local = inside.partition(":")
    # The prefix of a CURIE begins with two letters: lipids (d18:1/16:0) and ratios (1:1) have colons, too.
    is_curie = bool(colon) and prefix.isalnum() and prefix[:2].isalpha() and " " not in inside
    return is_curie and any(character.isdigit() for character in local)
