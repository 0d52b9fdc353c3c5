#!/usr/bin/env bash
# Makes disk images of operating systems for tests of imaging, in .cache/osimage:
#
#   debian.raw, debian.qcow2   Debian 13 with cloud-init, made like a cloud image: GPT, UEFI (also with Secure Boot) and BIOS
#   small-gpt.raw, .qcow2      busybox: GPT for sectors of 512 bytes, UEFI (also with Secure Boot) and BIOS
#   small-gpt4096.raw          busybox: GPT for sectors of 4096 bytes, UEFI
#   small-mbr.raw              busybox: MBR, BIOS
#   small-noesp.raw            busybox: GPT without an EFI system partition, BIOS
#   ca.crt, ca.key             the CA that debian.raw trusts: boot servers of tests have certificates of it
#   base.tar.zst               the root file system of Debian, to which hack/nodeimage.sh adds Kubernetes
#   SHA256SUMS                 the checksums of the images
#   SECONDS                    how long making them took
#
# It mounts no image and needs no loop device: file systems are made from folders. It does nothing when the images are there.
# The recipes are in hack/osimage. docs/guides/os-images.md describes them.
set -euo pipefail

fail() {
  echo "osimage.sh: $*" >&2
  exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/.cache/osimage
recipes=$root/hack/osimage

# Two runs at once wait for one another. -o keeps the lock from what is started here.
if [ -z "${OSIMAGE_LOCKED:-}" ]; then
  mkdir -p "$root/.cache"
  OSIMAGE_LOCKED=1 exec flock -o "$root/.cache/osimage.lock" "$root/hack/osimage.sh"
fi

stamp=$(cd "$root/hack" && find osimage.sh osimage -type f ! -name '*_test.go' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)
[ "$(cat "$out/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
[ "$(id -u)" -eq 0 ] || fail "run as root: a root file system is to be made"
system=$(. /etc/os-release 2>/dev/null && echo "${ID:-}") || true
[ "$system" = debian ] || fail "the images are made with Debian's tools: use a container of debian"

packages=(mmdebstrap mtools dosfstools e2fsprogs qemu-utils cpio kmod zstd xz-utils gdisk)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  export DEBIAN_FRONTEND=noninteractive
  # The package system has one lock for the machine, which another checkout's run may hold.
  apt=(apt-get -qq -o DPkg::Lock::Timeout=300)
  echo "osimage.sh: installing ${missing[*]}" >&2
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null
fi

echo "osimage.sh: making operating system images in .cache/osimage (a few minutes)" >&2
began=$SECONDS
rm -rf "$out"
mkdir -p "$out/build"
export build=$out/build tree=$out/build/tree recipes out
(cd "$root" && CGO_ENABLED=0 go build -o "$build/osimage" ./hack/osimage)
"$recipes/debian.sh"
"$recipes/small.sh"
rm -rf "$build"
(cd "$out" && sha256sum ./*.raw ./*.qcow2 | sed 's| \./| |' >SHA256SUMS)
echo "$((SECONDS - began))" >"$out/SECONDS"
# The stamp goes last: a run that was broken off is made again.
echo "$stamp" >"$out/stamp"
