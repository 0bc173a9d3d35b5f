"""Kind hub, for synthesis: a node of high degree with a sample of its neighbours, for how and why questions.

The model writes question and answer. The step `verify` checks that the question names the node and asks how or why, and
that the answer names several of the neighbours.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Node, Relation, Source, Tools, graph_variables
from kgqa_hpc.anchors.family import DIFFICULTY, content_id, difficulty, own_words, place, shared_names
from kgqa_hpc.anchors.names import named, plain
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import EmptyGraphError
from kgqa_hpc.settings import KindSettings


class HubSettings(KindSettings):
    """Settings of the kind hub: number of hubs and of their neighbours in the prompt."""

    kind: Literal["hub"] = "hub"
    number: int = Field(1000, ge=1, description="Anchors to draw; all if there are fewer.")
    min_degree: int = Field(3, ge=2, description="Minimum neighbours of a hub.")
    neighbours: int = Field(8, ge=2, le=50, description="Maximum neighbours in a prompt, chosen by the seed.")
    uses: int = Field(2, ge=1, description="Minimum neighbours that an answer must name.")
    first: Literal["any", "largest"] = Field(
        "any", description="Order of hubs: by the seed, or largest first."
    )


class HubAnchors(AnchorKind):
    """Nodes with many neighbours."""

    name = "hub"
    Settings = HubSettings
    group_word = "type"
    whole_graph = True
    columns = (
        Column("center_node", "string", "Name of the hub."),
        Column("num_connections", "int64", "Its neighbours in the graph."),
        Column("synthesis_sources", ["string"], "Neighbours that the answer names."),
        *DIFFICULTY,
    )
    sample = Anchor(
        "sample",
        "hub",
        "gene",
        tuple(map(Node, "abc", ("First node", "Second node", "Third node"), ("gene", "disease", "disease"))),
        (Relation(0, 1, "associated_with"), Relation(0, 2, "associated_with")),
        data={"degree": 2, "uses": 2},
    )

    def draw(self, source: Source, settings: HubSettings, seed: int, tools: Tools) -> Drawn:
        """Raises EmptyGraphError if no node has enough neighbours."""
        graph, answers = source.graph, source.answer_graph()
        degrees = graph.degrees()
        shared = shared_names(answers.graph.names)
        wide = np.flatnonzero(degrees >= settings.min_degree).tolist()
        hubs = [hub for hub in wide if graph.names[hub] not in shared]
        if not hubs:
            raise EmptyGraphError(f"no node has {settings.min_degree} neighbours", "lower anchors.min_degree")
        totals = Counter(graph.node(hub).type for hub in hubs)
        by_seed = {hub: place(seed, str(graph.node_ids[hub])) for hub in hubs}
        largest = settings.first == "largest"
        all_degrees = answers.graph.degrees()[answers.positions]
        hubs.sort(key=lambda hub: (-int(all_degrees[hub]) if largest else 0, by_seed[hub]))
        chosen = (
            _anchor(graph, hub, int(all_degrees[hub]), settings, seed) for hub in hubs[: settings.number]
        )
        return Drawn(chosen, totals, notes=(f"{len(hubs):,} hubs",))

    def variables(self, anchor: Anchor) -> dict[str, Any]:
        """Nodes and relations, always with edge types; the hub is node 0."""
        fields = graph_variables(anchor)
        return fields | {"links": fields["relations"]}

    def objection(self, anchor: Anchor, fields: Mapping[str, Any]) -> str | None:
        """An objection unless the question asks how or why about the hub, and the answer names enough neighbours."""
        question, answer = fields["question"], fields["answer"]
        if not question.rstrip().endswith("?"):
            return "is no question"
        if not {"how", "why"} & {word.strip("?,.;:") for word in question.casefold().split()}:
            return "asks neither how nor why"
        if not named(question, [anchor.nodes[0].name]):
            return "does not name the hub"
        if len(_named(anchor, answer)) < anchor.data["uses"]:
            return "brings too few neighbours together"
        return own_words(question) or own_words(answer)

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        used = _named(anchor, fields.get("answer", ""))
        return {
            "center_node": anchor.nodes[0].name,
            "num_connections": anchor.data["degree"],
            "synthesis_sources": used,
            **difficulty(max(len(used), 1), 1 + len(used), anchor.data["degree"]),
        }


def _anchor(graph: Any, hub: int, degree: int, settings: HubSettings, seed: int) -> Anchor:
    starts, neighbours = graph.csr()
    around = neighbours[starts[hub] : starts[hub + 1]].tolist()
    around.sort(key=lambda node: place(seed, f"{graph.node_ids[hub]}/{graph.node_ids[node]}"))
    by_name: dict[str, int] = {}  # of nodes with the same name only the first is shown
    for node in (hub, *around):
        by_name.setdefault(plain(str(graph.names[node])), node)
    nodes = list(by_name.values())[: settings.neighbours + 1]
    hub_node = graph.node(hub)
    relations = tuple(
        relation for relation in graph.relations_between(nodes) if 0 in (relation.source, relation.target)
    )
    return Anchor(
        id=content_id("hub", *(graph.node(node).id for node in nodes)),
        kind="hub",
        group=hub_node.type,
        nodes=tuple(graph.node(node) for node in nodes),
        relations=relations,
        data={"degree": degree, "uses": min(settings.uses, len(nodes) - 1)},
    )


def _named(anchor: Anchor, text: str) -> list[str]:
    names = [node.name for node in anchor.nodes]
    return [names[number] for number in named(text, names) if number > 0]
