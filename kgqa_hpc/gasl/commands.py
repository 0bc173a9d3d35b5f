"""What a script is once it is read: commands as plain data, every name with its place.

One class for each command of docs/gasl.md; what they mean is in `execute` and the files it names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kgqa_hpc.gasl.conditions import Condition
from kgqa_hpc.gasl.expressions import Expression
from kgqa_hpc.gasl.source import Place, Plan
from kgqa_hpc.gasl.words import Field, Literal_, Ref, Word

Direction = Literal["out", "in", "both"]


@dataclass(frozen=True)
class Declare:
    name: Word
    kind: str
    description: str | None


@dataclass(frozen=True)
class Set:
    name: Word
    value: Any


@dataclass(frozen=True)
class Found:
    """FIND and PATH; `what` is nodes, edges or paths."""

    what: str
    where: Condition | None
    direction: Direction = "both"
    depth: int = 3
    limit: int | None = None


@dataclass(frozen=True)
class Ask:
    """PROCESS and CLASSIFY."""

    verb: str
    ref: Ref
    instruction: str


@dataclass(frozen=True)
class Generate:
    kind: str
    ref: Ref
    text: str | None


@dataclass(frozen=True)
class Count:
    source: Ref | Found
    field: Field | None
    where: Condition | None
    by: Field | None
    unique: bool


@dataclass(frozen=True)
class Aggregate:
    ref: Ref
    by: Field
    op: str
    of: Field | None


@dataclass(frozen=True)
class Iterate:
    ref: Ref
    size: int
    body: Ask | Count | Aggregate


@dataclass(frozen=True)
class Join:
    left: Ref
    right: Ref
    field: Field
    other: Field | None


@dataclass(frozen=True)
class Merge:
    refs: tuple[Ref, ...]


@dataclass(frozen=True)
class Compare:
    left: Ref
    right: Ref
    field: Field


@dataclass(frozen=True)
class Group:
    ref: Ref
    by: Field


@dataclass(frozen=True)
class Cluster:
    ref: Ref
    via: tuple[Word, ...]


@dataclass(frozen=True)
class Select:
    ref: Ref
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Rank:
    ref: Ref
    by: Field
    descending: bool
    top: int | None


@dataclass(frozen=True)
class AddField:
    ref: Ref
    name: str
    value: Expression


@dataclass(frozen=True)
class Create:
    """CREATE_NODES, CREATE_EDGES, CREATE_GROUPS; `what` is nodes, edges or groups."""

    what: str
    ref: Ref
    type: str | None


@dataclass(frozen=True)
class Update:
    name: Word
    ref: Ref
    operation: str
    where: Condition | None


@dataclass(frozen=True)
class Walk:
    ref: Ref
    follow: tuple[Word, ...]
    direction: Direction
    depth: int


@dataclass(frozen=True)
class Connect:
    left: Ref
    right: Ref
    via: tuple[Word, ...]
    direction: Direction
    depth: int


@dataclass(frozen=True)
class Subgraph:
    ref: Ref
    radius: int
    include: tuple[Word, ...]


@dataclass(frozen=True)
class PatternNode:
    label: str | None
    type: Word | None


@dataclass(frozen=True)
class PatternEdge:
    direction: Direction
    type: Word | None


@dataclass(frozen=True)
class Pattern:
    nodes: tuple[PatternNode, ...]
    edges: tuple[PatternEdge, ...]
    within: Ref | None


@dataclass(frozen=True)
class Check:
    """REQUIRE and ASSERT; `test` is compares, has_field, exists, empty or not_empty."""

    verb: str
    ref: Ref
    test: str
    comparison: str = ""
    value: Literal_ | None = None
    field: Field | None = None


@dataclass(frozen=True)
class Cancel:
    plan_id: str | None


@dataclass(frozen=True)
class Show:
    """SHOW and DEBUG of a variable."""

    ref: Ref
    limit: int


@dataclass(frozen=True)
class DebugFound:
    found: Found


@dataclass(frozen=True)
class Inspect:
    ref: Ref


Command = (
    Declare | Set | Found | Ask | Generate | Iterate | Count | Aggregate | Join | Merge | Compare | Group
    | Cluster | Select | Rank | AddField | Create | Update | Walk | Connect | Subgraph | Pattern | Check
    | Cancel | Show | DebugFound | Inspect
)  # fmt: skip


@dataclass(frozen=True)
class Simple:
    """One command with its place, its own text and the variable it names with AS."""

    command: Command
    into: Word | None
    text: str
    place: Place


@dataclass(frozen=True)
class On:
    status: str
    simple: Simple
    text: str
    place: Place


@dataclass(frozen=True)
class Attempt:
    """TRY with its CATCH and FINALLY."""

    body: tuple[Statement, ...]
    rescue: tuple[Statement, ...] | None
    final: tuple[Statement, ...] | None


Statement = Simple | On | Attempt


@dataclass(frozen=True)
class Script:
    """A whole script. `digest` is the SHA-256 of its bytes."""

    statements: tuple[Statement, ...]
    plan: Plan | None
    digest: str
