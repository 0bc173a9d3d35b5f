"""Anchor kind of a family: how many neighbours of a type a node has."""

from collections import Counter
from typing import Literal

from pydantic import Field

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Node, graph_variables
from kgqa_hpc.anchors.family import DIFFICULTY, content_id, difficulty, place, wording
from kgqa_hpc.columns import Column
from kgqa_hpc.settings import KindSettings


class TallySettings(KindSettings):
    kind: Literal["tally"] = "tally"
    number: int = Field(100, ge=1, description="Questions drawn.")


class TallyAnchors(AnchorKind):
    """How many neighbours of a type a node has."""

    name = "tally"
    Settings = TallySettings
    group_word = "type"
    gives = ("answer",)
    columns = (Column("tally", "int64", "The number."), *DIFFICULTY)
    sample = Anchor(
        "sample", "tally", "film", (Node("a", "A", "person"),), data={"asked": "film", "tally": 2}
    )

    def draw(self, source, settings, seed, tools):
        graph = source.graph
        starts, others = graph.csr()
        anchors = []
        for position in range(graph.num_nodes):
            node = graph.node(position)
            around = [graph.node(other).type for other in others[starts[position] : starts[position + 1]]]
            for asked, tally in sorted(Counter(around).items()):
                data = {"asked": asked, "tally": tally}
                anchors.append(
                    Anchor(content_id("tally", node.id, asked), "tally", asked, (node,), data=data)
                )
        anchors.sort(key=lambda anchor: place(seed, anchor.id))
        return Drawn(anchors[: settings.number], dict(Counter(anchor.group for anchor in anchors)))

    def variables(self, anchor):
        return {**graph_variables(anchor), "asked": anchor.data["asked"]}

    def start(self, anchor):
        return {"answer": f"{anchor.data['tally']}."}

    def objection(self, anchor, fields):
        return wording(fields["question"], [anchor.nodes[0].name], [str(anchor.data["tally"])])

    def record(self, anchor, fields):
        return {"tally": anchor.data["tally"], **difficulty(1, 1 + anchor.data["tally"], 0)}
