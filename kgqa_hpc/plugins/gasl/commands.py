"""A script as data: its commands, with the position of every name in the text.

One class for each command of docs/guide/gasl.md; `perform` runs them.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kgqa_hpc.plugins.gasl.source import Place, Plan
from kgqa_hpc.plugins.gasl.words import Condition, Expression, Field, Literal_, Ref, Word

Direction = Literal["out", "in", "both"]


class Declare(NamedTuple):
    name: Word
    kind: str
    description: str | None


class Set(NamedTuple):
    name: Word
    value: Any


class Found(NamedTuple):
    """FIND and PATH; `what` is nodes, edges or paths."""

    what: str
    where: Condition | None
    direction: Direction = "both"
    depth: int = 3
    limit: int | None = None


class Ask(NamedTuple):
    """PROCESS and CLASSIFY."""

    verb: str
    ref: Ref
    instruction: str


class Generate(NamedTuple):
    kind: str
    ref: Ref
    text: str | None


class Count(NamedTuple):
    source: Ref | Found
    field: Field | None
    where: Condition | None
    by: Field | None
    unique: bool


class Aggregate(NamedTuple):
    ref: Ref
    by: Field
    op: str
    of: Field | None


class Iterate(NamedTuple):
    ref: Ref
    size: int
    body: Ask | Count | Aggregate


class Join(NamedTuple):
    left: Ref
    right: Ref
    field: Field
    other: Field | None = None


class Merge(NamedTuple):
    refs: tuple[Ref, ...]


class Compare(NamedTuple):
    left: Ref
    right: Ref
    field: Field


class Group(NamedTuple):
    ref: Ref
    by: Field


class Cluster(NamedTuple):
    ref: Ref
    via: tuple[Word, ...]


class Select(NamedTuple):
    ref: Ref
    fields: tuple[Field, ...]


class Rank(NamedTuple):
    ref: Ref
    by: Field
    descending: bool
    top: int | None


class AddField(NamedTuple):
    ref: Ref
    name: str
    value: Expression


class Create(NamedTuple):
    """CREATE_NODES, CREATE_EDGES, CREATE_GROUPS; `what` is nodes, edges or groups."""

    what: str
    ref: Ref
    type: str | None


class Update(NamedTuple):
    name: Word
    ref: Ref
    operation: str
    where: Condition | None


class Walk(NamedTuple):
    ref: Ref
    follow: tuple[Word, ...]
    direction: Direction
    depth: int


class Connect(NamedTuple):
    left: Ref
    right: Ref
    via: tuple[Word, ...]
    direction: Direction
    depth: int


class Subgraph(NamedTuple):
    ref: Ref
    radius: int
    include: tuple[Word, ...]


class PatternNode(NamedTuple):
    label: str | None
    type: Word | None


class PatternEdge(NamedTuple):
    direction: Direction
    type: Word | None


class Pattern(NamedTuple):
    nodes: tuple[PatternNode, ...]
    edges: tuple[PatternEdge, ...]
    within: Ref | None


class Check(NamedTuple):
    """REQUIRE and ASSERT; `test` is compares, has_field, exists, empty or not_empty."""

    verb: str
    ref: Ref
    test: str
    comparison: str = ""
    value: Literal_ | None = None
    field: Field | None = None


class Cancel(NamedTuple):
    plan_id: str | None


class Show(NamedTuple):
    """SHOW and DEBUG of a variable."""

    ref: Ref
    limit: int


class DebugFound(NamedTuple):
    found: Found


class Inspect(NamedTuple):
    ref: Ref


Command = (
    Declare | Set | Found | Ask | Generate | Iterate | Count | Aggregate | Join | Merge | Compare | Group
    | Cluster | Select | Rank | AddField | Create | Update | Walk | Connect | Subgraph | Pattern | Check
    | Cancel | Show | DebugFound | Inspect
)  # fmt: skip


class Simple(NamedTuple):
    """One command with its place, its own text and the variable it names with AS."""

    command: Command
    into: Word | None
    text: str
    place: Place


class On(NamedTuple):
    status: str
    simple: Simple
    text: str
    place: Place


class Attempt(NamedTuple):
    """TRY with its CATCH and FINALLY."""

    body: tuple[Statement, ...]
    rescue: tuple[Statement, ...] | None
    final: tuple[Statement, ...] | None


Statement = Simple | On | Attempt


class Script(NamedTuple):
    """A whole script. `digest` is the SHA-256 of its bytes."""

    statements: tuple[Statement, ...]
    plan: Plan | None
    digest: str
