#!/usr/bin/env bash
# Makes what hack/agenttest needs for disks that belong to RAIDs and volume groups, in .cache/volumes:
#
#   tree    mdadm, LVM and BusyBox with their libraries, unpacked from Debian's packages and not installed
#   initrd  a Linux that makes such disks with them (hack/volumes/init), for the kernel of the agent: the kernel of this machine may have no md
#
# It needs no root, and does nothing when these are there. hack/agent.sh has fetched the modules of the kernel.
set -euo pipefail

. "$(dirname "$0")/debian.sh"
cd "$(dirname "$0")/.."

packages=(busybox-static libaio1t64 libblkid1 libbsd0 libc6 libcap2 libdevmapper-event1.02.1 libdevmapper1.02.1 libedit2 libmd0 libpcre2-8-0 libselinux1
  libsystemd0 libtinfo6 libudev1 lvm2 mdadm)
modules=(drivers/block/virtio_blk drivers/md/dm-mod drivers/md/md-mod drivers/md/raid1)
dir=.cache/volumes
kernels=(.cache/agent/amd64/linux-image-*/usr/lib/modules/*/kernel)

mkdir -p "$dir"
exec 9>"$dir.lock" # two runs at once wait for one another
flock 9
stamp=$({ cat "$0" hack/debian.sh hack/volumes/init; echo "${kernels[0]}"; } | sha256sum | cut -c1-16)
[ "$(cat "$dir/.stamp" 2>/dev/null)" != "$stamp" ] || exit 0

echo "volumes.sh: making a Linux with mdadm and LVM in $dir" >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/debs" "$work/new/tree"
debian_apt "$work" amd64 main
(cd "$work/debs" && apt-get "${apt[@]}" download "${packages[@]}")
tree=$work/new/tree
for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$tree"; done
rm -rf "$tree"/usr/share "$tree"/usr/lib/x86_64-linux-gnu/{gconv,audit}
for folder in bin lib lib64 sbin; do ln -sfn "usr/$folder" "$tree/$folder"; done
mkdir -p "$tree"/{dev,proc,sys,run,tmp,modules}
for module in "${modules[@]}"; do xz --decompress --stdout "${kernels[0]}/$module.ko.xz" >"$tree/modules/${module##*/}.ko"; done
install -m 755 hack/volumes/init "$tree/init"
(cd "$tree" && find . -print0 | LC_ALL=C sort -z | cpio --null --quiet -o -H newc -R 0:0) >"$work/new/initrd"
# The stamp goes last: a run that was broken off is made again.
find "$dir" -mindepth 1 -delete
mv "$work"/new/* "$dir/"
echo "$stamp" >"$dir/.stamp"
