"""How tests/store/golden/v2 was made: kg.h5 of version 2. Kept to be read, not to be run again.

usage: python tests/store/golden/make_v2.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from kgqa_hpc.kg.file import write_graph
from kgqa_hpc.kg.graph import KnowledgeGraph

NODE_PROPERTIES = {
    "year": pa.array([1975, None, -3], pa.int64()),
    "share/of all": pa.array([0.5, 1e300, None], pa.float64()),
    "retired": pa.array([True, None, False], pa.bool_()),
    "Größe": pa.array([None, "", "\u03b1,\n"], pa.large_string()),
}
EDGE_PROPERTIES = {"weight": pa.array([2.0, None], pa.float64())}


def graph() -> KnowledgeGraph:
    return KnowledgeGraph(
        node_ids=np.array(["HP:1", "HP:2", "G:3"], dtype=object),
        names=np.array(["Größe", "Ataxia", "FRDA \u03b1"], dtype=object),
        node_type=np.array([0, 0, 1], dtype=np.int32),
        node_types=("Phenotype", "Gene"),
        edge_source=np.array([2, 2], dtype=np.int32),
        edge_target=np.array([0, 1], dtype=np.int32),
        edge_type=np.array([0, 0], dtype=np.int32),
        edge_types=("causes",),
        attributes={"source": "golden"},
        node_properties=NODE_PROPERTIES,
        edge_properties=EDGE_PROPERTIES,
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write_graph(folder / "kg.h5", graph())
