"""Translate scripts to SPARQL if every command has a direct translation: walks from one node.

Translated are FIND nodes WITH id, GRAPHWALK of depth 1, UPDATE with a filter on id or type, and COUNT or
SELECT of names at the end. A set of nodes is a function from a variable to the lines that say it is in the
set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from kgqa_hpc.anchors.queries import select
from kgqa_hpc.kg import iris
from kgqa_hpc.plugins.gasl.commands import Count, Found, Script, Select, Simple, Update, Walk
from kgqa_hpc.plugins.gasl.words import All, Comparison, Condition, Ref

Pattern = Callable[[str], list[str]]
_ANY = "any"


def sparql_of(script: Script, answer: str, unnamed: bool) -> str | None:
    """The query for what a script leaves in its variable `answer`; None where it has no direct translation."""
    sets: dict[str, Pattern] = {}
    numbers = count(1)
    query: str | None = None
    for statement in script.statements:
        if not isinstance(statement, Simple):
            return None
        command, into = statement.command, statement.into.text if statement.into else None
        base = _base(command, sets)
        query = None
        if isinstance(command, Found):
            pattern = _start(command)
        elif base is None:
            return None
        elif isinstance(command, Count) and not (command.field or command.where or command.by):
            inner = " ".join(base("?node"))
            query = select([f"{{ SELECT (COUNT(DISTINCT ?node) AS ?answer) WHERE {{ {inner} }} }}"])
            pattern = None
        elif isinstance(command, Select) and ("name",) in [field.steps for field in command.fields]:
            pattern = base
        elif isinstance(command, Walk) and command.depth == 1:
            pattern = _walked(base, command, unnamed, numbers)
        elif isinstance(command, Update) and command.operation in ("replace", "filter"):
            pattern, into = _filtered(base, command.where), command.name.text
        else:
            return None
        if into is None or (pattern is None and (query is None or into != answer)):
            return None
        if pattern is not None:
            sets[into] = pattern
            query = select(pattern("?answer")) if into == answer else None
    return query


def _base(command: object, sets: dict[str, Pattern]) -> Pattern | None:
    ref = command.source if isinstance(command, Count) else getattr(command, "ref", None)
    return sets.get(ref.name) if isinstance(ref, Ref) and not ref.entries else None


def _start(command: Found) -> Pattern | None:
    """FIND nodes WITH id = a text."""
    condition = command.where
    if command.what != "nodes" or command.limit is not None or not isinstance(condition, Comparison):
        return None
    if condition.field.steps != ("id",) or condition.op != "=" or condition.values[0].ref is not None:
        return None
    node = iris.node_iri(condition.values[0].text)
    return lambda variable: [f"VALUES {variable} {{ {node} }}"]


def _walked(base: Pattern, command: Walk, unnamed: bool, numbers: Iterator[int]) -> Pattern:
    """Nodes one edge away from a set, and not in it."""
    types = [word.text for word in command.follow]
    kinds = [] if _ANY in types else [iris.relation_iri(kind) for kind in types]

    def edge(source: str, target: str, variable: str) -> str:
        if kinds:
            return f"{source} {'|'.join(kinds) if len(kinds) > 1 else kinds[0]} {target} ."
        return f'{source} {variable} {target} . FILTER(STRSTARTS(STR({variable}), "{iris.RELATIONS}"))'

    def pattern(variable: str) -> list[str]:
        number = next(numbers)
        before, relation = f"?from{number}", f"?relation{number}"
        ways = [edge(before, variable, relation), edge(variable, before, relation)]
        ways = {"out": ways[:1], "in": ways[1:], "both": ways}[command.direction]
        joined = ways[0] if len(ways) == 1 else " UNION ".join(f"{{ {branch} }}" for branch in ways)
        name = [f"{variable} {iris.LABEL} [] ."] if unnamed else []
        inside = " ".join(base(variable))
        return [*base(before), joined, *name, f"FILTER NOT EXISTS {{ {inside} }}"]

    return pattern


def _filtered(base: Pattern, condition: Condition | None) -> Pattern | None:
    """A set with conditions on id and type."""
    parts = condition.parts if isinstance(condition, All) else (condition,) if condition else ()
    tests: list[tuple[str, str, str]] = []
    for part in parts:
        if not isinstance(part, Comparison) or part.op not in ("=", "!=") or part.values[0].ref is not None:
            return None
        if part.field.steps not in (("id",), ("type",)):
            return None
        tests.append((part.field.steps[0], part.op, part.values[0].text))

    def pattern(variable: str) -> list[str]:
        lines = base(variable)
        for field, op, text in tests:
            if field == "id":
                lines.append(f"FILTER({variable} {op} {iris.node_iri(text)})")
            else:
                held = f"EXISTS {{ {variable} a {iris.type_iri(text)} }}"
                lines.append(f"FILTER {held if op == '=' else f'NOT {held}'}")
        return lines

    return pattern
