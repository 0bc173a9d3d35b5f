"""Kind graphlet: induced connected subgraphs of 3 to 5 nodes, drawn uniformly per shape (BioGraphletQA, 3.1).

An anchor holds the names and types of its nodes and all relations between them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Node, Relation, Source, Tools, short_digest
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import EmptyGraphError
from kgqa_hpc.settings import KindSettings

if TYPE_CHECKING:
    from kgqa_hpc.graphlets.sample import GraphletSample
    from kgqa_hpc.kg.graph import KnowledgeGraph

ALL_SHAPES = 29

_BLOCK = 10_000  # graphlets converted to Python lists at a time; a million of them would take 300 MB


class GraphletSettings(KindSettings):
    """Settings of the kind graphlet: shapes, numbers and sampling method."""

    size = "per_shape"
    kind: Literal["graphlet"] = "graphlet"
    per_shape: int = Field(
        10_000, ge=1, description="Graphlets to draw of each shape; all if there are fewer."
    )
    grown: list[Annotated[int, Field(ge=1)]] | None = Field(
        None, description="Earlier values of per_shape, ascending; `kgqa extend` writes them."
    )
    shapes: list[Annotated[int, Field(ge=1, le=ALL_SHAPES)]] | None = Field(
        None, description="Shape ids; default: all 29."
    )
    backend: Literal["native", "graph-tool"] = Field("native", description="Program that counts and samples.")
    method: Literal["auto", "enumerate", "structure"] = Field(
        "auto", description="Sampling method; auto lets the planner choose."
    )
    max_per_node: int | None = Field(
        None, ge=1, description="Balanced sampling: maximum number of graphlets with the same node."
    )
    spread: Literal["types"] | None = Field(
        None, description="Balanced sampling: shapes spread evenly over the types of their nodes."
    )

    @model_validator(mode="after")
    def _combinations(self) -> GraphletSettings:
        if self.max_per_node is not None and self.spread is not None:
            raise ValueError("max_per_node and spread cannot be had together, choose one of them")
        if self.backend == "graph-tool" and self.method != "auto":
            raise ValueError(f"backend graph-tool knows no method {self.method}, leave method at auto")
        return self


class GraphletAnchors(AnchorKind):
    """Graphlets of 29 shapes, each shape sampled uniformly."""

    name = "graphlet"
    Settings = GraphletSettings
    group_word = "shape"
    columns = (
        Column("graphlet_id", "int64", "Published id of the graphlet's shape, 1-29."),
        Column("nodes", [{"id": "string", "name": "string", "type": "string"}], "Nodes of the graphlet."),
        Column("edges", [["int64"]], "Directed edges as positions in nodes, as they stand in the graph."),
        Column("edge_labels", ["string"], "Types of the edges, in their order."),
        Column("triples", [["string"]], "The edges as head, relation and tail by name."),
        Column(
            "question_entities", ["string"], "Names of the nodes the question is about, as its writer says."
        ),
        Column("answer_entities", ["string"], "Names of the nodes the answer is about, as its writer says."),
        Column("num_nodes", "int64", "Number of nodes."),
    )
    sample = Anchor(
        id="sample",
        kind="graphlet",
        group="shape 2",
        nodes=(
            Node("a", "First node", "Gene"),
            Node("b", "Second node", "Disease"),
            Node("c", "Third node", "Drug"),
        ),
        relations=(Relation(0, 1, "causes"), Relation(2, 1, "treats"), Relation(2, 0, "binds")),
        data={"shape": 2},
    )

    def draw(self, source: Source, settings: GraphletSettings, seed: int, tools: Tools) -> Drawn:
        """Count all shapes, draw `per_shape` of each. Raises EmptyGraphError when there is none."""
        from kgqa_hpc.graphlets.ordered_graph import csr_of_graph, order_graph
        from kgqa_hpc.graphlets.sample import sample_graphlets, shapes_png, statistics_csv
        from kgqa_hpc.threads import Workers

        graph = source.graph
        ordered = order_graph(*csr_of_graph(graph), Workers(tools.threads, tools.progress))
        graph.release_csr()  # saves memory: only the ordered rows are needed
        drawn = sample_graphlets(
            ordered,
            per_shape=settings.per_shape,
            seed=seed,
            shapes=settings.shapes,
            method=settings.method,
            backend=settings.backend,
            max_per_node=settings.max_per_node,
            node_type=graph.node_type if settings.spread == "types" else None,
            announce=lambda plan: tools.announce(plan.text, plan.core_seconds),
        )
        if not len(drawn.shape):
            raise EmptyGraphError(
                "the reduced graph holds no graphlet of any wanted shape", "widen the degree limits"
            )
        files = {"graphlets.csv": statistics_csv(drawn).encode()}
        if find_spec("matplotlib"):  # comes with the extra `report`; without it only the CSV file is written
            files["graphlets.png"] = shapes_png(drawn)
        totals = {f"shape {shape}": int(total) for shape, total in sorted(drawn.totals.items())}
        anchors = graphlet_anchors(graph, drawn, seed, settings.grown or ())
        return Drawn(anchors, totals, files, (drawn.plan.text,))

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        """`edges` and `edge_labels` list the relations of the graph; parallel relations are separate entries."""
        names = [name for _, name, _ in anchor.nodes]
        return {
            "graphlet_id": anchor.data["shape"],
            "nodes": [{"id": id, "name": name, "type": kind} for id, name, kind in anchor.nodes],
            "edges": [[source, target] for source, target, _ in anchor.relations],
            "edge_labels": [kind for *_, kind in anchor.relations],
            "triples": [[names[source], kind, names[target]] for source, target, kind in anchor.relations],
            "question_entities": list(fields.get("question_entities", ())),
            "answer_entities": list(fields.get("answer_entities", ())),
            "num_nodes": len(anchor.nodes),
        }

    def summary(self, header: Mapping[str, Any]) -> list[dict[str, Any]]:
        """All 29 shapes with their totals in the graph (None: not counted) and their edges."""
        from kgqa_hpc.graphlets.shapes import SHAPES

        totals = {
            str(key).removeprefix("shape "): total for key, total in (header.get("totals") or {}).items()
        }
        return [
            {"group": f"shape {number}", "id": number, "name": shape.name}
            | {"total": totals.get(str(number)), "edges": shape.edges}
            for number, shape in SHAPES.items()
        ]

    def expected(self, settings: GraphletSettings) -> int:
        """`per_shape` times the number of selected shapes."""
        return settings.per_shape * len(settings.shapes or range(ALL_SHAPES))


def graphlet_anchors(
    graph: KnowledgeGraph, sample: GraphletSample, seed: int, grown: Sequence[int] = ()
) -> Iterator[Anchor]:
    """The sampled graphlets as anchors, shuffled by `seed` and content; first those of earlier, smaller samples,
    whose sizes per shape are `grown`.

    Every prefix of the order is a random sample of the whole, so a run that stops early is not biased. `sample.nodes`
    are node numbers of `graph`. The nodes of an anchor are in the order of the shape's template; `relations` are all
    typed edges between them.
    """
    import numpy as np

    from kgqa_hpc.graphlets.kernels.choices import key_of, mix
    from kgqa_hpc.graphlets.shapes import SHAPES

    digests = np.fromiter(_digests(graph, sample), np.uint64, len(sample.shape))
    rounds = np.searchsorted(np.array(grown, np.int64), sample.position, side="right")
    order = np.lexsort((digests, mix(digests ^ np.uint64(key_of(seed))), rounds))
    all_relations = graph.relations_for(sample.nodes[order])
    for i, relations in zip(map(int, order), all_relations, strict=True):
        shape = SHAPES[int(sample.shape[i])]
        yield Anchor(
            id=f"g{shape.id:02d}-{int(digests[i]):016x}",
            kind=GraphletAnchors.name,
            group=f"shape {shape.id}",
            nodes=tuple(graph.node(node) for node in sample.nodes[i, : shape.k].tolist()),
            relations=relations,
            weight=float(sample.weight[i]),
            data={"shape": shape.id},
        )


def _digests(graph: KnowledgeGraph, sample: GraphletSample) -> Iterator[int]:
    """A digest of 64 bits of the kind, the shape and the set of node ids of each graphlet."""
    for start in range(0, len(sample.shape), _BLOCK):
        part = slice(start, start + _BLOCK)
        for shape, nodes in zip(sample.shape[part].tolist(), sample.nodes[part].tolist(), strict=True):
            ids = sorted(str(graph.node_ids[node]) for node in nodes if node >= 0)
            content = json.dumps([GraphletAnchors.name, shape, *ids], ensure_ascii=False)
            yield int.from_bytes(short_digest(content), "big")
