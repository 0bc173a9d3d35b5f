"""What a question is grounded in: the evidence that goes into a prompt and stays linked to the record."""

from kgqa_hpc.registry import Registry

KINDS = Registry(
    "anchors",
    "anchor kind",
    {
        "graphlet": "kgqa_hpc.anchors.graphlet:GraphletAnchors",
        "abstract": "kgqa_hpc.anchors.abstract:AbstractAnchors",
        "records": "kgqa_hpc.anchors.records:RecordAnchors",
    },
)
