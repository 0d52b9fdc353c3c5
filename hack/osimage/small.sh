#!/usr/bin/env bash
# Makes the small images: Debian's kernel and an initial RAM disk with busybox. hack/osimage.sh runs it with the folders $out, $build, $tree
# and $recipes, after debian.sh: what the images are made of is from its $tree.
set -euo pipefail

version=$(basename "$tree"/lib/modules/*)
ram=$build/initramfs
mkdir -p "$ram"/{bin,dev,proc,sys,data,modules}
cp "$tree/bin/busybox" "$ram/bin/"
cp "$recipes/small/init" "$recipes/small/lease" "$ram/"

# The drivers of all disks and network cards of the tests, and what reads the file system of the bootstrap data. They are unpacked, since an
# emulated processor needs long for xz, and keep their signatures, which Secure Boot demands.
for driver in virtio_pci virtio_blk virtio_scsi sd_mod ahci nvme virtio_net e1000 e1000e vfat nls_cp437 nls_ascii nls_utf8; do
  /sbin/modprobe -d "$tree" -S "$version" --show-depends "$driver"
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' >"$build/modules"
while read -r module; do
  name=$(basename "$module" .xz)
  xz -dc "$module" >"$ram/modules/$name"
  echo "$name" >>"$ram/modules/order"
done <"$build/modules"

boot=$build/boot
mkdir -p "$boot"
cp -L "$tree/vmlinuz" "$boot/vmlinuz"
(cd "$ram" && find . -print0 | sort -z | cpio --null --quiet -o -H newc -R 0:0) | zstd --quiet -T0 -10 >"$boot/initrd"

# $root is the partition of GRUB's prefix: the EFI system partition, or the file system with all. panic=1 ends QEMU, which was started
# with -no-reboot. no_timer_check: see debian.sh.
cat >"$build/small.cfg" <<'END'
set timeout=0
linux /vmlinuz console=ttyS0,115200n8 no_timer_check panic=1
initrd /initrd
boot
END
for sector in 512 4096; do
  "$recipes/esp.sh" "$build/esp$sector.img" 40 "$sector" "$build/small.cfg" "$boot/vmlinuz" "$boot/initrd"
done
mkdir -p "$boot/boot/grub"
cp "$build/small.cfg" "$boot/boot/grub/grub.cfg"
truncate -s 40M "$build/small.img"
mkfs.ext4 -q -F -L small -U 5d1c7f0e-6c4f-4d0b-8a51-2f6b1c9e7a02 -O ^has_journal,^metadata_csum_seed,^orphan_file -d "$boot" "$build/small.img"

grub=$tree/usr/lib/grub/i386-pc/boot.img
"$recipes/core.sh" "$build/core.img" '(,gpt1)/EFI/debian'
"$build/osimage" -out "$out/small-gpt.raw" -size 48 -boot "$grub" -core "$build/core.img" 2:bios: 1:esp:"$build/esp512.img"
"$build/osimage" -out "$out/small-gpt4096.raw" -size 48 -sector 4096 1:esp:"$build/esp4096.img"
"$recipes/core.sh" "$build/core.img" '(,gpt1)/boot/grub'
"$build/osimage" -out "$out/small-noesp.raw" -size 48 -boot "$grub" -core "$build/core.img" 2:bios: 1:linux:"$build/small.img"
"$recipes/core.sh" "$build/core.img" '(,msdos1)/boot/grub'
"$build/osimage" -out "$out/small-mbr.raw" -size 48 -mbr -boot "$grub" -core "$build/core.img" 1:linux:"$build/small.img"
qemu-img convert -c -O qcow2 "$out/small-gpt.raw" "$out/small-gpt.qcow2"
