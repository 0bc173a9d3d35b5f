#!/usr/bin/env bash
# Compile the graphlet kernels now, so that the first job does not: the machine code stays in the image.
#   warm.sh
# It serves machines with the build host's kind of CPU; on others each job compiles once, into its own cache folder.
set -euo pipefail
unset NUMBA_CACHE_DIR XDG_CACHE_HOME
python=/opt/kgqa/venv/bin/python
cd /
if "$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("kgqa_hpc.graphlets.compile_kernels") is None)'; then
  exec "$python" -m kgqa_hpc.graphlets.compile_kernels
fi
# Counting and sampling a small random graph in every way compiles every kernel.
"$python" - <<'PYTHON'
import numpy as np

from kgqa_hpc.graphlets.count import count_graphlets
from kgqa_hpc.graphlets.sample import sample_graphlets

draw = np.random.default_rng(1)
there = np.triu(draw.random((40, 40)) < 0.15, 1)
there |= there.T
indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int64)
indices = np.nonzero(there)[1].astype(np.int32)
count_graphlets(indptr, indices)
for method in ("enumerate", "structure"):
    sample_graphlets(indptr, indices, per_shape=5, seed=1, method=method)
PYTHON
