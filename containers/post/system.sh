#!/usr/bin/env bash
# Install system packages inside an image and leave nothing of the installation behind.
#   system.sh PACKAGE...
# In all images; packages come from the archives the image's base names.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

# No manual pages or documents except licences, and no sync after each file: an image is thrown away when a build fails.
mkdir -p /etc/dpkg/dpkg.cfg.d
printf '%s\n' force-unsafe-io 'path-exclude=/usr/share/man/*' 'path-exclude=/usr/share/doc/*' \
  'path-include=/usr/share/doc/*/copyright' 'path-exclude=/usr/share/locale/*' >/etc/dpkg/dpkg.cfg.d/kgqa
# A mirror behind a site's own authority needs the build host's certificates (build.sh puts them there).
apt=(apt-get -q -o Acquire::Retries=5 -o APT::Sandbox::User=root)
[ ! -f /mnt/ca.pem ] || apt+=(-o Acquire::https::CAInfo=/mnt/ca.pem)

"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends "$@"
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log /etc/dpkg/dpkg.cfg.d/kgqa
