#!/usr/bin/env bash
# Installs what hack/imagecheck examines releases with: skopeo and umoci, which read images, runc, which runs containers beneath Kubernetes, and openssl
# (Debian packages; none of them starts a service), and spdx-tools, which validates SBOMs, into .cache/spdxtools. It does nothing when they are there.
set -euo pipefail

fail() {
  echo "imagecheck.sh: $*" >&2
  exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.cache/spdxtools
requirements=$root/hack/imagecheck/requirements.txt
python=/usr/bin/python3

# Two runs at once wait for one another. -o keeps the lock from what is started here.
if [ -z "${IMAGECHECK_LOCKED:-}" ]; then
  mkdir -p "$root/.cache"
  IMAGECHECK_LOCKED=1 exec flock -o "$root/.cache/spdxtools.lock" "$root/hack/imagecheck.sh"
fi

packages=(skopeo umoci runc iproute2 openssl python3-venv)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  # The package system has one lock for the machine, which another checkout's run may hold.
  install=(apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}")
  [ "$(id -u)" -eq 0 ] || fail "packages are missing, run as root: ${install[*]}"
  echo "imagecheck.sh: installing ${missing[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  "${install[@]}" -qq >/dev/null
fi

stamp=$({ cat "$0" "$requirements"; "$python" --version; echo "$venv"; } | sha256sum | cut -c1-16)
if [ "$(cat "$venv/stamp" 2>/dev/null)" != "$stamp" ]; then
  echo "imagecheck.sh: installing spdx-tools into .cache/spdxtools (about 10 s)" >&2
  rm -rf "$venv"
  "$python" -m venv "$venv"
  # Every package is pinned to a file by its hash.
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r "$requirements"
  echo "$stamp" >"$venv/stamp"
fi
