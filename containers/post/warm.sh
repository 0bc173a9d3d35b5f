#!/usr/bin/env bash
# Compile the graphlet kernels now, so that the first job does not: the machine code stays in the image.
#   warm.sh
# It serves machines with the build host's kind of CPU; on others each job compiles once, into its own cache folder.
set -euo pipefail
unset NUMBA_CACHE_DIR
cd /
if /opt/kgqa/venv/bin/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("kgqa_hpc.graphlets.warm") is None)'; then
  /opt/kgqa/venv/bin/python -m kgqa_hpc.graphlets.warm
fi
