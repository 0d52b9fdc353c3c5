#!/usr/bin/env bash
# Builds the image of the manager as an OCI archive, OUTPUT, and its software bill of materials beside it: hack/image.sh NAME:TAG ARCH OUTPUT. It needs neither a container engine nor root, but
# Debian's apt-get. The same commit with the same packages in .cache/image gives the same bytes, wherever it is built.
set -euo pipefail

fail() {
  echo "image.sh: $*" >&2
  exit 1
}

[ $# -eq 3 ] || fail "usage: image.sh NAME:TAG amd64|arm64 OUTPUT"
name=$1 arch=$2
mkdir -p "$(dirname "$3")"
output=$(cd "$(dirname "$3")" && pwd)/$(basename "$3")
case ${name##*/} in *:?*) ;; *) fail "the image's name has no tag: write NAME:TAG" ;; esac
cd "$(dirname "$0")/.."

# The date of everything in the image is that of the commit, as SOURCE_DATE_EPOCH wants it (reproducible-builds.org).
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)} || fail "this is no checkout: set SOURCE_DATE_EPOCH and SOURCE_REVISION"
revision=${SOURCE_REVISION:-$(git rev-parse HEAD 2>/dev/null)} || fail "this is no checkout: set SOURCE_REVISION to the commit"

mkdir -p .cache/image
hack/image/packages.sh "$arch" ".cache/image/$arch"
hack/loaders.sh .cache/loaders

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Nothing of this machine gets into the program: no path, no C library, no state of the checkout.
CGO_ENABLED=0 GOOS=linux GOARCH=$arch GOFLAGS='' go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$work/manager" ./cmd/manager
(cd hack/image && GOFLAGS='' go build -buildvcs=false -o "$work/image" .)
digest=$("$work/image" --manager "$work/manager" --packages ".cache/image/$arch" --loaders .cache/loaders --license LICENSE --arch "$arch" \
  --name "$name" --version "${name##*:}" --revision "$revision" --epoch "$epoch" --output "$output" --sbom "${output%.tar}.cdx.json")
echo "$digest $output"
