#!/usr/bin/env bash
# Installs what hack/imagecheck looks at the image with: skopeo and umoci, which read images, and runc, which runs containers beneath
# Kubernetes (Debian packages; none of them starts a service). It does nothing when they are there.
set -euo pipefail

packages=(skopeo umoci runc iproute2)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
# The package system has one lock for the machine, which another checkout's run may hold.
install=(apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}")
[ "$(id -u)" -eq 0 ] || { echo "imagecheck.sh: packages are missing, run as root: ${install[*]}" >&2; exit 1; }
echo "imagecheck.sh: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
"${install[@]}" -qq >/dev/null
