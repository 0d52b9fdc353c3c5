#!/usr/bin/env bash
# Installs what hack/e2e boots: QEMU with the firmware of PCs, iPXE, what an initramfs is made of (Debian packages), boot loaders in
# .cache/loaders, and a kernel in .cache/firmware. It does nothing when all of that is there.
set -euo pipefail

fail() {
  echo "firmware.sh: $*" >&2
  exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
kernel=$root/.cache/firmware

# Two runs at once wait for one another. -o keeps the lock from what is started here.
if [ -z "${FIRMWARE_LOCKED:-}" ]; then
  mkdir -p "$root/.cache"
  FIRMWARE_LOCKED=1 exec flock -o "$root/.cache/firmware.lock" "$root/hack/firmware.sh"
fi

# Other systems cut these into other packages, and put the firmware elsewhere.
system=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-} $(uname -m)") || true
[ "$system" = "debian 12 x86_64" ] || fail "the firmware is Debian 12's on x86_64, and this is ${system:-another system}: use a container of debian:12"

packages=(qemu-system-x86 ipxe-qemu ipxe ovmf busybox-static cpio kmod iproute2)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
"$root/hack/loaders.sh" "$root/.cache/loaders"
# A kernel that was unpacked whole has the stamp.
stamp=$(sha256sum "$0" | cut -c1-16)
stale=
[ "$(cat "$kernel/stamp" 2>/dev/null)" = "$stamp" ] || stale=kernel
[ ${#missing[@]} -gt 0 ] || [ -n "$stale" ] || exit 0

[ "$(id -u)" -eq 0 ] || fail "run as root: these are missing: ${missing[*]} $stale"
export DEBIAN_FRONTEND=noninteractive
# The package system has one lock for the machine, which another checkout's run may hold.
apt=(apt-get -qq -o DPkg::Lock::Timeout=300)
"${apt[@]}" update
if [ ${#missing[@]} -gt 0 ]; then
  echo "firmware.sh: installing ${missing[*]}" >&2
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null
fi
if [ -n "$stale" ]; then
  echo "firmware.sh: unpacking a kernel into .cache/firmware" >&2
  # The package without a version is empty and depends on the one with the kernel. Unpacked, not installed: this machine keeps
  # its own kernel, and no hook runs.
  package=$(apt-cache depends --important linux-image-cloud-amd64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-/ {print $2; exit}')
  [ -n "$package" ] || fail "linux-image-cloud-amd64 depends on no kernel"
  rm -rf "$kernel"
  mkdir -p "$kernel"
  (cd "$kernel" && "${apt[@]}" -o APT::Sandbox::User=root download "$package" && dpkg -x "$package"_*.deb . && rm "$package"_*.deb)
  version=${package#linux-image-}
  /sbin/depmod -b "$kernel" "$version"
  ln -s "boot/vmlinuz-$version" "$kernel/vmlinuz"
  echo "$version" >"$kernel/version"
  echo "$stamp" >"$kernel/stamp"
fi
