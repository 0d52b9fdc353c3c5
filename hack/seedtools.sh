#!/usr/bin/env bash
# Unpacks the readers of our seeds that hack/seedcheck runs into .cache/seedtools: cloud-init, netplan, systemd, NetworkManager and
# Ignition of Debian 12. They are not installed: none of them shall configure this machine. It does nothing when all of that is there.
set -euo pipefail

fail() {
  echo "seedtools.sh: $*" >&2
  exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
tools=$root/.cache/seedtools

# Two runs at once wait for one another. -o keeps the lock from what is started here.
if [ -z "${SEEDTOOLS_LOCKED:-}" ]; then
  mkdir -p "$root/.cache"
  SEEDTOOLS_LOCKED=1 exec flock -o "$root/.cache/seedtools.lock" "$root/hack/seedtools.sh"
fi

# Other systems have another Python than the one that Debian's modules are for.
system=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-} $(uname -m)") || true
[ "$system" = "debian 12 x86_64" ] || fail "the tools are Debian 12's on x86_64, and this is ${system:-another system}: use a container of debian:12"

# What the tools run with. It starts nothing when it is installed.
packages=(python3 libglib2.0-0 libuuid1 libyaml-0-2 busybox-static curl wget dash dosfstools mtools util-linux)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
# Tools that were unpacked whole have the stamp.
stamp=$(sha256sum "$0" | cut -c1-16)
stale=
[ "$(cat "$tools/stamp" 2>/dev/null)" = "$stamp" ] || stale=tools
[ ${#missing[@]} -gt 0 ] || [ -n "$stale" ] || exit 0

# The package system has one lock for the machine, which another checkout's run may hold.
apt=(apt-get -qq -o DPkg::Lock::Timeout=300)
if [ "$(id -u)" -eq 0 ]; then
  "${apt[@]}" update
elif [ ${#missing[@]} -gt 0 ]; then
  fail "packages are missing, run as root: apt-get install ${missing[*]}"
fi
if [ ${#missing[@]} -gt 0 ]; then
  echo "seedtools.sh: installing ${missing[*]}" >&2
  DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null
fi
if [ -n "$stale" ]; then
  echo "seedtools.sh: unpacking cloud-init, netplan, systemd, NetworkManager and Ignition into .cache/seedtools" >&2
  rm -rf "$tools"
  mkdir -p "$tools/packages"
  (
    cd "$tools/packages"
    "${apt[@]}" -o APT::Sandbox::User=root download \
      cloud-init python3-configobj python3-jinja2 python3-markupsafe python3-jsonpatch python3-json-pointer python3-jsonschema python3-attr \
      python3-pyrsistent python3-netifaces python3-oauthlib python3-requests python3-urllib3 python3-chardet python3-certifi \
      python3-idna python3-serial python3-six python3-yaml \
      netplan.io libnetplan0 systemd libsystemd-shared libsystemd0 network-manager libnm0 libndp0 libreadline8 \
      ignition \
      libpsl5 libteamdctl0 libjansson4 libcurl3-gnutls libbluetooth3 libnewt0.52 libudev1 libmm-glib0 libpolkit-agent-1-0 libpolkit-gobject-1-0
    for package in *.deb; do dpkg -x "$package" "$tools/root"; done
  )
  rm -rf "$tools/packages"
  echo "$stamp" >"$tools/stamp"
fi
