#!/usr/bin/env bash
# Installs the BMC software that bmc/peertest runs the conformance suite against: sushy-tools and virtualbmc into .cache/peers,
# ipmi_sim, libvirt and QEMU as Debian packages. It does nothing when all of that is there.
set -euo pipefail

fail() {
  echo "peers.sh: $*" >&2
  exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.cache/peers
requirements=$root/hack/peers/requirements.txt
# Debian's Python, not one that comes first on PATH: Debian's binding of libvirt is made for it.
python=/usr/bin/python3

# Two runs at once wait for one another. -o keeps the lock from what is started here: a daemon of a package would hold it for ever.
if [ -z "${PEERS_LOCKED:-}" ]; then
  mkdir -p "$root/.cache"
  PEERS_LOCKED=1 exec flock -o "$root/.cache/peers.lock" "$root/hack/peers.sh"
fi

# Other systems cut libvirt into other packages, and have another Python than the one that the wheels' hashes are for.
system=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-} $(uname -m)") || true
[ "$system" = "debian 12 x86_64" ] || fail "the peers run on Debian 12 on x86_64, and this is ${system:-another system}: use a container of debian:12"

# cpio lists the archives of hack/agent.
packages=(openipmi ipmitool libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients python3-libvirt python3-venv qemu-system-x86 ovmf cpio)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  # The package system has one lock for the machine, which another checkout's run may hold.
  install=(apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}")
  [ "$(id -u)" -eq 0 ] || fail "packages are missing, run as root: ${install[*]}"
  echo "peers.sh: installing ${missing[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  "${install[@]}" -qq >/dev/null
fi

stamp=$({ cat "$0" "$requirements"; "$python" --version; echo "$venv"; } | sha256sum | cut -c1-16)
if [ "$(cat "$venv/stamp" 2>/dev/null)" != "$stamp" ]; then
  echo "peers.sh: installing sushy-tools and virtualbmc into .cache/peers (about 20 s)" >&2
  rm -rf "$venv"
  "$python" -m venv --system-site-packages "$venv"
  # Every package is pinned to a file by its hash, so none is taken from the system and none is looked for.
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --ignore-installed --only-binary :all: --require-hashes \
    -r "$requirements"
  echo "$stamp" >"$venv/stamp"
fi
