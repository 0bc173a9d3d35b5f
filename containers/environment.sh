# What a process inside an image finds in its environment; every image's %environment reads this file.
# Plain POSIX sh, read by a small shell of Apptainer's own that does not see the host's variables: what is set here wins
# over the host's, and APPTAINERENV_NAME=value (or --env NAME=value) wins over what is set here.
# shellcheck shell=sh
export LC_ALL=C.UTF-8
export PATH="/opt/kgqa/venv/bin:$PATH"

# The host's Python settings must not reach the image's Python, nor a checkout that happens to be the current folder.
export PYTHONPATH="" PYTHONHOME="" VIRTUAL_ENV="" PYTHONNOUSERSITE=1 PYTHONSAFEPATH=1

# Caches lie on the node's own disk and belong to this user alone: compiled code is loaded from there.
export TMPDIR=/tmp
XDG_CACHE_HOME="/tmp/kgqa-$(id -u)"
mkdir -m 700 "$XDG_CACHE_HOME" 2>/dev/null || true
# shellcheck disable=SC3067  # -O is not POSIX, but the shell that reads this file knows it
[ -O "$XDG_CACHE_HOME" ] || XDG_CACHE_HOME=$(mktemp -d 2>/dev/null || echo /nonexistent)
export XDG_CACHE_HOME
export TRITON_CACHE_DIR="$XDG_CACHE_HOME/triton"
export MPLCONFIGDIR="$XDG_CACHE_HOME/matplotlib"

# Models come from folders, never from a hub in the middle of a job.
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1

# gpt-oss's encoding, which LMDeploy's and vLLM's servers would download when they start (post/encodings.sh).
[ ! -d /opt/kgqa/encodings ] || export TIKTOKEN_RS_CACHE_DIR=/opt/kgqa/encodings

# The host's mpiexec tells its ranks where the host's MPI lies; in here that place is another.
export PMIX_PREFIX=/opt/kgqa/venv PRTE_PREFIX=/opt/kgqa/venv OPAL_PREFIX=/opt/kgqa/venv

# Debian's graph-tool belongs to the system's Python.
export KGQA_GRAPH_TOOL_PYTHON=/usr/bin/python3
