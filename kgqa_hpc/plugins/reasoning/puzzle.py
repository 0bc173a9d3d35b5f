"""Kind puzzle, for logic puzzles: chains of signed relations; a solver computes the answer, a model words the question.

A puzzle consists of some edges of the graph as statements, one change, and a node whose change is the answer. It is
kept if its statements allow exactly one answer. Chains are drawn from the reduced graph; the statements about their
nodes come from the whole named graph.

Consequences of a change are computed by clingo. A node goes up, goes down or stays. `raises` transmits a change,
`lowers` inverts it; if A `needs` B and B goes down, A goes down. Every change has a chain of causes that begins at the
given change. Causes that agree produce their change; if causes disagree, every outcome is possible (sign consistency:
Siegel et al. 2006; Gebser et al. 2011).
"""

import random
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from pydantic import Field

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Node, Relation, Source, Tools, graph_variables
from kgqa_hpc.anchors.family import DIFFICULTY, content_id, difficulty, place, premises_sparql, wording
from kgqa_hpc.anchors.names import plain
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import EmptyGraphError, InputError
from kgqa_hpc.kg.reduce import AnswerGraph
from kgqa_hpc.settings import KindSettings, Package
from kgqa_hpc.text.plain_text import clean_name

Effect = Literal["raises", "lowers", "needs"]
Edge = tuple[int, int, str]  # source, target and type
_RULES = """
level(N,L) :- given(N,L).
push(T,up) :- raises(S,T), level(S,up).
push(T,down) :- raises(S,T), level(S,down).
push(T,up) :- lowers(S,T), level(S,down).
push(T,down) :- lowers(S,T), level(S,up).
push(S,down) :- needs(S,T), level(T,down).
free(N) :- node(N), not given(N,up), not given(N,down).
{ level(N,L) } :- push(N,L), free(N).
:- level(N,up), level(N,down).
:- free(N), push(N,up), not push(N,down), not level(N,up).
:- free(N), push(N,down), not push(N,up), not level(N,down).
level(N,same) :- node(N), not level(N,up), not level(N,down).
#show outcome/1.
outcome(L) :- asked(N), level(N,L).
#project outcome/1.
"""


def effect_ends(edge: Edge, effect: Effect) -> tuple[int, int]:
    """Cause and effect of an edge, as node numbers."""
    return (edge[1], edge[0]) if effect == "needs" else (edge[0], edge[1])


def conclusions(
    relations: Sequence[Relation], effects: Mapping[str, Effect], changed: int, change: str, asked: int
) -> list[str]:
    """All possible outcomes (up, down, same) for the node `asked` if `changed` goes up or down.

    Raises InputError if clingo is not installed.
    """
    try:
        import clingo
    except ImportError:
        raise InputError("anchor kind puzzle needs clingo", "pip install 'kgqa_hpc[puzzles]'") from None
    nodes = {changed, asked, *(end for relation in relations for end in (relation.source, relation.target))}
    facts = [f"node({node})." for node in sorted(nodes)]
    facts += [f"{effects[edge.type]}({edge.source},{edge.target})." for edge in relations]
    facts += [f"given({changed},{change}).", f"asked({asked})."]
    control = clingo.Control(["0", "--project=project", "--warn=none"])
    control.add("base", [], _RULES + "\n".join(facts))
    control.ground([("base", [])])
    concluded: set[str] = set()
    with control.solve(yield_=True) as handle:
        for model in handle:
            concluded |= {str(symbol.arguments[0]) for symbol in model.symbols(shown=True)}
    return sorted(concluded)


IN_VAIN = 5_000  # consecutive draws without a puzzle after which drawing ends
CHANGES = {"up": "becomes more active", "down": "becomes less active"}
OUTCOMES = {"up": "rises", "down": "falls", "same": "stays as it is"}
_HINTS = (
    *("rise", "fall", "increase", "decrease", "reduce", "more", "less"),
    *("higher", "lower", "unchanged", "stays"),
)


