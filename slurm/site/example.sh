# shellcheck shell=bash
# Settings of one cluster. Copy to site/local.sh and edit; the scripts source it before anything else.
# `kgqa submit` reads it, too. Another file: export KGQA_SITE=FILE.

# Options of sbatch for all jobs, and for each job (they override the defaults in the scripts):
# KGQA_SBATCH="--account=me --mail-type=FAIL"
# KGQA_SBATCH_GRAPHLETS="--partition=cpu --cpus-per-task=32 --mem=64G"
# KGQA_SBATCH_RUN="--partition=gpu --qos=normal --constraint=a100"
# KGQA_SBATCH_MERGE="--partition=cpu --mem=16G"

# Modules that bring Apptainer and Open MPI 5 (mpi4py in the image must be built for the same Open MPI release):
# module load apptainer openmpi/5.0

# Images, on a file system all nodes see:
# export KGQA_LLM_IMAGE=/project/kgqa/llm_0.2.0.sif
# export KGQA_GRAPH_IMAGE=/project/kgqa/graph_0.2.0.sif

# Folders that images must see besides the current one and the run's:
# export KGQA_BINDS=/project,/scratch,/models

# An mpiexec without fault tolerance (anything but Open MPI 5):
# export KGQA_MPI_OPTIONS=

# A plain environment instead of images:
# source /project/kgqa/venv/bin/activate
