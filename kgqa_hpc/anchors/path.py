"""Kind path, for multi-hop questions: a simple path; the question names its start, the answer is its end.

Paths are drawn uniformly (simple_paths.py) from the reduced graph. The answers are all nodes that the same relations
and types reach from the same start in the whole named graph; each question occurs once. A path has a shortcut if fewer
edges of the whole named graph connect its ends.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from string import ascii_uppercase
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Node, Relation, Source, Tools, graph_variables
from kgqa_hpc.anchors.family import (
    CYPHER,
    DIFFICULTY,
    QUERY,
    answer_fields,
    askable,
    chain_queries,
    content_id,
    difficulty,
    in_turn,
    wording,
)
from kgqa_hpc.anchors.names import plain
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import EmptyGraphError
from kgqa_hpc.registry import Registry
from kgqa_hpc.settings import KindSettings
from kgqa_hpc.text.plain_text import clean_name, clean_type

if TYPE_CHECKING:
    from kgqa_hpc.anchors.routes import Routes

IN_VAIN = 20_000  # drawing ends after this many consecutive draws without a new question
# Lists of metapaths of graph sources, by the name that `anchors.patterns` gives. Each metapath is a kind of scientific
# question and was chosen by hand (symptom, disease, drug: "Which drug treats the disease that has this symptom?");
# arbitrary sequences of node types, such as gene, process, gene, give questions of no interest.
METAPATHS = Registry("metapaths", "list of metapaths", {"hpo": "kgqa_hpc.anchors.path:HPO"})
HPO = [
    ["phenotype", "disease", "gene"],
    ["gene", "disease", "phenotype"],
    ["disease", "gene", "disease"],
    ["gene", "disease", "gene"],
    ["phenotype", "disease", "gene", "disease"],
]


def _shipped(value: Any) -> Any:
    """The list of metapaths that `value` names; a value that is no text is returned unchanged.

    Raises ValueError for an unknown name.
    """
    if isinstance(value, str) and value not in METAPATHS:
        raise ValueError(METAPATHS.unknown(value))
    return METAPATHS.get(value) if isinstance(value, str) else value


Metapath = list[str | None]
Metapaths = Annotated[
    list[Annotated[Metapath, Field(min_length=2, max_length=9)]],
    Field(min_length=1),
    BeforeValidator(_shipped, json_schema_input_type=str | list[Metapath]),
]
STEP = {"entity": "string", "relation": "string", "target": "string"}


class PathSettings(KindSettings):
    """Settings of the kind path: number, length and patterns of paths."""

    kind: Literal["path"] = "path"
    number: int = Field(1000, ge=1, description="Anchors to draw; all if there are fewer.")
    length: int = Field(2, ge=1, le=8, description="Edges of a path.")
    pattern: list[str | None] | None = Field(None, description="Node types along the path; null: any.")
    patterns: Metapaths | None = Field(
        None, description="Several patterns, drawn in turn; or the name of a shipped list."
    )
    relations: list[str | None] | None = Field(None, description="Edge types along the path; null: any.")
    direction: Literal["either", "forward"] = Field(
        "either", description="Direction in which steps may follow edges."
    )
    max_answers: int | None = Field(5, ge=1, description="Maximum answers of a question; null: any.")
    shortcuts: bool = Field(False, description="Keep paths whose ends are also joined by fewer edges.")

    @model_validator(mode="after")
    def _lengths(self) -> PathSettings:
        keys = ("length", "pattern", "relations")
        changed = [name for name in keys if getattr(self, name) != type(self).model_fields[name].default]
        if self.patterns is not None and changed:
            raise ValueError(f"patterns stands alone: remove {', '.join(changed)}")
        if self.pattern is not None and len(self.pattern) != self.length + 1:
            raise ValueError(f"pattern needs {self.length + 1} node types for length {self.length}")
        if self.relations is not None and len(self.relations) != self.length:
            raise ValueError(f"relations needs {self.length} edge types for length {self.length}")
        return self


class PathAnchors(AnchorKind):
    """Simple paths, drawn uniformly."""

    name = "path"
    Settings = PathSettings
    group_word = "path"
    whole_graph = True
    gives = ("answer", "answers")
    columns = (
        Column("steps", [STEP], "The path as edges of the graph, in the direction they have there."),
        Column("steps_hold", ["bool"], "For each step whether the graph has that edge."),
        Column("answers", ["string"], "Every answer the graph gives."),
        QUERY,
        CYPHER,
        Column("shortcut", "bool", "Whether fewer edges join the two ends."),
        *DIFFICULTY,
    )
    sample = Anchor(
        "sample",
        "path",
        "gene → disease",
        (Node("a", "First node", "gene"), Node("b", "Second node", "disease")),
        (Relation(0, 1, "associated_with"),),
        data={
            "way": [{"relation": "associated_with", "out": True, "type": "disease"}],
            "answers": ["Second node"],
            "shortcut": False,
            "degree": 1,
        },
    )

    def draw(self, source: Source, settings: PathSettings, seed: int, tools: Tools) -> Drawn:
        """Raises InputError for a type that the graph lacks, EmptyGraphError if no path fits."""
        from kgqa_hpc.anchors.routes import Routes  # numba loads slowly, and only drawing needs it

        routes = Routes(source)
        patterns = [settings.pattern] if settings.patterns is None else settings.patterns
        draws = [
            _Draw(routes, settings, pattern, seed if len(patterns) == 1 else f"{seed}/{_group(0, pattern)}")
            for pattern in patterns
        ]
        anchors = list(in_turn([draw.anchors for draw in draws], settings.number))
        if not anchors:
            lengths = " or ".join(str(length) for length in sorted({draw.length for draw in draws}))
            raise EmptyGraphError(
                f"none of {sum(draw.space.kept for draw in draws):,} drawn paths of {lengths} edges fits anchors",
                "allow more answers, shortcuts or types; if most paths lead through hubs, name patterns without them"
                " or lower graph.max_degree",
            )
        fit = Counter(anchor.group for anchor in anchors)
        totals: dict[str, int] = {}
        counts: dict[str, dict[str, Any]] = {}
        notes = []
        for draw in draws:
            group, space, (low, high) = draw.group, draw.space, draw.space.total()
            number = f"{low:,} to {high:,} (95 %)"
            if low == high:
                totals[group], number = low, f"{low:,}"
            bounds = {"low": low, "high": high, "exact": low == high}
            drawn = {"drawn": space.tried, "simple": space.kept, "kept": fit[group]}
            counts[group] = {"walks": space.walks, **bounds, **drawn}
            notes.append(
                f"{number} simple paths; {space.kept:,} drawn, {fit[group]:,} questions among them fit"
            )
        return Drawn(anchors, totals, {"paths.json": json.dumps(counts, indent=1).encode()}, tuple(notes))

    def variables(self, anchor: Anchor) -> dict[str, Any]:
        """Variables in addition to nodes and relations: the `given` node, `asked` (the type of the answers), `answers`.

        `steps`: (type of the start, relation, whether it points away from the start, type of the end) of each edge.
        `chain`: the edges with letters for nodes, each in its own direction: ("disease B", "has_phenotype",
        "phenotype A"); `letters`: those of the given node and of the answer.
        """
        fields, steps = graph_variables(anchor), list(enumerate(anchor.data["way"]))
        types = [clean_type(anchor.nodes[0].type), *(clean_type(step["type"]) for _, step in steps)]
        labels = [f"{kind} {letter}" for kind, letter in zip(types, ascii_uppercase, strict=False)]
        edges = [_edge(number, step) for number, step in steps]
        return {
            **fields,
            "given": fields["nodes"][:1],
            "way": [(types[k], clean_name(step["relation"]), step["out"], types[k + 1]) for k, step in steps],
            "chain": [(labels[a], clean_name(kind), labels[b]) for a, b, kind in edges],
            "letters": (labels[0], labels[-1]),
            "answers": [clean_name(answer) for answer in anchor.data["answers"]],
            "asked": types[-1],
        }

    def start(self, anchor: Anchor) -> dict[str, Any]:
        return answer_fields(anchor.data["answers"])

    def objection(self, anchor: Anchor, fields: Mapping[str, Any]) -> str | None:
        """An objection if a step is no edge, the answers differ from the graph's, or the wording breaks a rule."""
        if not all(self.record(anchor, fields)["steps_hold"]):
            return "a step is no edge"
        if list(fields["answers"]) != list(anchor.data["answers"]):
            return "is not the graph's answer"
        names = [node.name for node in anchor.nodes]
        return wording(fields["question"], names[:1], anchor.data["answers"], names[1:-1])

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        data = anchor.data
        edges = [_edge(number, step) for number, step in enumerate(data["way"])]
        names = [node.name for node in anchor.nodes]
        return {
            "steps": [{"entity": names[a], "relation": kind, "target": names[b]} for a, b, kind in edges],
            "steps_hold": [Relation(*edge) in anchor.relations for edge in edges],
            "answers": list(data["answers"]),
            **chain_queries(anchor, data["way"]),
            "shortcut": data["shortcut"],
            **difficulty(len(edges), len(anchor.nodes), data["degree"]),
        }


