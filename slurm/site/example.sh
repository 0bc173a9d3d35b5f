# shellcheck shell=bash
# Settings of one cluster. Copy to site/local.sh and edit; the scripts source it before anything else.
# Partition, account and the like belong to sbatch: set them once with SBATCH_PARTITION, SBATCH_ACCOUNT, … in your
# shell's profile, or give them on the command line.

# Modules that bring Apptainer and Open MPI 5 (mpi4py in the image must be built for the same Open MPI release):
# module load apptainer openmpi/5.0

# Images, on a file system all nodes see:
# export KGQA_LLM_IMAGE=/project/kgqa/kgqa-llm.sif
# export KGQA_GRAPH_IMAGE=/project/kgqa/kgqa-graph.sif

# Folders that images must see besides the current one and the run's:
# export KGQA_BINDS=/project,/scratch,/models

# An mpiexec without fault tolerance (anything but Open MPI 5):
# export KGQA_MPI_OPTIONS=

# A plain environment instead of images:
# source /project/kgqa/venv/bin/activate
