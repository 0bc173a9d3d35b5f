#!/usr/bin/env bash
# Submit everything from graph to dataset as three jobs, chained by dependencies.
#   slurm/pipeline.sh CONFIG RUN                               MPI, one node with four GPUs
#   slurm/pipeline.sh CONFIG RUN --nodes=8 --time=04:00:00     sbatch options for the generating job
#   KGQA_RUN=array slurm/pipeline.sh CONFIG RUN --array=0-31   independent workers instead of MPI
#   KGQA_SBATCH="--partition=gpu --account=me" slurm/pipeline.sh …   options for all three jobs
# Safe to repeat: an existing run of the same configuration goes on where it is.
# Needs: sbatch; see the headers of the three scripts. Prints one line per job: what it does, and its id.
set -euo pipefail
usage='slurm/pipeline.sh configs/NAME.yaml runs/NAME [sbatch options of the generating job]'
CONFIG=${1:?which configuration? $usage}
RUN=${2:?which run? $usage}
shift 2
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=common.sh
source "$HERE/common.sh"
source_site "$HERE"
case ${KGQA_RUN:-mpi} in
  mpi | array) script=$HERE/run_${KGQA_RUN:-mpi}.sbatch ;;
  *)
    echo "error: KGQA_RUN=$KGQA_RUN is neither mpi nor array" >&2
    exit 2
    ;;
esac
mkdir -p "$(dirname "$RUN")"
use_image "${KGQA_GRAPH_IMAGE:-}" "$RUN"
"${KGQA[@]}" init "$CONFIG" "$RUN" >/dev/null

read -ra common <<<"${KGQA_SBATCH:-}"
submit() { # OPTIONS AND SCRIPT
  sbatch --parsable --kill-on-invalid-dep=yes "${common[@]}" "$@" | cut -d';' -f1
}
graph=$(submit "$HERE/graphlets.sbatch" "$RUN")
run=$(submit --dependency="afterok:$graph" "$@" "$script" "$RUN")
merge=$(submit --dependency="afterok:$run" "$HERE/merge.sbatch" "$RUN")
echo "graphlets $graph"
echo "run       $run"
echo "merge     $merge"
echo "now: kgqa status $RUN --watch"