class PuzzleSettings(KindSettings):
    """Settings of the kind puzzle: effects of relations, and size of puzzles."""

    package = Package("clingo", "kgqa_hpc[puzzles]")
    kind: Literal["puzzle"] = "puzzle"
    number: int = Field(1000, ge=1, description="Anchors to draw; all if there are fewer.")
    length: int = Field(3, ge=1, le=6, description="Statements from the changed node to the node asked for.")
    distractors: int = Field(2, ge=0, le=20, description="Maximum further statements about the same nodes.")
    effects: dict[str, Effect] = Field(
        default_factory=lambda: dict[str, Effect](activates="raises", inhibits="lowers", requires="needs"),
        min_length=1,
        description="Effect of each edge type; needs: the source needs the target.",
    )


class PuzzleAnchors(AnchorKind):
    """Chains of signed relations with one conclusion."""

    name = "puzzle"
    Settings = PuzzleSettings
    group_word = "outcome"
    whole_graph = True
    gives = ("answer",)
    columns = (
        Column("statements", ["string"], "What is given, one statement of the graph each."),
        Column("change", "string", "What changes, and how."),
        Column("asked", "string", "The thing whose change is asked for."),
        Column("outcome", "string", "What the solver found: rises, falls, or stays as it is."),
        Column("puzzle_type", "string", "Kind of puzzle."),
        Column(
            "query", "string", "SPARQL 1.1 that gives the thing asked for when the graph has all statements."
        ),
        *DIFFICULTY,
    )
    sample = Anchor(
        "sample",
        "puzzle",
        "falls",
        (Node("a", "First node", "protein"), Node("b", "Second node", "process")),
        (Relation(0, 1, "inhibits"),),
        data={"changed": 0, "change": "up", "asked": 1, "outcome": "down", "steps": 1},
    )

    def draw(self, source: Source, settings: PuzzleSettings, seed: int, tools: Tools) -> Drawn:
        """Raises InputError without clingo, EmptyGraphError if no chain has exactly one conclusion."""
        from kgqa_hpc.anchors.simple_paths import PathSpace  # loads numba, which is slow
        from kgqa_hpc.kg.graph import simple_csr

        answers = source.answer_graph()
        graph, effects = answers.graph, settings.effects
        ends = graph.edge_source.tolist(), graph.edge_target.tolist(), graph.edge_type.tolist()
        kinds = [kind if kind in effects else "" for kind in graph.edge_types]
        edges = sorted({(s, t, kinds[k]) for s, t, k in zip(*ends, strict=True) if s != t and kinds[k]})
        around: dict[int, list[Edge]] = {}
        for edge in edges:
            for end in edge[:2]:
                around.setdefault(end, []).append(edge)
        # Causes and effects by their numbers in the reduced graph; -1 for a node outside of it
        position = np.full(graph.num_nodes, -1, np.int32)
        position[answers.positions] = np.arange(len(answers.positions))
        pairs = np.array([effect_ends(edge, effects[edge[2]]) for edge in edges], np.int32).reshape(-1, 2)
        inner = position[pairs]
        inner = inner[(inner >= 0).all(axis=1)]
        layer = simple_csr(len(answers.positions), inner[:, 0], inner[:, 1], directed=True)
        space = PathSpace([layer] * settings.length)
        make = partial(_puzzle, answers, around, settings=settings, seed=seed)
        anchors = list(space.fitting(seed, settings.number, IN_VAIN, make))
        if not anchors:
            raise EmptyGraphError(
                "the graph gives no puzzle with one conclusion", "see anchors.effects and anchors.length"
            )
        note = f"{space.kept:,} chains drawn, {len(anchors):,} puzzles with one conclusion"
        return Drawn(anchors, {}, notes=(note,))

    def variables(self, anchor: Anchor) -> dict[str, Any]:
        """Variables in addition to nodes and relations: `statements`, `change`, and the nodes `changed` and `asked`."""
        values, data = graph_variables(anchor), anchor.data
        nodes = values["nodes"]
        statements = [clean_name(text) for text in _statements(anchor)]
        ends = {"changed": nodes[data["changed"]], "asked": nodes[data["asked"]]}
        return {**values, **ends, "statements": statements, "change": clean_name(_change(anchor))}

    def start(self, anchor: Anchor) -> dict[str, Any]:
        asked = anchor.nodes[anchor.data["asked"]].name
        return {"answer": f"{asked} {OUTCOMES[anchor.data['outcome']]}."}

    def worded(self, anchor: Anchor, question: str) -> str:
        """The statements and the change, followed by the model's question."""
        return _opening(anchor) + question

    def objection(self, anchor: Anchor, fields: Mapping[str, Any]) -> str | None:
        """An objection if the statements were changed, or the question reveals a consequence."""
        opening, names = _opening(anchor), [node.name for node in anchor.nodes]
        if not fields["question"].startswith(opening):
            return "changes the statements"
        if fields["answer"] != self.start(anchor)["answer"]:
            return "is not what follows"
        question = fields["question"].removeprefix(opening)
        asked, changed = anchor.data["asked"], anchor.data["changed"]
        between = [name for number, name in enumerate(names) if number not in (asked, changed)]
        if objection := wording(question, [names[asked]], [], between):
            return objection
        words = plain(question).split()
        return "hints at the outcome" if any(word.startswith(_HINTS) for word in words) else None

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        data = anchor.data
        into = sum(data["asked"] in (relation.source, relation.target) for relation in anchor.relations)
        return {
            "statements": _statements(anchor),
            "change": _change(anchor),
            "asked": anchor.nodes[data["asked"]].name,
            "outcome": OUTCOMES[data["outcome"]],
            "puzzle_type": "signed chain",
            "query": premises_sparql(anchor.nodes, anchor.relations, data["asked"]),
            **difficulty(data["steps"], len(anchor.nodes), into),
        }


