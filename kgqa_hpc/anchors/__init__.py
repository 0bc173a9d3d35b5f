"""What a question is grounded in: the evidence that goes into a prompt and stays linked to the record."""

from kgqa_hpc.registry import Registry

KINDS = Registry(
    "anchors",
    "anchor kind",
    {
        "graphlet": "kgqa_hpc.anchors.graphlet:GraphletAnchors",
        "path": "kgqa_hpc.anchors.path:PathAnchors",
        "fact": "kgqa_hpc.anchors.fact:FactAnchors",
        "hub": "kgqa_hpc.anchors.hub:HubAnchors",
        "records": "kgqa_hpc.anchors.records:RecordAnchors",
    },
)
