#!/usr/bin/env bash
# Unpacks what hack/netbench measures our boot server beside: kea, dnsmasq, nginx, tftpd-hpa, and the load generators perfdhcp and wrk,
# all of Debian, into .cache/netbench. Nothing is installed: a package's service would be started. It does nothing when all is there.
set -euo pipefail

fail() {
  echo "netbench.sh: $*" >&2
  exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
dir=$root/.cache/netbench

# Two runs at once wait for one another. -o keeps the lock from what is started here.
if [ -z "${NETBENCH_LOCKED:-}" ]; then
  mkdir -p "$root/.cache"
  NETBENCH_LOCKED=1 exec flock -o "$root/.cache/netbench.lock" "$root/hack/netbench.sh"
fi

stamp=$(sha256sum "$0" | cut -c1-16)
[ "$(cat "$dir/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
system=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}") || true
[ "$system" = "debian 12" ] || fail "the packages are Debian 12's, and this is ${system:-another system}: use a container of debian:12"

wanted=(kea-dhcp4-server kea-admin dnsmasq-base nginx-light tftpd-hpa wrk curl)
echo "netbench.sh: unpacking ${wanted[*]} into .cache/netbench" >&2
apt=(apt-get -qq -o DPkg::Lock::Timeout=300 -o APT::Sandbox::User=root)
"${apt[@]}" update
# The libraries that are not installed come along.
mapfile -t packages < <({ printf '%s\n' "${wanted[@]}"; apt-get -s install --no-install-recommends "${wanted[@]}" | awk '$1 == "Inst" {print $2}'; } | sort -u)
rm -rf "$dir"
mkdir -p "$dir/packages"
(cd "$dir/packages" && "${apt[@]}" download "${packages[@]}" && for package in *.deb; do dpkg -x "$package" "$dir"; done)
rm -r "$dir/packages"
echo "$stamp" >"$dir/stamp"
