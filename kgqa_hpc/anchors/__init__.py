"""Anchors: the evidence of a question, which goes into its prompt and stays linked to its record."""

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
