#!/usr/bin/env bash
# Makes the qcow2 files of the tests from one disk, with qemu-img of the Debian package qemu-utils. disk.raw.gz is the disk as `qemu-img convert -O raw` returns
# it from each of them.
set -euo pipefail
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
disk=$folder/disk
truncate -s 5M "$disk"
seq 1 3000 | dd of="$disk" conv=notrunc status=none
seq 5000 7000 | dd of="$disk" bs=1 seek=1500000 conv=notrunc status=none
head -c 3000 /dev/zero | tr '\0' x | dd of="$disk" bs=512 seek=10234 conv=notrunc status=none
make() {
  name=$1
  shift
  qemu-img convert -f raw -O qcow2 "$@" "$disk" "$folder/$name"
  qemu-img convert -f qcow2 -O raw "$folder/$name" "$folder/again"
  cmp -n "$(stat -c %s "$disk")" "$disk" "$folder/again"
  gzip -9nc "$folder/$name" > "$name.gz"
}
make v2.qcow2 -o compat=0.10
make v3.qcow2 -o compat=1.1
make small.qcow2 -o cluster_size=512
make deflate.qcow2 -c
make zstd.qcow2 -c -o compression_type=zstd
make large.qcow2 -c -o cluster_size=2M
gzip -9nc "$folder/again" > disk.raw.gz
# Zero clusters, internal snapshots and bitmaps do not change the disk.
cp "$folder/v3.qcow2" "$folder/extras.qcow2"
qemu-img snapshot -c before "$folder/extras.qcow2"
qemu-io -f qcow2 -c 'write -z 1441792 65536' "$folder/extras.qcow2" > /dev/null
qemu-img bitmap --add "$folder/extras.qcow2" changes
qemu-img convert -f qcow2 -O raw "$folder/extras.qcow2" "$folder/extras"
gzip -9nc "$folder/extras.qcow2" > extras.qcow2.gz
gzip -9nc "$folder/extras" > extras.raw.gz
# Refused ones.
qemu-img create -q -f qcow2 -F raw -b disk "$folder/backing.qcow2" && gzip -9nc "$folder/backing.qcow2" > backing.qcow2.gz
qemu-img create -q -f qcow2 -o extended_l2=on "$folder/extended.qcow2" 5M && gzip -9nc "$folder/extended.qcow2" > extended.qcow2.gz
(cd "$folder" && qemu-img create -q -f qcow2 -o data_file=external,data_file_raw=on external.qcow2 5M) && gzip -9nc "$folder/external.qcow2" > external.qcow2.gz
qemu-img create -q -f qcow2 --object secret,id=s,data=x -o encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10 "$folder/encrypted.qcow2" 5M
head -c 65536 "$folder/encrypted.qcow2" | gzip -9nc > encrypted.qcow2.gz
