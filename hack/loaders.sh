#!/usr/bin/env bash
# Makes a folder with boot loaders and the list of their checksums, from Debian's packages: hack/loaders.sh DIR. It needs no root, and
# does nothing when the folder is there and whole.
set -euo pipefail

fail() {
  echo "loaders.sh: $*" >&2
  exit 1
}

[ $# -eq 1 ] || fail "usage: loaders.sh DIR"
mkdir -p "$1"
dir=$(cd "$1" && pwd)

# Debian 13's, also on Debian 12: the signed GRUB of Debian 12 lacks the module for HTTP, and with Secure Boot none can be added.
release=trixie
# What is served under which name, and where it is: package, name, file.
loaders=(
  ipxe undionly.kpxe usr/lib/ipxe/undionly.kpxe
  ipxe snponly.efi usr/lib/ipxe/snponly.efi
  shim-signed shimx64.efi usr/lib/shim/shimx64.efi.signed
  grub-efi-amd64-signed grubx64.efi usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed
)

# A folder that was made by this script has its checksum, and is whole when the list says so.
stamp=$(sha256sum "$0" | cut -c1-16)
if [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$stamp" ] && (cd "$dir" && sha256sum --check --status SHA256SUMS); then
  exit 0
fi

for program in apt-get dpkg-deb; do
  command -v "$program" >/dev/null || fail "$program is missing: run this on Debian, or in a container of it"
done
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keyring" ] || fail "$keyring is missing: install debian-archive-keyring"
# The mirror that this machine uses, whatever its own release is.
mirror=$(sed '/^#/d' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -oE 'https?://[^ ]*/debian/?( |$)' | head -n 1 | tr -d ' ') || true
[ -n "$mirror" ] || fail "this machine's package sources name no mirror of Debian"

# The packages are unpacked and not installed, with lists of their own: the machine stays as it is.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/new"
echo "deb [signed-by=$keyring] $mirror $release main" >"$work/sources.list"
apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$work/lists"
  -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=$(id -un)" -o APT::Architecture=amd64 -o APT::Architectures=amd64 -o Acquire::Languages=none -o Acquire::Retries=3)
echo "loaders.sh: unpacking Debian's boot loaders into $dir" >&2
"${apt[@]}" update
for ((i = 0; i < ${#loaders[@]}; i += 3)); do
  package=${loaders[i]} name=${loaders[i + 1]} file=${loaders[i + 2]}
  if [ ! -d "$work/$package" ]; then
    (cd "$work" && "${apt[@]}" download "$package")
    dpkg-deb -x "$work/$package"_*.deb "$work/$package"
    # The licenses require their text and the location of the source.
    source=$(dpkg-deb -f "$work/$package"_*.deb Source)
    {
      echo "Boot loaders of Debian's package $package $(dpkg-deb -f "$work/$package"_*.deb Version). Its source is Debian's source package ${source:-$package}."
      echo
      cat "$work/$package/usr/share/doc/$package/copyright"
    } >"$work/new/copyright-$package"
  fi
  [ -e "$work/$package/$file" ] || fail "$package has no $file"
  cp "$work/$package/$file" "$work/new/$name"
  {
    echo "# $package $(dpkg-deb -f "$work/$package"_*.deb Version)"
    (cd "$work/new" && sha256sum "$name")
  } >>"$work/new/SHA256SUMS"
done
chmod 0644 "$work"/new/*
# The stamp goes last: a run that was broken off is made again.
rm -f "$dir/.stamp"
mv -f "$work"/new/* "$dir/"
echo "$stamp" >"$dir/.stamp"
