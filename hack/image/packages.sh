#!/usr/bin/env bash
# Makes a folder with what the image takes from Debian, apart from the boot loaders: hack/image/packages.sh ARCH DIR. It needs no root,
# and does nothing when the folder is there and whole. In it are
#
#   PACKAGE/      an unpacked package: ipmitool with all that it depends on, the CA certificates, base-files
#   PACKAGE.control  its description, with the version
#   PACKAGES      the list: package, version, checksum of the file that the archive gave
set -euo pipefail

fail() {
  echo "packages.sh: $*" >&2
  exit 1
}

[ $# -eq 2 ] || fail "usage: packages.sh ARCH DIR"
arch=$1
case $arch in amd64 | arm64) ;; *) fail "ARCH is amd64 or arm64, and not $arch" ;; esac
mkdir -p "$2"
dir=$(cd "$2" && pwd)

# Two runs at once wait for one another.
exec 9>"$dir.lock"
flock 9

packages=(base-files ca-certificates ipmitool)

. "$(dirname "$0")/../debian.sh"
stamp=$({ echo "$arch"; cat "$0" "$(dirname "$0")/../debian.sh"; } | sha256sum | cut -c1-16)
[ "$(cat "$dir/.stamp" 2>/dev/null)" != "$stamp" ] || exit 0

# The packages are unpacked and not installed.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/new"
echo "packages.sh: unpacking Debian's packages for $arch into $dir" >&2
debian_apt "$work" "$arch" main
apt-get "${apt[@]}" install --yes --no-install-recommends --download-only "${packages[@]}" >/dev/null
for deb in "$work"/cache/archives/*.deb; do debian_unpack "$deb" "$work/new"; done
# The stamp goes last: a run that was broken off is made again.
find "$dir" -mindepth 1 -delete
mv "$work"/new/* "$dir/"
echo "$stamp" >"$dir/.stamp"
