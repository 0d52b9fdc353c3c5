#!/usr/bin/env bash
# Makes an EFI system partition: esp.sh FILE MIB SECTOR CONFIG [FILE...]. Debian's signed shim and GRUB are at the fallback path, so that
# firmware without a boot entry finds them (UEFI specification, 3.5.1.1), also with Secure Boot. CONFIG is GRUB's configuration, and the
# files go to the root folder. hack/osimage.sh sets $tree and $build.
set -euo pipefail

image=$1 size=$2 sector=$3 config=$4
shift 4
folder=$build/esp
rm -rf "$folder" "$image"
mkdir -p "$folder/EFI/BOOT" "$folder/EFI/debian"
cp "$tree/usr/lib/shim/shimx64.efi.signed" "$folder/EFI/BOOT/BOOTX64.EFI"
cp "$tree/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed" "$folder/EFI/BOOT/grubx64.efi"
cp "$config" "$folder/EFI/debian/grub.cfg"
for file in "$@"; do cp "$file" "$folder"; done
truncate -s "${size}M" "$image"
# The number of clusters, here of one sector, decides the type: FAT32 has at least 65525.
fat=16
[ $((size * 1048576 / sector)) -lt 67000 ] || fat=32
mkfs.vfat --invariant -F $fat -S "$sector" -s 1 -n ESP "$image" >/dev/null
mcopy -s -i "$image" "$folder"/* ::
