#!/usr/bin/env bash
# Install Apptainer on Debian 12, which has no package of it, without touching the system's libc.
#   tools/system/apptainer_on_debian12.sh       (as root; tools/install_system.sh calls it)
# Debian's own package of a later suite is repacked: its two programs are pointed at a private copy of that suite's libc
# in /usr/lib/apptainer-glibc. Everything comes from the mirror this machine's apt already uses and is verified by
# apt against Debian's archive keys. `apt-get remove apptainer` removes it again.
set -euo pipefail
SUITE=${KGQA_APPTAINER_SUITE:-sid}
PRIVATE=/usr/lib/apptainer-glibc
KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

# The mirror of the main archive, as apt knows it.
# shellcheck disable=SC2016  # apt expands these itself
mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' | awk '$2 == "bookworm" {print $1; exit}')
[ -n "$mirror" ] || { echo "E: apt on this machine knows no mirror of Debian 12 (bookworm)" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,cache/archives/partial,debs,libc}
echo "deb [signed-by=$KEYS] $mirror $SUITE main" >"$work/suite.list"
# A separate state folder: the machine's own package lists never see the later suite.
apt=(apt-get -q -o "Dir::Etc::sourcelist=$work/suite.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
  -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root -o Acquire::Retries=3)
"${apt[@]}" update
(cd "$work/debs" && "${apt[@]}" download apptainer libc6)

dpkg-deb -R "$work"/debs/apptainer_*.deb "$work/package"
dpkg-deb -x "$work"/debs/libc6_*.deb "$work/libc"
mkdir -p "$work/package$PRIVATE"
# libc6's libraries only; seccomp and sqlite stay this system's.
find "$work/libc" -path '*x86_64*' \( -name 'ld-linux-x86-64.so.2' -o -name 'lib*.so.*' \) -exec cp -L {} "$work/package$PRIVATE/" \;
[ -e "$work/package$PRIVATE/ld-linux-x86-64.so.2" ] ||
  cp -L "$(find "$work/libc" -name 'ld-linux-x86-64.so.2' | head -n 1)" "$work/package$PRIVATE/"

apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends patchelf
for program in usr/bin/apptainer usr/lib/x86_64-linux-gnu/apptainer/bin/starter; do
  patchelf --set-interpreter "$PRIVATE/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$PRIVATE" "$work/package/$program"
done
control=$work/package/DEBIAN/control
sed -i -E \
  -e 's/^(Version: .*)$/\1~bookworm1/' \
  -e 's/^Depends:.*/Depends: ca-certificates, containernetworking-plugins, squashfs-tools, uidmap, libc6, libseccomp2, libsqlite3-0/' \
  -e '/^((Static-)?Built-Using:.*)?$/d' "$control"
rm -f "$work/package/DEBIAN/md5sums"
dpkg-deb -Zgzip -z1 -b "$work/package" "$work/apptainer.deb"
apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$work/apptainer.deb"
apptainer --version
