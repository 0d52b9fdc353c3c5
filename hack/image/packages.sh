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

# The release that the boot loaders are of.
release=trixie
packages=(base-files ca-certificates ipmitool)

stamp=$({ echo "$arch"; cat "$0"; } | sha256sum | cut -c1-16)
[ "$(cat "$dir/.stamp" 2>/dev/null)" != "$stamp" ] || exit 0

for program in apt-get dpkg-deb; do
  command -v "$program" >/dev/null || fail "$program is missing: run this on Debian, or in a container of it"
done
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keyring" ] || fail "$keyring is missing: install debian-archive-keyring"
# The mirrors that this machine uses, whatever its own release is.
sources=$(sed '/^#/d' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null) || true
mirror=$(grep -oE 'https?://[^ ]*/debian/?( |$)' <<<"$sources" | head -n 1 | tr -d ' ') || true
security=$(grep -oE 'https?://[^ ]*/debian-security/?( |$)' <<<"$sources" | head -n 1 | tr -d ' ') || true
[ -n "$mirror" ] || fail "this machine's package sources name no mirror of Debian"
[ -n "$security" ] || fail "this machine's package sources name no mirror of debian-security, which has the newest versions: add to /etc/apt/sources.list, for example
deb http://security.debian.org/debian-security bookworm-security main"

# The packages are unpacked and not installed, with lists of their own, and found as for a machine that has none.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/new"
: >"$work/status"
{
  echo "deb [signed-by=$keyring] $mirror $release main"
  echo "deb [signed-by=$keyring] $security $release-security main"
} >"$work/sources.list"
apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$work/lists"
  -o "Dir::State::status=$work/status" -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=$(id -un)" -o "APT::Architecture=$arch" -o "APT::Architectures=$arch"
  -o Acquire::Languages=none -o Acquire::Retries=3 -o Debug::NoLocking=true)
echo "packages.sh: unpacking Debian's packages for $arch into $dir" >&2
"${apt[@]}" update
"${apt[@]}" install --yes --no-install-recommends --download-only "${packages[@]}" >/dev/null
for deb in "$work"/cache/archives/*.deb; do
  name=$(dpkg-deb -f "$deb" Package)
  dpkg-deb -x "$deb" "$work/new/$name"
  dpkg-deb -f "$deb" >"$work/new/$name.control"
  echo "$name $(dpkg-deb -f "$deb" Version) $(sha256sum "$deb" | cut -d' ' -f1)" >>"$work/new/PACKAGES"
done
# The stamp goes last: a run that was broken off is made again.
find "$dir" -mindepth 1 -delete
mv "$work"/new/* "$dir/"
echo "$stamp" >"$dir/.stamp"
