#!/usr/bin/env bash
# Half a minute to see it: a scripted run is killed three times with kill -9 while it works, goes on each time, and its
# dataset has the bytes of a run that nobody disturbed.
#   tools/demo_kill.sh [FOLDER]      default runs/demo-kill; made anew
# Needs: kgqa on the PATH and the bundled graph (make demo-kill does both). Exit: 0 equal, 1 not.
set -euo pipefail
FOLDER=${1:-runs/demo-kill}
rm -rf "$FOLDER" && mkdir -p "$FOLDER"
CONFIG=$FOLDER/scripted.yaml
cat >"$CONFIG" <<'YAML'
# 240 graphlets of the HPO graph; the engine makes up answers and takes its time, as a small GPU would.
graph: {source: hpo}
anchors: {per_shape: 10}
engine: {kind: scripted, latency: {batch: 16, per_request_s: 0.3}}
runtime: {shard_size: 24, commit_every: 1s, lease: 5s}
YAML
say() { printf '== %s\n' "$*"; }
ended() { kgqa status "$1" --json | python3 -c 'import json, sys; s = json.load(sys.stdin)["items"]; print(s["ended"], "of", s["total"])'; }

say "a run that nobody disturbs"
kgqa all "$CONFIG" "$FOLDER/quiet" 2>/dev/null
say "the same run, killed three times"
kgqa init "$CONFIG" "$FOLDER/killed" && kgqa import "$FOLDER/killed" && kgqa sample "$FOLDER/killed" 2>/dev/null
for round in 1 2 3; do
  kgqa run "$FOLDER/killed" 2>/dev/null &
  worker=$!
  # Killed in the midst of it: when some more items are done than before.
  before=$(ended "$FOLDER/killed")
  while kill -0 "$worker" 2>/dev/null && [ "$(ended "$FOLDER/killed")" = "$before" ]; do sleep 0.3; done
  sleep 1.5 # until what is done is journaled: commit_every
  kill -9 "$worker" 2>/dev/null || true
  wait "$worker" 2>/dev/null || true
  say "kill -9, round $round: $(ended "$FOLDER/killed") items are safe"
done
say "the same command once more"
kgqa run "$FOLDER/killed" 2>/dev/null && kgqa merge "$FOLDER/killed" | head -n 1
say "both datasets, byte by byte"
if diff <(cd "$FOLDER/quiet/dataset" && sha256sum -- * 2>/dev/null) <(cd "$FOLDER/killed/dataset" && sha256sum -- * 2>/dev/null); then
  say "equal: $(find "$FOLDER/killed/dataset" -type f | wc -l) files"
else
  say "NOT EQUAL"
  exit 1
fi
