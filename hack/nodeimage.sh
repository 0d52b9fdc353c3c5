#!/usr/bin/env bash
# Makes a disk image of a Kubernetes node, in .cache/nodeimage:
#
#   node-amd64.raw.zst            Debian 13 with cloud-init, containerd, runc, kubelet and kubeadm: for nodes that join
#   control-plane-amd64.raw.zst   the same with the container images of a control plane; only with CONTROL_PLANE=1
#   SHA256SUMS                    their checksums
#   FIGURES                       how large they are, and how long making them took
#
# containerd, runc, the network plugins and the kernel are Debian's packages. kubelet, kubeadm and the programs of the control plane are built from the
# Go modules that hack/kube and hack/etcd pin. No registry is needed: the image of the Pod sandbox is made of hack/nodeimage/pause.
# docs/guides/node-images.md describes the recipe. For an image of your own:
#   DRIVERS=all        the initial RAM disk has the drivers of all disk controllers, and not only those of QEMU
#   PACKAGES="a b"     further packages of Debian
#   FILES=FOLDER       a folder of files that are copied over those of the image last
#
# The root file system without Kubernetes is that of hack/osimage.sh. It does nothing when the image is there.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/.cache/nodeimage
bin=$root/.cache/bin
recipes=$root/hack/osimage
. "$root/hack/debian.sh"

drivers=${DRIVERS:-} more=${PACKAGES:-} overlay=${FILES:-}
# The size of the disk image in MiB, with some free space. At the first boot cloud-init enlarges the root partition up to the bootstrap data. The agent writes
# zeros to the free space of the image, unless the disk can discard.
size=1536
programs=(kubelet kubeadm)
name=node
if [ -n "${CONTROL_PLANE:-}" ]; then
  programs+=(kube-apiserver kube-controller-manager kube-scheduler etcd)
  name=control-plane size=2048
fi

# Two runs at once wait for one another. -o keeps the lock from what is started here.
if [ -z "${NODEIMAGE_LOCKED:-}" ]; then
  mkdir -p "$root/.cache"
  NODEIMAGE_LOCKED=1 exec flock -o "$root/.cache/nodeimage.lock" "$root/hack/nodeimage.sh"
fi

"$root/hack/build.sh" "${programs[@]}"
"$root/hack/osimage.sh"
stamp=$({
  cat "$root/.cache/osimage/stamp" "${programs[@]/#/$bin/}" # the programs themselves: a stamp of a program is only written by build.sh
  cd "$root/hack" && find nodeimage.sh nodeimage -type f -print0 | sort -z | xargs -0 sha256sum
  echo "$drivers $more $overlay"
} | sha256sum | cut -c1-16)
[ "$(cat "$out/$name.stamp" 2>/dev/null)" != "$stamp" ] || exit 0
[ "$(id -u)" -eq 0 ] || debian_fail "run as root: a root file system is to be made"

# containernetworking-plugins has the plugins that most network add-ons build upon. ebtables, ethtool and socat are what add-ons and older versions
# of Kubernetes call. systemd-resolved takes the DNS servers of DHCP and of the host's network settings.
packages=(containerd runc containernetworking-plugins conntrack iptables ebtables ethtool socat ipset procps systemd-resolved systemd-timesyncd)
# shellcheck disable=SC2206 # words
packages+=($more)

