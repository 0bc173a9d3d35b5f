#!/usr/bin/env bash
# Install the system components the whole test-suite uses: Slurm, Apptainer, graph-tool, Chromium.
#   tools/install_system.sh                    all of them
#   tools/install_system.sh slurm apptainer    some of them
# Needs root on Debian 12, and apt as this machine has it set up. Safe to repeat: what is there stays as it is.
# Prints one line per component. What cannot be installed is SKIPPED, in capitals and with the reason, and the exit
# status is 0 all the same: the tests that need it then skip as loudly. Nothing in the package itself needs any of this.
set -uo pipefail

readonly APT=(apt-get -qq -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0)
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ "$(id -u)" = 0 ] || PATH=$PATH:/usr/sbin:/sbin # where the daemons are
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; }

skip() { # COMPONENT REASON
  printf 'SKIPPED: %s: %s\n' "${1^^}" "$2"
}

# Runs a command with a limit in seconds, up to three times, and keeps its output in $LOG.
attempt() {
  local limit=$1 try
  shift
  for try in 1 2 3; do
    timeout --kill-after=10 "$limit" "$@" </dev/null >"$LOG" 2>&1 && return 0
    [ "$try" = 3 ] || sleep $((try * ${KGQA_RETRY_PAUSE:-5}))
  done
  return 1
}

last_error() { # the line that says most, on one line
  { grep -E '^(E:|error|ERROR|FATAL)' "$LOG" | tail -n 1 | grep . || tail -n 1 "$LOG" | grep . || echo 'no answer in time'; } | cut -c1-200
}

# Package lists are read anew once per call, and only when something has to be installed.
apt_install() {
  if [ -z "${LISTS_READ:-}" ]; then
    attempt 180 "${APT[@]}" update || return 1
    LISTS_READ=1
  fi
  attempt 600 "${APT[@]}" install -y --no-install-recommends "$@"
}

slurm_version() { slurmctld -V 2>/dev/null | awk '{print $2}'; }
apptainer_version() { apptainer --version 2>/dev/null | awk '{print $NF}'; }
chromium_version() { chromium --version 2>/dev/null | awk '{print $2}'; }
graph_tool_version() { timeout 120 /usr/bin/python3 -c 'import graph_tool; print(graph_tool.__version__.split()[0])' 2>/dev/null; }

slurm_is_whole() { type slurmctld slurmd munged sbatch scontrol &>/dev/null && [ -n "$(slurm_version)" ]; }
# debootstrap and mksquashfs build images; without them apptainer can only run some.
apptainer_is_whole() { type debootstrap mksquashfs &>/dev/null && [ -n "$(apptainer_version)" ]; }
graph_tool_is_whole() { [ -n "$(graph_tool_version)" ]; }
# The tests of pages people read and rate drive this browser.
chromium_is_whole() { [ -n "$(chromium_version)" ]; }

install_slurm() { apt_install slurmctld slurmd slurm-client munge; }
install_apptainer() {
  apt_install debootstrap squashfs-tools uidmap || return 1
  [ -n "$(apptainer_version)" ] && return 0
  if apt-cache show apptainer >/dev/null 2>&1; then
    apt_install apptainer
  else
    attempt 300 "$HERE/system/apptainer_on_debian12.sh"
  fi
}
install_graph_tool() { apt_install python3-graph-tool; }
install_chromium() { apt_install chromium; }

may_install() { # empty when this machine can be changed, else the reason why not
  local id='' version=''
  [ "$(id -u)" = 0 ] || { echo "installing needs root; ask for it, or run the tests as root in a Debian 12 container"; return; }
  # shellcheck disable=SC1091
  id=$(. /etc/os-release 2>/dev/null && echo "${ID:-}") version=$(. /etc/os-release 2>/dev/null && echo "${VERSION_ID:-}")
  [ "$id" = debian ] && [ "$version" = 12 ] || echo "made for Debian 12, this is ${id:-unknown} ${version}; install it by hand"
}

provide() { # COMPONENT, a name as on the command line
  local name=$1 key=${1//-/_} reason
  if "${key}_is_whole"; then
    echo "$name: $("${key}_version") is there"
    return
  fi
  reason=$(may_install)
  if [ -n "$reason" ]; then
    skip "$name" "$reason"
  elif "install_$key" && "${key}_is_whole"; then
    echo "$name: $("${key}_version") installed"
  else
    skip "$name" "installation failed: $(last_error)"
  fi
}

main() {
  local wanted=() name
  for name in "${@:-all}"; do
    case $name in
      slurm | apptainer | graph-tool | chromium) wanted+=("$name") ;;
      all) wanted=(slurm apptainer graph-tool chromium) ;;
      -h | --help) usage && return 0 ;;
      *) echo "error: unknown component '$name'; known are slurm, apptainer, graph-tool, chromium, all" >&2 && return 2 ;;
    esac
  done
  LOG=$(mktemp) && trap 'rm -f "$LOG"' EXIT
  # One installation at a time on a machine: two test runs may start together.
  [ "$(id -u)" = 0 ] && exec 9>/run/lock/kgqa-install-system.lock && flock --timeout 1200 9
  for name in "${wanted[@]}"; do provide "$name"; done
}

main "$@"
