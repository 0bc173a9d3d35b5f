# shellcheck shell=bash
# Functions that the scripts of this folder share: they source this file, which is never run itself.
#
# Variables a user may set (site/local.sh is the place for those that never change):
#   KGQA_LLM_IMAGE    Apptainer image for generating and judging; without it `kgqa` of the plain environment
#   KGQA_GRAPH_IMAGE  Apptainer image for the graph side (import, sample, merge, report)
#   KGQA_BINDS        folders that Apptainer binds besides the current folder, the run's and the site's defaults
#   KGQA_APPTAINER    more options for `apptainer exec`, for instance --nv (the default when there is a GPU)
#   KGQA_COMMAND      how to call kgqa without an image, default: kgqa
#   KGQA_MPIEXEC      default: mpiexec
#   KGQA_MPI_OPTIONS  default: --with-ft ulfm --bind-to none (Open MPI 5: survivors of a dead rank go on; no rank is tied to one core)
#   KGQA_BROADCAST_ABOVE  nodes above which models of `stage_to` travel from node to node (sbcast), default: 16
#   KGQA_SITE         another site file than site/local.sh

# shellcheck source=site/example.sh
source_site() { # FOLDER OF THE SCRIPTS
  local site=${KGQA_SITE:-$1/site/local.sh}
  if [ -n "${KGQA_SITE:-}" ] && [ ! -f "$site" ]; then
    echo "error: KGQA_SITE=$site: no such file" >&2
    exit 2
  fi
  # shellcheck disable=SC1090
  [ ! -f "$site" ] || source "$site"
}

# Sets the array KGQA to the words that run kgqa: in the image, or in the plain environment when none is given.
use_image() { # IMAGE-OR-EMPTY RUN
  if [ -z "$1" ]; then
    read -ra KGQA <<<"${KGQA_COMMAND:-kgqa}"
    if ! command -v "${KGQA[0]}" >/dev/null; then
      echo "error: ${KGQA[0]} is not on PATH and no image is given" >&2
      echo "       activate the environment kgqa is installed in, or: export KGQA_LLM_IMAGE=llm_0.2.0.sif" >&2
      exit 2
    fi
    return
  fi
  if [ ! -f "$1" ]; then
    echo "error: image $1: no such file" >&2
    echo "       build it with containers/build.sh, or unset the variable to use the plain environment" >&2
    exit 2
  fi
  local binds options=()
  binds="$PWD,$(cd "$(dirname "$2")" && pwd)${KGQA_BINDS:+,$KGQA_BINDS}"
  [ ! -e /dev/nvidiactl ] || options=(--nv)
  [ -z "${KGQA_APPTAINER:-}" ] || read -ra options <<<"$KGQA_APPTAINER"
  KGQA=(apptainer exec "${options[@]}" --bind "$binds" "$1" kgqa)
}

# Copies the models of `stage_to` to the disks of all nodes by the tree of sbcast, so that the shared file system is read
# once. Only in large jobs; a node where it fails makes its own copy when the workers start.
# shellcheck disable=SC2016  # the commands of on_each_node expand there
broadcast_models() { # RUN
  local files source copy name folder done=''
  [ "${SLURM_JOB_NUM_NODES:-1}" -gt "${KGQA_BROADCAST_ABOVE:-16}" ] || return 0
  command -v sbcast >/dev/null || return 0
  files=$("${KGQA[@]}" broadcast "$1") || return 0 # kgqa run says why
  while IFS=$'\t' read -r source copy name; do
    [ -n "$source" ] || continue
    folder=$(dirname "$(partial_copy "$copy")/$name")
    if [ "$folder" != "$done" ]; then # also delete old partial copies of killed jobs
      on_each_node bash -c 'find "$1" -maxdepth 1 -name "$2" -mmin +120 -exec rm -rf {} +; mkdir -p "$3"' \
        . "${copy%/*}" ".${copy##*/}.*.broadcast" "$folder" || return 0
      done=$folder
    fi
    echo "sbcast $source"
    sbcast --force "$source" "$(partial_copy "$copy")/$name" </dev/null || break
  done <<<"$files"
  # If another job has made the copy meanwhile, this one is deleted. Workers repeat an incomplete copy.
  cut -f2 <<<"$files" | sort -u | while read -r copy; do
    [ -n "$copy" ] || continue
    on_each_node bash -c 'mv -T "$1" "$2" 2>/dev/null || rm -rf "$1"' . "$(partial_copy "$copy")" "$copy" || return 0
  done
}

partial_copy() { # COPY
  echo "${1%/*}/.${1##*/}.$SLURM_JOB_ID.broadcast"
}

on_each_node() { # COMMAND...
  srun --overlap --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 "$@" </dev/null
}

# Runs a command in the background, hands Slurm's early warning (USR1) and TERM on to it, and returns its exit code.
# With a command in the foreground, the shell would handle a signal only after the command's end.
run_and_forward() { # COMMAND...
  local pid code caught
  # USR1 is ignored until the program has a handler for it: a warning during its start must not kill the program …
  (trap '' USR1 && exec "$@") &
  pid=$!
  # … so the warning is repeated until the program has ended.
  trap 'caught=1; (while kill -USR1 "$pid" && sleep 5; do :; done) 2>/dev/null &' USR1
  trap 'caught=1; kill -TERM "$pid" 2>/dev/null || true' TERM
  while :; do
    caught='' code=0
    wait "$pid" || code=$?
    [ -n "$caught" ] || break # a trapped signal interrupts `wait`: wait again
  done
  trap - USR1 TERM
  return "$code"
}

# Ends the job, or puts it back into the queue: `kgqa requeue` decides (0 complete, 75 again, 1 no progress).
requeue_unless_complete() { # RUN MARK-AT-START EXIT-CODE
  local decision=0
  "${KGQA[@]}" requeue "$1" --since "$2" --exit-code "$3" --restarts "${SLURM_RESTART_COUNT:-0}" || decision=$?
  [ "$decision" = 75 ] || exit "$decision"
  scontrol requeue "$SLURM_JOB_ID"
  sleep 300 # Slurm ends this script; an exit of our own would count as the job's end
  exit 1
}

# Tells the workers when this job will be ended; Slurm itself does since 23.02.
tell_job_end() {
  local end job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID} # one task has the whole array's id
  [ -z "${SLURM_JOB_END_TIME:-}" ] || return 0
  end=$(date -d "$(squeue --noheader --job "${job:-${SLURM_JOB_ID:-0}}" --format=%e)" +%s) || return 0 # no time limit, so no end
  export SLURM_JOB_END_TIME=$end
}