echo "nodeimage.sh: making $name-amd64.raw.zst in .cache/nodeimage (a minute or two)" >&2
began=$SECONDS
export build=$out/build tree=$out/build/tree recipes
rm -rf "$build" "$out/$name.stamp"
mkdir -p "$tree" "$build/apt"
(cd "$root" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$build/" ./hack/osimage ./hack/nodeimage/container ./hack/nodeimage/pause)
tar --zstd --numeric-owner -C "$tree" -xf "$root/.cache/osimage/base.tar.zst"

# The programs of this machine download what the image lacks, and dpkg of the image installs it.
debian_apt "$build/apt" amd64 main
cp "$tree/var/lib/dpkg/status" "$build/apt/status"
apt-get "${apt[@]}" --no-install-recommends --download-only -y install "${packages[@]}" >/dev/null
mkdir -p "$tree/tmp/debs"
mv "$build"/apt/cache/archives/*.deb "$tree/tmp/debs/"
printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d" # no daemon is started
chmod +x "$tree/usr/sbin/policy-rc.d"
# in_tree runs a program in the root file system. /proc is mounted only for it.
in_tree() {
  # shellcheck disable=SC2016 # expanded by the shell in the namespace
  DEBIAN_FRONTEND=noninteractive LC_ALL=C unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$tree" "$@"
}
if ! in_tree sh -ec 'dpkg --unpack /tmp/debs/*.deb && dpkg --configure --pending' >"$build/dpkg.log" 2>&1; then
  tail -n 30 "$build/dpkg.log" >&2
  debian_fail "installing ${packages[*]} failed"
fi
rm -r "$tree/tmp/debs" "$tree/usr/sbin/policy-rc.d"

install -m 755 "$bin/kubelet" "$bin/kubeadm" "$tree/usr/bin/"
cp -r "$root/hack/nodeimage/files/." "$tree/"
# kubeadm names the version of the sandbox image that goes with it.
pause=$("$bin/kubeadm" config images list --kubernetes-version "$("$bin/kubeadm" version -o short)" 2>/dev/null | sed -n 's|.*/pause:||p')
[ -n "$pause" ] || debian_fail "kubeadm names no version of the sandbox image"
sed -i "s/PAUSE_VERSION/$pause/" "$tree/etc/containerd/config.toml"
mkdir -p "$tree/opt/cni/bin" "$tree/etc/cni/net.d" "$tree/etc/kubernetes/manifests" "$tree/var/lib/node-images"
for plugin in "$tree"/usr/lib/cni/*; do ln -s "/usr/lib/cni/${plugin##*/}" "$tree/opt/cni/bin/"; done
in_tree systemctl --quiet enable containerd.service kubelet.service node-images.service systemd-resolved.service systemd-timesyncd.service

"$build/container" -name "node.local/pause:$pause" -out "$tree/var/lib/node-images/pause.tar" "$build/pause"
if [ $name = control-plane ]; then
  "$bin/kubeadm" config images list --image-repository node.local --kubernetes-version "$("$bin/kubeadm" version -o short)" 2>/dev/null >"$build/images"
  for program in kube-apiserver kube-controller-manager kube-scheduler etcd; do
    "$build/container" -name "$(grep "^node.local/$program:" "$build/images")" -out "$tree/var/lib/node-images/$program.tar" "$bin/$program"
  done
fi

if [ "$drivers" = all ]; then
  rm "$tree/etc/initramfs-tools/conf.d/list"
  : >"$tree/etc/initramfs-tools/modules"
  in_tree update-initramfs -u >/dev/null
fi
[ -z "$overlay" ] || cp -r "$overlay/." "$tree/"
rm -rf "$tree"/var/cache/apt/* "$tree"/var/cache/ldconfig "$tree"/var/log/*

image=$name-amd64.raw
"$recipes/disk.sh" "$out/$image" $size
data=$(($(stat -c %b "$out/$image") / 2048))
zstd --quiet --force -T0 -6 --rm "$out/$image"
rm -rf "$build"
(cd "$out" && sha256sum ./*.raw.zst | sed 's| \./| |' >SHA256SUMS)
touch "$out/FIGURES"
{
  grep -v "^$image" "$out/FIGURES" || true
  echo "$image.zst has $(($(stat -c %s "$out/$image.zst") >> 20)) MiB, $data MiB of data on the disk; made in $((SECONDS - began)) s"
} >"$out/FIGURES.new"
mv "$out/FIGURES.new" "$out/FIGURES"
# The stamp goes last: a run that was broken off is made again.
echo "$stamp" >"$out/$name.stamp"
