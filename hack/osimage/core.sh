#!/usr/bin/env bash
# Makes GRUB's core image for a BIOS: core.sh FILE PREFIX. PREFIX is where its grub.cfg is; GRUB completes "(,gpt1)" with the disk that
# it was booted from. All modules that the configurations need are in it. hack/osimage.sh sets $tree.
set -euo pipefail

# Debian 13's own program, which belongs to its modules.
chroot "$tree" grub-mkimage -O i386-pc -o /tmp/core.img -p "$2" biosdisk part_gpt part_msdos ext2 fat normal configfile search search_fs_uuid linux echo test boot
mv "$tree/tmp/core.img" "$1"
