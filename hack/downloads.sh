#!/usr/bin/env bash
# Writes hack/downloads.sha256 for the versions that hack/build.sh pins. Usage: hack/downloads.sh --update, where the Internet is reachable (about 700 MB).
# It takes the checksum of each file from what it downloads, and compares it with the one that the project publishes. Cluster API publishes none: compare
# clusterctl's with the digest that its release page on GitHub shows. Read the difference before you commit it.
set -euo pipefail
export LC_ALL=C # the order of sort

fail() {
  echo "downloads.sh: $*" >&2
  exit 1
}

[ "$*" = --update ] || fail "usage: hack/downloads.sh --update"
[ -z "${LAB_MIRROR:-}" ] || fail "LAB_MIRROR is set: a mirror cannot vouch for its own files. Unset it"
root=$(cd "$(dirname "$0")/.." && pwd)
sums=$root/hack/downloads.sha256
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
fetch() { FETCH_MIRROR=${DOWNLOADS_TEST_SERVER:-} "$root/hack/fetch.sh" "$@"; } # the variable is for the test of this script

# published PATH prints the checksum that the project publishes, if any.
published() {
  local folder=${1%/*} file=${1##*/}
  case $1 in
    dl.k8s.io/*) fetch print "$1.sha256" | cut -d' ' -f1 ;;
    */etcd/*) fetch print "$folder/SHA256SUMS" | awk -v file="$file" '$2 == file { print $1 }' ;;
  esac
}

grep '^#' "$sums" >"$temporary/sums"
for arch in amd64 arm64; do
  "$root/hack/build.sh" --releases "$arch" >"$temporary/releases"
  while read -r path _; do
    line=$(fetch hash "$path")
    sum=$(published "$path")
    case $path:$sum in
      */cluster-api/*:) echo "not compared: $line" >&2 ;;
      *:) fail "the project publishes no checksum of $path any more" ;;
      "$path:${line%% *}") echo "compared:     $line" >&2 ;;
      *) fail "$path has the checksum ${line%% *}, and its project publishes $sum" ;;
    esac
    echo "$line" >>"$temporary/lines"
  done <"$temporary/releases"
done
sort -k2 "$temporary/lines" >>"$temporary/sums"
cat "$temporary/sums" >"$sums"
