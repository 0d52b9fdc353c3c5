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
# What is served under which name, and where it is: package, name, file. gcd is the GRUB that looks for its configuration on the medium that it is on, and
# eltorito.img its counterpart for a BIOS, which is made below of the modules of its package.
loaders=(
  ipxe undionly.kpxe usr/lib/ipxe/undionly.kpxe
  ipxe snponly.efi usr/lib/ipxe/snponly.efi
  shim-signed shimx64.efi usr/lib/shim/shimx64.efi.signed
  grub-efi-amd64-signed grubx64.efi usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed
  grub-efi-amd64-signed gcdx64.efi usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed
  grub-pc-bin eltorito.img eltorito.img
  shim-signed:arm64 shimaa64.efi usr/lib/shim/shimaa64.efi.signed
  grub-efi-arm64-signed:arm64 gcdaa64.efi usr/lib/grub/arm64-efi-signed/gcdaa64.efi.signed
)
# The modules of GRUB in eltorito.img: what its configuration on a boot medium uses.
modules=(biosdisk iso9660 normal configfile echo test search search_fs_file linux boot sleep minicmd reboot)
# The program that makes it, and its libraries: the machine may have another version, or none.
tools=(grub-common libc6 liblzma5 libdevmapper1.02.1 libselinux1 libudev1 libpcre2-8-0 libcap2)

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
  -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=$(id -un)" -o APT::Architecture=amd64 -o APT::Architectures=amd64,arm64 -o Acquire::Languages=none -o Acquire::Retries=3)
echo "loaders.sh: unpacking Debian's boot loaders into $dir" >&2
"${apt[@]}" update
# unpack PACKAGE downloads a package and unpacks it into $work/PACKAGE.
unpack() {
  [ ! -d "$work/$1" ] || return 0
  mkdir -p "$work/debs/$1"
  (cd "$work/debs/$1" && "${apt[@]}" download "$1")
  dpkg-deb -x "$work/debs/$1"/*.deb "$work/$1"
}

# eltorito makes $work/grub-pc-bin/eltorito.img: GRUB's boot image for a CD, with its modules behind it.
eltorito() {
  local tool libraries
  for tool in "${tools[@]}"; do unpack "$tool"; done
  libraries=$(for tool in "${tools[@]}"; do printf '%s:' "$work/$tool/usr/lib/x86_64-linux-gnu"; done)
  "$work/libc6/usr/lib64/ld-linux-x86-64.so.2" --library-path "${libraries%:}" "$work/grub-common/usr/bin/grub-mkimage" --format=i386-pc-eltorito \
    --directory="$work/grub-pc-bin/usr/lib/grub/i386-pc" --prefix=/boot/grub --output="$work/grub-pc-bin/eltorito.img" "${modules[@]}"
}

for ((i = 0; i < ${#loaders[@]}; i += 3)); do
  package=${loaders[i]} name=${loaders[i + 1]} file=${loaders[i + 2]}
  unpack "$package"
  deb=("$work/debs/$package"/*.deb)
  [ "$name" != eltorito.img ] || eltorito
  [ -e "$work/$package/$file" ] || fail "$package has no $file"
  cp "$work/$package/$file" "$work/new/$name"
  version=$(dpkg-deb -f "${deb[0]}" Version)
  # The licenses require their text and the location of the source.
  source=$(dpkg-deb -f "${deb[0]}" Source)
  {
    echo "Boot loaders of Debian's package ${package%:*} $version. Its source is Debian's source package ${source:-${package%:*}}."
    echo
    cat "$work/$package/usr/share/doc/${package%:*}/copyright" 2>/dev/null || cat "$work/grub-common/usr/share/doc/grub-common/copyright"
  } >"$work/new/copyright-${package%:*}"
  {
    echo "# ${package%:*} $version"
    (cd "$work/new" && sha256sum "$name")
  } >>"$work/new/SHA256SUMS"
done
chmod 0644 "$work"/new/*
# The stamp goes last: a run that was broken off is made again.
rm -f "$dir/.stamp"
mv -f "$work"/new/* "$dir/"
echo "$stamp" >"$dir/.stamp"
