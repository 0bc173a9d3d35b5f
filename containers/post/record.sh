#!/usr/bin/env bash
# Write down what is inside, as the last step: the lock file of the image and the labels only the finished image knows.
#   record.sh
# /opt/kgqa/packages.lock has one line per package, sorted: "deb NAME=VERSION", "pip NAME==VERSION", and what else
# decides what an image does. build.sh copies it beside the image and compares it with an older one on request.
set -euo pipefail
export LC_ALL=C
python=/opt/kgqa/venv/bin/python
mpi=$("$python" -c 'import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version().strip(chr(0)))')
mpi=$(sed -nE 's/^Open MPI v?([0-9.]+).*/Open MPI \1/p' <<<"$mpi")
[ -n "$mpi" ] || { echo "error: mpi4py in this image does not find Open MPI" >&2; exit 1; }

{
  # shellcheck disable=SC2016  # dpkg-query expands these itself
  dpkg-query -W -f '${db:Status-Abbrev} deb ${Package}=${Version}\n' | sed -n 's/^ii  *//p'
  "$python" -m pip list --format=freeze --disable-pip-version-check | sed 's/^/pip /'
  echo "python $("$python" -c 'import platform; print(platform.python_version())')"
  echo "mpi $mpi"
} | sort >/opt/kgqa/packages.lock

# In %post of a build this file takes more labels; elsewhere (the tests call this script too) there is none.
if [ -n "${APPTAINER_LABELS:-}" ]; then
  {
    echo "org.kgqa.mpi $mpi"
    echo "org.kgqa.python $("$python" -c 'import platform; print(platform.python_version())')"
    echo "org.kgqa.lock sha256:$(sha256sum /opt/kgqa/packages.lock | cut -d' ' -f1)"
  } >>"$APPTAINER_LABELS"
fi
rm -rf /root/.cache
