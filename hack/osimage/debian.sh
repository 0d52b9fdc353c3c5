#!/usr/bin/env bash
# Makes debian.raw, debian.qcow2 and base.tar.zst. hack/osimage.sh runs it with the folders $out, $build, $tree and $recipes. The root file
# system stays in $tree, from which small.sh takes kernel and boot loaders. base.tar.zst has the same root file system: hack/nodeimage.sh
# adds Kubernetes to it.
set -euo pipefail

fail() {
  echo "debian.sh: $*" >&2
  exit 1
}

# Debian 13: since version 24.3 all stages of cloud-init run in one process of Python, which starts once and not four times. That is
# most of what a boot costs an emulated processor.
release=trixie
# An image has the same identifiers in every build.
uuid=7a3f1c52-0d5e-4c0a-9a66-1b0c5d5f3e01

# The mirrors that this machine uses, whatever its own release is.
sources=$(sed '/^#/d' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null) || true
mirror=$(grep -oE 'https?://[^ ]*/debian/?( |$)' <<<"$sources" | head -n 1 | tr -d ' ') || true
security=$(grep -oE 'https?://[^ ]*/debian-security/?( |$)' <<<"$sources" | head -n 1 | tr -d ' ') || true
[ -n "$mirror" ] || fail "this machine's package sources name no mirror of Debian"
[ -n "$security" ] || fail "this machine's package sources name no mirror of debian-security, which has the newest versions"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keyring" ] || fail "$keyring is missing: install debian-archive-keyring"
{
  echo "deb [signed-by=$keyring] $mirror $release main"
  echo "deb [signed-by=$keyring] $security $release-security main"
} >"$build/sources.list"

# linux-image-amd64 and not linux-image-cloud-amd64, which has neither the driver of AHCI nor those of servers' network cards.
# cloud-guest-utils (growpart) and fdisk enlarge the root partition. The boot loaders are copied, and not installed by their own programs,
# which need the disk.
packages=systemd-sysv,udev,dbus,kmod,iproute2,netbase,linux-image-amd64,initramfs-tools,zstd,busybox-static,cloud-init,cloud-guest-utils,fdisk,e2fsprogs,dosfstools
packages+=,curl,ca-certificates,grub-common,grub-pc-bin,grub-efi-amd64-signed,shim-signed

# What nobody reads in a test is not unpacked.
exclude=()
for path in '/usr/share/doc/*' '/usr/share/man/*' '/usr/share/info/*' '/usr/share/locale/*' '/usr/share/i18n/*' '/usr/share/bash-completion/*' \
  '/usr/share/lintian/*' '/usr/share/pixmaps/*' '/usr/lib/udev/hwdb.d/*'; do
  exclude+=(--dpkgopt="path-exclude=$path")
done
exclude+=(--dpkgopt='path-include=/usr/share/doc/*/copyright')
# The initial RAM disk has the drivers of the disks of the tests, and no others: GRUB reads it with the firmware's driver, and an emulated
# processor unpacks it. These files must exist before the kernel's package makes it.
initramfs='mkdir -p "$1/etc/initramfs-tools/conf.d" && echo MODULES=list >"$1/etc/initramfs-tools/conf.d/list" &&
  printf "%s\n" virtio_pci virtio_blk virtio_scsi sd_mod ahci nvme ext4 >"$1/etc/initramfs-tools/modules"'
# cloud-init renders its network configuration for systemd-networkd. Masked is what keeps an emulated processor busy and does nothing for a
# machine that runs for some minutes.
units='chroot "$1" systemctl --quiet enable systemd-networkd.service && chroot "$1" systemctl --quiet mask apt-daily.timer
  apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer grub-common.service
  systemd-pstore.service systemd-update-utmp.service'
mmdebstrap --mode=root --variant=minbase --format=directory --quiet --architectures=amd64 "${exclude[@]}" \
  --aptopt='APT::Install-Recommends "false"' --essential-hook="$initramfs" --customize-hook="${units//$'\n'/}" --include="$packages" \
  "$release" "$tree" "$build/sources.list"

cat >"$tree/etc/fstab" <<END
UUID=$uuid / ext4 defaults,errors=remount-ro 0 1
END
# It does not know itself: the names come from the bootstrap data.
rm -f "$tree/etc/hostname" "$tree/var/lib/dbus/machine-id" "$tree/etc/resolv.conf"
: >"$tree/etc/machine-id" # empty: the identifier is new at the first boot (machine-id(5))
rm -rf "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/* "$tree"/var/log/* "$tree"/etc/apt/sources.list

# Debian's links to the current kernel make this right after an upgrade, too. ttyS0 is last: it is the console of systemd and cloud-init.
# no_timer_check: the kernel counts ticks of the timer against the clock, and panics where QEMU did not run for some milliseconds.
mkdir -p "$tree/boot/grub"
cat >"$tree/boot/grub/grub.cfg" <<END
set timeout=0
search --no-floppy --fs-uuid --set=root $uuid
linux /vmlinuz root=UUID=$uuid ro console=tty0 console=ttyS0,115200n8 no_timer_check
initrd /initrd.img
boot
END
[ -e "$tree/vmlinuz" ] && [ -e "$tree/initrd.img" ] || fail "the kernel's package made no /vmlinuz or /initrd.img"

# --numeric-owner: the names of users are those of the image.
tar --zstd --numeric-owner --sort=name -C "$tree" -cf "$out/base.tar.zst" .
# The system reports to the boot servers of tests over HTTPS. The image has their CA, as an operator's image has his: cloud-init reads the certificates when its
# process starts (requests 2.32.3), and ca_certs of the bootstrap data comes later.
chroot "$tree" openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=tests' -addext keyUsage=critical,keyCertSign \
  -keyout /ca.key -out /usr/local/share/ca-certificates/tests.crt 2>"$build/openssl.log" || fail "no CA was made: $(cat "$build/openssl.log")"
mv "$tree/ca.key" "$out/ca.key"
cp "$tree/usr/local/share/ca-certificates/tests.crt" "$out/ca.crt"
chroot "$tree" update-ca-certificates >/dev/null
"$recipes/disk.sh" "$out/debian.raw" 3072
qemu-img convert -c -O qcow2 "$out/debian.raw" "$out/debian.qcow2"
