#!/usr/bin/env bash
# Installs all that hack/e2e needs: firmware and QEMU (firmware.sh), BMC software (peers.sh), a DHCP server, a DHCP relay and a packet
# filter (Debian packages), and the guest with cloud-init (guest.sh). It does nothing when all of that is there.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
relay=$root/.cache/relay

"$root/hack/firmware.sh"
"$root/hack/peers.sh"

packages=(dnsmasq-base nftables mmdebstrap zstd)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ] || [ ! -x "$relay/usr/sbin/dhcrelay" ]; then
  [ "$(id -u)" -eq 0 ] || { echo "e2e.sh: run as root: these are missing: ${missing[*]} isc-dhcp-relay" >&2; exit 1; }
  export DEBIAN_FRONTEND=noninteractive
  # The package system has one lock for the machine, which another checkout's run may hold.
  apt=(apt-get -qq -o DPkg::Lock::Timeout=300)
  "${apt[@]}" update
  echo "e2e.sh: installing ${missing[*]} isc-dhcp-relay" >&2
  [ ${#missing[@]} -eq 0 ] || "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null
  # Unpacked, not installed: it would start a service on this machine.
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  (cd "$folder" && "${apt[@]}" -o APT::Sandbox::User=root download isc-dhcp-relay)
  mkdir -p "$relay"
  dpkg -x "$folder"/isc-dhcp-relay_*.deb "$relay"
fi

"$root/hack/guest.sh"