def _puzzle(
    answers: AnswerGraph,
    around: Mapping[int, list[Edge]],
    drawn: tuple[int, ...],
    settings: PuzzleSettings,
    seed: int,
) -> Anchor | None:
    """The puzzle of a chain; None if several conclusions are possible, or two nodes have the same name."""
    graph = answers.graph
    path = tuple(answers.positions[list(drawn)].tolist())
    ids = [str(graph.node_ids[node]) for node in path]
    chance = random.Random(f"{seed}/{ids}")
    change = chance.choice(list(CHANGES))
    # The chain's own edges, and some others that touch it
    steps = set(pairwise(path))
    touching = sorted({edge for node in path for edge in around[node]})
    chosen = [edge for edge in touching if effect_ends(edge, settings.effects[edge[2]]) in steps]
    off_path = [edge for edge in touching if edge not in chosen]
    chosen += chance.sample(off_path, min(settings.distractors, len(off_path)))
    positions = {node: number for number, node in enumerate(path)}
    for edge in chosen:
        for end in edge[:2]:
            positions.setdefault(end, len(positions))
    nodes = tuple(graph.node(node) for node in positions)
    if len({plain(node.name) for node in nodes}) < len(nodes):
        return None
    relations = [Relation(positions[source], positions[target], kind) for source, target, kind in chosen]
    relations.sort(key=lambda fact: place(seed, f"{ids}/{fact}"))
    outcomes = conclusions(relations, settings.effects, 0, change, len(path) - 1)
    if len(outcomes) != 1:
        return None
    length = len(path) - 1
    data = {"changed": 0, "change": change, "asked": length, "outcome": outcomes[0], "steps": length}
    name = content_id("puzzle", [node.id for node in nodes], [list(edge) for edge in relations], change)
    return Anchor(name, "puzzle", OUTCOMES[outcomes[0]], nodes, tuple(relations), data=data)


def _statements(anchor: Anchor) -> list[str]:
    names = [node.name for node in anchor.nodes]
    return [f"{names[r.source]} {r.type.replace('_', ' ')} {names[r.target]}." for r in anchor.relations]


def _change(anchor: Anchor) -> str:
    return f"{anchor.nodes[anchor.data['changed']].name} {CHANGES[anchor.data['change']]}."


def _opening(anchor: Anchor) -> str:
    """The beginning of a puzzle: all statements, and that nothing else has an effect."""
    lines = [f"{number}. {text}" for number, text in enumerate(_statements(anchor), start=1)]
    return "\n".join(
        ["These statements hold, and nothing else has an influence:", *lines, _change(anchor), ""]
    )
