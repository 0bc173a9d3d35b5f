#!/usr/bin/env bash
# Compile all kernels now, so that the first job does not: the machine code stays in the image.
#   warm.sh
# It serves machines with the build host's kind of CPU; on others each job compiles once, into its own cache folder.
set -euo pipefail
unset NUMBA_CACHE_DIR XDG_CACHE_HOME
python=/opt/kgqa/venv/bin/python
cd /
exec "$python" -m kgqa_hpc.compile_kernels
