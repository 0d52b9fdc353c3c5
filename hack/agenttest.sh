#!/usr/bin/env bash
# Installs what hack/agenttest and the test of the agent in hack/e2e need, and builds agents: hack/agenttest.sh VERSION [ARCH...]. The default is amd64.
set -euo pipefail

[ $# -ge 1 ] || { echo "agenttest.sh: usage: agenttest.sh VERSION [ARCH...]" >&2; exit 1; }
version=$1
shift
[ $# -gt 0 ] || set -- amd64
root=$(cd "$(dirname "$0")/.." && pwd)
"$root/hack/e2e.sh"

# QEMU's block driver for HTTP, as which a BMC reads a boot medium, and programs that check the medium.
packages=(qemu-block-extra xorriso genisoimage mtools dosfstools)
[[ " $* " != *" arm64 "* ]] || packages+=(qemu-system-arm qemu-efi-aarch64 squashfs-tools)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  [ "$(id -u)" -eq 0 ] || { echo "agenttest.sh: run as root: these are missing: ${missing[*]}" >&2; exit 1; }
  echo "agenttest.sh: installing ${missing[*]}" >&2
  apt-get -qq -o DPkg::Lock::Timeout=300 update
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}" >/dev/null
fi

"$root/hack/agent.sh" "$version" "$@"
"$root/hack/volumes.sh"
