#!/usr/bin/env bash
# Makes the guest with the real cloud-init that hack/e2e boots: a Debian root file system as an initial RAM disk, in
# .cache/guest/initrd. The mirror is the one that apt is configured with. It does nothing when the guest is there. hack/e2e.sh installs
# what it needs, and runs it.
set -euo pipefail

fail() {
  echo "guest.sh: $*" >&2
  exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
guest=$root/.cache/guest
kernel=$root/.cache/firmware

# Two runs at once wait for one another. -o keeps the lock from what is started here.
if [ -z "${GUEST_LOCKED:-}" ]; then
  mkdir -p "$root/.cache"
  GUEST_LOCKED=1 exec flock -o "$root/.cache/guest.lock" "$root/hack/guest.sh"
fi

version=$(cat "$kernel/version" 2>/dev/null) || fail "the kernel is missing: run hack/e2e.sh"
stamp=$({ cat "$0"; echo "$version"; } | sha256sum | cut -c1-16)
[ "$(cat "$guest/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
[ "$(id -u)" -eq 0 ] || fail "run as root: a root file system is to be made"

echo "guest.sh: making a Debian with cloud-init in .cache/guest (about a minute)" >&2
rm -rf "$guest"
mkdir -p "$guest"
tree=$guest/tree

# Debian's own archives among those that apt knows.
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
  grep -E " $codename(-updates|-security)? " | sort -u >"$guest/sources.list"
[ -s "$guest/sources.list" ] || fail "apt is configured with no archive of Debian's $codename"

# What nobody reads in RAM is not unpacked.
exclude=()
for path in '/usr/share/doc/*' '/usr/share/man/*' '/usr/share/info/*' '/usr/share/locale/*' '/usr/share/i18n/*' '/usr/share/zoneinfo/*' \
  '/usr/lib/x86_64-linux-gnu/gconv/*' '/usr/share/bash-completion/*' '/usr/share/lintian/*' '/usr/lib/udev/hwdb.d/*' '/usr/share/pixmaps/*'; do
  exclude+=(--dpkgopt="path-exclude=$path")
done
mmdebstrap --mode=root --variant=minbase --format=directory --quiet "${exclude[@]}" --aptopt='APT::Install-Recommends "false"' \
  --include=systemd-sysv,udev,dbus,kmod,iproute2,cloud-init,curl,ca-certificates "$codename" "$tree" "$guest/sources.list"

# The drivers of virtio's network card, which udev loads.
modules=$tree/lib/modules/$version
for driver in virtio_pci virtio_net; do
  /sbin/modprobe -d "$kernel" -S "$version" --show-depends "$driver"
done | awk '$1 == "insmod" {print $2}' | while read -r module; do install -D -m 644 -t "$modules/kernel" "$module"; done
cp "$kernel/lib/modules/$version"/modules.{builtin,builtin.modinfo,order} "$modules"
/sbin/depmod -b "$tree" "$version"

# systemd-networkd is what cloud-init renders its network configuration for.
chroot "$tree" systemctl --quiet enable systemd-networkd.service
# The seed that the boot server names is the only source of data: the others cost seconds of looking in vain.
echo 'datasource_list: [NoCloud, None]' >"$tree/etc/cloud/cloud.cfg.d/99_datasource.cfg"
# What keeps an emulated processor busy and does nothing for a machine that runs for a minute.
chroot "$tree" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
  fstrim.timer systemd-timesyncd.service systemd-update-utmp.service systemd-pstore.service getty.target serial-getty@ttyS0.service
# It does not know itself: the names come from the seed.
rm -f "$tree/etc/hostname" "$tree/etc/machine-id"
touch "$tree/etc/machine-id"
rm -rf "$tree"/var/cache/* "$tree"/var/lib/apt/lists/* "$tree"/var/log/*
ln -sf sbin/init "$tree/init"

(cd "$tree" && find . -print0 | sort -z | cpio --null --quiet -o -H newc -R 0:0) | zstd --quiet -T0 -10 >"$guest/initrd"
rm -rf "$tree" "$guest/sources.list"
echo "$stamp" >"$guest/stamp"
