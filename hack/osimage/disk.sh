#!/usr/bin/env bash
# Makes a disk image of the root file system in $tree, which debian.sh or hack/nodeimage.sh made: disk.sh FILE MIB. It has a GPT for sectors
# of 512 bytes, and boots by UEFI (also with Secure Boot) and by a BIOS. The scripts that run it set $tree, $build and $recipes, and have
# built $build/osimage.
set -euo pipefail

file=$1 size=$2
# The size of the EFI system partition in MiB.
esp=64
uuid=$(sed -n 's/^UUID=\([^ ]*\) .*/\1/p' "$tree/etc/fstab")

# The signed GRUB reads /EFI/debian/grub.cfg from the partition that it was loaded from. All modules that it needs are in it.
cat >"$build/esp.cfg" <<END
search --no-floppy --fs-uuid --set=root $uuid
set prefix=(\$root)/boot/grub
configfile \$prefix/grub.cfg
END
"$recipes/esp.sh" "$build/esp.img" "$esp" 512 "$build/esp.cfg"
"$recipes/core.sh" "$build/core.img" '(,gpt1)/boot/grub'

# Systemd runs updates of /etc and /var at the first boot if /usr is newer than these (systemd-update-done.service(8)).
touch "$tree/etc/.updated" "$tree/var/.updated"
# One MiB each for the table with the BIOS boot partition's beginning, that partition, and the backup table. Features that GRUB or an
# older kernel does not know are off.
truncate -s $((size - esp - 3))M "$build/root.img"
mkfs.ext4 -q -F -L root -U "$uuid" -O ^metadata_csum_seed,^orphan_file -E "lazy_itable_init=1,lazy_journal_init=1,hash_seed=$uuid" -d "$tree" "$build/root.img"
"$build/osimage" -out "$file" -size "$size" -core "$build/core.img" -boot "$tree/usr/lib/grub/i386-pc/boot.img" 14:bios: 15:esp:"$build/esp.img" 1:linux:"$build/root.img"
rm "$build/root.img"
