#!/usr/bin/env bash
# `sacct` for a cluster without accounting, as far as submitit asks: sacct -o JobID,State,NodeList --parsable2 -j ID [-j ID ...]
# tools/slurm_sandbox puts it on PATH. It asks the controller, which forgets a job MinJobAge seconds after its end.
set -euo pipefail

echo "JobID|State|NodeList"
while [ $# -gt 0 ]; do
  if [ "$1" = -j ] && [ $# -gt 1 ]; then
    scontrol -o show job "${2%%_*}" 2>/dev/null | awk '{
      delete field
      for (i = 1; i <= NF; i++) { at = index($i, "="); field[substr($i, 1, at - 1)] = substr($i, at + 1) }
      id = field["JobId"]
      task = field["ArrayTaskId"]
      if (field["ArrayJobId"] != "") id = field["ArrayJobId"] "_" (task ~ /^[0-9]+$/ ? task : "[" task "]")
      print id "|" field["JobState"] "|" (field["NodeList"] == "(null)" ? "None assigned" : field["NodeList"])
    }' || true
    shift
  fi
  shift
done
