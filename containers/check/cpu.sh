#!/usr/bin/env bash
# The part of an image's %test that needs no GPU: versions, MPI, kernels, graph-tool and the embedded engine where they belong.
#   cpu.sh VERSION ROLE...        roles: graph (graph-tool), cpu (embedded engine)
set -euo pipefail
VERSION=${1:?which version?}
shift
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cd "$WORK"

say() { printf 'ok: %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

found=$(kgqa --version)
[ "$found" = "kgqa $VERSION" ] || fail "the image says version $VERSION and holds '$found'"
say "$found"

# Two ranks see each other: bindings, library and launcher inside fit together.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks=$(timeout 300 mpiexec --with-ft ulfm --map-by :OVERSUBSCRIBE -n 2 python -c \
  'from mpi4py import MPI; print(MPI.COMM_WORLD.allreduce(1), MPI.Get_library_version().split(",")[0])' </dev/null)
[ "$(sort -u <<<"$ranks" | cut -d' ' -f1)" = 2 ] || fail "two ranks do not see each other: $ranks"
say "MPI, two ranks of $(head -n 1 <<<"$ranks" | cut -d' ' -f2-)"

# The complete graph on five nodes holds ten triangles, five 4-cliques and one 5-clique, whoever counts.
{ echo id,name,type; for i in 1 2 3 4 5; do echo "$i,node $i,thing"; done; } >nodes.csv
{ echo source_id,target_id,type; for i in 1 2 3 4; do for ((j = i + 1; j <= 5; j++)); do echo "$i,$j,meets"; done; done; } >edges.csv
backends=(native)
if [[ " $* " = *" graph "* ]]; then
  version=$("$KGQA_GRAPH_TOOL_PYTHON" -c 'import graph_tool; print(graph_tool.__version__.split()[0])')
  say "graph-tool $version"
  # The backend that asks it came later than the images.
  ! python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("kgqa_hpc.graphlets.graph_tool") is None)' ||
    backends+=(graph-tool)
fi
for backend in "${backends[@]}"; do
  kgqa count --nodes nodes.csv --edges edges.csv --min-degree 0 --backend "$backend" --json >"$backend.json"
  python -c 'import json, sys
counts = json.load(open(sys.argv[1]))["counts"]
sys.exit(sorted(v for v in counts.values() if v) != [1, 5, 10])' "$backend.json" || fail "$backend counts K5 wrongly: $(cat "$backend.json")"
  say "graphlets counted by $backend"
done

if [[ " $* " = *" cpu "* ]]; then
  # Not `kgqa doctor`: that gives each look five seconds, and a busy machine must not decide.
  told=$(python -c 'from kgqa_hpc.doctor import diagnose
[check] = [one for one in diagnose(600) if one.name == "engine cpu"]
print("" if check.ok else check.detail)')
  [ -z "$told" ] || fail "the embedded engine or its weights are missing: $told"
  say "embedded engine and weights"
fi
