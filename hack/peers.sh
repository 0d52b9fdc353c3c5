#!/usr/bin/env bash
# Installs the BMC software that bmc/peertest runs the conformance suite against: sushy-tools and virtualbmc into .cache/peers,
# ipmi_sim, libvirt and QEMU as Debian packages. It does nothing when all of that is there.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.cache/peers
requirements=$root/hack/peers/requirements.txt
# Debian's Python, not one that comes first on PATH: Debian's binding of libvirt is made for it.
python=/usr/bin/python3

packages=(openipmi ipmitool libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients python3-libvirt python3-venv qemu-system-x86 ovmf)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  install=(apt-get install -y --no-install-recommends "${missing[@]}")
  if ! command -v apt-get >/dev/null; then
    echo "peers.sh: this is no Debian: install what Debian calls ${missing[*]}" >&2
    exit 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    echo "peers.sh: packages are missing, run as root: ${install[*]}" >&2
    exit 1
  fi
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
  # Every package is pinned, so none is taken from the system and none is looked for.
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --ignore-installed --only-binary :all: -r "$requirements"
  echo "$stamp" >"$venv/stamp"
fi
