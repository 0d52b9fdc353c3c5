#!/usr/bin/env bash
# Builds kernel and ramdisk of the agent: hack/agent.sh VERSION ARCH... writes out/agent/ARCH, where ARCH is amd64 or arm64. In it are
#
#   kernel     Debian's kernel, with Debian's signature; for arm64 kernel.gz, compressed by us, and kernel.squashfs with the same kernel for boot media
#   ramdisk    kernel modules with Debian's signatures and firmware of network cards, and the agent as /init; two archives of cpio in zstd
#   packages   what it was made of: package, version, checksum of the file that the archive gave
#   modules    the modules and the firmware, with their sizes
#   licenses/  the terms of the kernel and of the firmware
#   SHA256SUMS the checksums of all of these
#
# All but the agent is in .cache/agent/base-ARCH, and stays until a package, the list of modules or the program that writes it changes: zstd takes 20 s for it.
# A folder out/agent/ARCH that is complete and was made of the same base and agent stays as it is.
#
# It needs neither root nor a container engine, but Debian's apt-get, and no other program of the machine: xz and zstd are Debian's, too, since another
# version of zstd gives other bytes. The same commit with the same packages in .cache/agent gives the same bytes.
set -euo pipefail

. "$(dirname "$0")/debian.sh"

[ $# -ge 2 ] || debian_fail "usage: agent.sh VERSION amd64|arm64..."
version=$1
shift
cd "$(dirname "$0")/.."

# The largest size of kernel and ramdisk together, in bytes.
limit=40000000

# The packages with firmware of the cards that hack/agent/modules.txt has drivers of.
firmware=(firmware-bnx2 firmware-bnx2x firmware-cavium firmware-intel-misc firmware-linux-free firmware-misc-nonfree firmware-myricom
  firmware-netxen firmware-qlogic firmware-realtek)

# unpack NAME ARCH COMPONENTS PACKAGES makes the folder .cache/agent/NAME of unpacked packages. kernel among PACKAGES is the kernel of ARCH.
unpack() {
  local dir=.cache/agent/$1 arch=$2 components=$3 packages=$4 work stamp deb
  mkdir -p "$dir"
  exec 9>"$dir.lock" # two runs at once wait for one another
  flock 9
  stamp=$({ echo "$arch $components $packages"; cat hack/debian.sh; } | sha256sum | cut -c1-16)
  [ "$(cat "$dir/.stamp" 2>/dev/null)" != "$stamp" ] || return 0
  work=$(mktemp -d)
  # shellcheck disable=SC2064 # the folder of this call
  trap "rm -rf '$work'" EXIT
  mkdir "$work/new" "$work/debs"
  echo "agent.sh: unpacking Debian's packages for $arch into $dir" >&2
  # shellcheck disable=SC2086 # words
  debian_apt "$work" "$arch" $components
  if [[ " $packages " == *" kernel "* ]]; then
    # The package without a version is empty and depends on the one with the signed kernel.
    local kernel
    kernel=$(apt-cache "${apt[@]}" depends --important "linux-image-$arch" | awk '$1 == "Depends:" && $2 ~ /^linux-image-/ {print $2; exit}')
    [ -n "$kernel" ] || debian_fail "linux-image-$arch depends on no kernel"
    packages=${packages/kernel/$kernel}
  fi
  # shellcheck disable=SC2086 # words
  (cd "$work/debs" && apt-get "${apt[@]}" download $packages)
  for deb in "$work"/debs/*.deb; do debian_unpack "$deb" "$work/new"; done
  # The stamp goes last: a run that was broken off is made again.
  find "$dir" -mindepth 1 -delete
  cp -a "$work"/new/. "$dir/"
  rm -rf "$work"
  echo "$stamp" >"$dir/.stamp"
}

# program NAME prints the command line that runs a program of the folder tools with its own C library: the machine's may be older.
program() {
  local loaders=("$PWD"/.cache/agent/tools/libc6/usr/lib*/ld-linux-*.so.* "$PWD"/.cache/agent/tools/libc6/usr/lib/*/ld-linux-*.so.*) loader folders=() found
  for loader in "${loaders[@]}"; do [ ! -e "$loader" ] || break; done
  for found in "$PWD"/.cache/agent/tools/*/usr/lib/*-linux-gnu; do folders+=("$found"); done
  for found in "$PWD"/.cache/agent/tools/*/usr/bin/"$1"; do
    [ -e "$found" ] && echo "$loader --library-path $(IFS=:; echo "${folders[*]}") $found" && return
  done
  debian_fail "the packages have no program $1: remove .cache/agent/tools"
}

revision=${SOURCE_REVISION:-$(git rev-parse HEAD 2>/dev/null)} || debian_fail "this is no checkout: set SOURCE_REVISION to the commit"

# replace FOLDER NEW puts a complete folder into the place of an older one, which somebody may be reading.
replace() {
  local old=${2%/*}/old
  [ ! -e "$1" ] || mv "$1" "$old"
  mv "$2" "$1"
}

# base ARCH writes .cache/agent/base-ARCH: all but the agent.
base() {
  local input=.cache/agent/$1 output=.cache/agent/base-$1 stamp
  stamp=$({ sha256sum <.cache/agent/bin/ramdisk; cat hack/agent/modules.txt "$input/PACKAGES" .cache/agent/tools/PACKAGES; } | sha256sum | cut -c1-16)
  [ "$(cat "$output/.stamp" 2>/dev/null)" != "$stamp" ] || return 0
  echo "agent.sh: compressing kernel modules and firmware for $1 (20 s)" >&2
  local kernels=("$input"/linux-image-*/)
  .cache/agent/bin/ramdisk base --kernel "${kernels[0]%/}" --packages "$input" --modules hack/agent/modules.txt --output "$work/base/new" \
    --xz "$(program xz)" --zstd "$(program zstd)" --mksquashfs "$(program mksquashfs)"
  LC_ALL=C sort "$input/PACKAGES" >"$work/base/new/packages"
  echo "$stamp" >"$work/base/new/.stamp"
  replace "$output" "$work/base/new"
}

# build ARCH writes out/agent/ARCH.
build() (
  arch=$1 output=out/agent/$1
  exec 8>".cache/agent/$arch.output.lock" # two runs at once wait for one another
  flock 8
  mkdir -p out/agent
  work=$(mktemp -d "out/agent/.$arch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/base"
  base "$arch"
  hack/programs.sh "$version" "$revision" "linux/$arch" ".cache/agent/program-$arch" agent
  stamp=$({ echo "$limit"; cat ".cache/agent/base-$arch/.stamp"; sha256sum <".cache/agent/program-$arch/agent"; } | sha256sum | cut -c1-16)
  if [ "$(cat "$output/.stamp" 2>/dev/null)" = "$stamp" ] && (cd "$output" && sha256sum --check --status SHA256SUMS); then
    exit 0
  fi
  printf '%s: ' "$output"
  .cache/agent/bin/ramdisk ramdisk --base ".cache/agent/base-$arch" --program ".cache/agent/program-$arch/agent" --output "$work/new" --limit "$limit" \
    --zstd "$(program zstd)"
  rm "$work/new/.stamp"
  (cd "$work/new" && find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum >../SHA256SUMS)
  mv "$work/SHA256SUMS" "$work/new/"
  echo "$stamp" >"$work/new/.stamp"
  replace "$output" "$work/new"
)

case $PWD in *[[:space:]]*) debian_fail "the path of this folder has a blank: $PWD" ;; esac
for arch in "$@"; do
  case $arch in amd64 | arm64) ;; *) debian_fail "ARCH is amd64 or arm64, and not $arch" ;; esac
done
unpack tools "$(dpkg --print-architecture)" main "libc6 libgcc-s1 liblz4-1 liblzma5 liblzo2-2 libstdc++6 libzstd1 squashfs-tools xz-utils zlib1g zstd"
mkdir -p .cache/agent/bin
CGO_ENABLED=0 GOFLAGS='' go build -trimpath -buildvcs=false -o .cache/agent/bin/ramdisk ./hack/agent
for arch in "$@"; do
  unpack "$arch" "$arch" "main non-free-firmware" "kernel ${firmware[*]}"
  build "$arch"
done