Question = tuple[int, bytes]  # (start, chain of steps) in the graph on which answers are computed


class _Draw:
    """Draws the distinct questions of one pattern. A question is a start node, a chain of relations, and node types."""

    def __init__(
        self, routes: Routes, settings: PathSettings, pattern: Metapath | None, seed: int | str
    ) -> None:
        self.routes, self.settings = routes, settings
        self.length = settings.length if settings.patterns is None or pattern is None else len(pattern) - 1
        self.group = _group(self.length, pattern)
        self._positions: list[int] = routes.answers.positions.tolist()
        self._plain_name = cache(lambda node: plain(str(routes.whole.names[node])))
        self._asked: set[Question] = set()
        self._answers: dict[Question, list[str]] = {}  # an empty list: the question is left out
        self.space = routes.space(self.length, pattern, settings.relations, settings.direction)
        self.anchors = self.space.fitting(seed, settings.number, IN_VAIN, self._anchor)

    def _anchor(self, path: tuple[int, ...]) -> Anchor | None:
        """The anchor of a path of the reduced graph; None if it does not fit, or its question exists already."""
        routes, settings, whole = self.routes, self.settings, self.routes.whole
        at = [self._positions[node] for node in path]
        if len({self._plain_name(node) for node in at}) < len(at):
            return None  # two nodes with one name make the question ambiguous
        chain = routes.way(at, settings.relations, settings.direction)
        question = (at[0], chain.tobytes())
        if question not in self._answers:
            # Too many answers, or an answer with the name of the start: the question is left out.
            ends = routes.ends(at[0], chain, settings.max_answers) or ()
            answers = sorted({whole.node(end).name for end in ends})
            fits = askable(whole.node(at[0]).name, answers, routes.shared_names)
            self._answers[question] = answers if fits else []
        if question in self._asked or not (answers := self._answers[question]):
            return None
        shortcut = routes.distance_below(at[0], at[-1], self.length)
        if shortcut and not settings.shortcuts:
            return None
        self._asked.add(question)
        nodes = tuple(whole.node(node) for node in at)
        steps = [
            {"relation": whole.edge_types[relation], "out": bool(out), "type": whole.node_types[kind]}
            for relation, out, kind in chain.tolist()
        ]
        return Anchor(
            id=content_id("path", *(node.id for node in nodes)),
            kind="path",
            group=self.group,
            nodes=nodes,
            relations=routes.graph.relations_between(path),
            data={
                "way": steps,
                "answers": answers,
                "shortcut": shortcut,
                "degree": routes.degree(at[-1]),
                "unnamed": routes.answers.unnamed,
            },
        )


def _edge(number: int, step: Mapping[str, Any]) -> tuple[int, int, str]:
    ends = (number, number + 1) if step["out"] else (number + 1, number)
    return (*ends, step["relation"])


def _group(length: int, pattern: Sequence[str | None] | None) -> str:
    return " → ".join(name or "any" for name in pattern) if pattern else f"{length} edges"
