#!/usr/bin/env bash
# Submit everything from graph to dataset as three jobs, chained by dependencies.
#   slurm/pipeline.sh CONFIG RUN                               MPI, one node with four GPUs
#   slurm/pipeline.sh CONFIG RUN --nodes=8 --time=04:00:00     sbatch options for the generating job
#   KGQA_RUN=array slurm/pipeline.sh CONFIG RUN --array=0-31   independent workers instead of MPI
#   KGQA_SBATCH="--account=me" KGQA_SBATCH_RUN="--partition=gpu" slurm/pipeline.sh …   options of all jobs, of one job
# The variables KGQA_SBATCH, KGQA_SBATCH_GRAPHLETS, KGQA_SBATCH_RUN and KGQA_SBATCH_MERGE belong into site/local.sh;
# `kgqa submit` reads them there, too. When sbatch refuses a job, those before it are cancelled.
# Safe to repeat: an existing run of the same configuration continues where it stopped.
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

mkdir -p "$RUN/logs"
read -ra common <<<"${KGQA_SBATCH:-}"
jobs=()
submit() { # NAME OPTIONS-OF-THE-SITE OPTIONS AND SCRIPT
  local name=$1 own id
  read -ra own <<<"$2"
  shift 2
  if ! id=$(sbatch --parsable --kill-on-invalid-dep=yes --output="${RUN//%/%%}/logs/%x-%j.log" "${common[@]}" "${own[@]}" "$@"); then
    echo "error: sbatch refused the job $name" >&2
    if [ "${#jobs[@]}" -gt 0 ]; then
      scancel "${jobs[@]}"
      echo "       cancelled, for nothing runs without it: ${jobs[*]}" >&2
    fi
    echo "       mend its options in KGQA_SBATCH_${name^^}, then the same command again" >&2
    exit 1
  fi
  jobs+=("${id%%;*}")
}
submit graphlets "${KGQA_SBATCH_GRAPHLETS:-}" "$HERE/graphlets.sbatch" "$RUN"
submit run "${KGQA_SBATCH_RUN:-}" --dependency="afterok:${jobs[0]}" "$@" "$script" "$RUN"
submit merge "${KGQA_SBATCH_MERGE:-}" --dependency="afterok:${jobs[1]}" "$HERE/merge.sbatch" "$RUN"
echo "graphlets ${jobs[0]}"
echo "run       ${jobs[1]}"
echo "merge     ${jobs[2]}"
printf 'now: kgqa status %q --watch\n' "$RUN"
