#!/usr/bin/env bash
# Builds the image of the manager as an OCI archive, OUTPUT.tar, and a software bill of materials (SPDX) for each architecture beside it:
#
#   hack/image.sh NAME:TAG VERSION OUTPUT.tar ARCH...     ARCH is amd64 or arm64
#
# It prints the digest: of the image's manifest, or with two architectures of the index that lists both. It needs neither a container engine nor root, but
# Debian's apt-get. The same commit with the same packages in .cache/image and .cache/agent gives the same bytes, wherever it is built.
set -euo pipefail

fail() {
  echo "image.sh: $*" >&2
  exit 1
}

[ $# -ge 4 ] || fail "usage: image.sh NAME:TAG VERSION OUTPUT.tar amd64|arm64..."
name=$1 version=$2
case ${name##*/} in *@*) fail "the image's name has a digest: the digest is what is built" ;; *:?*) ;; *) fail "the image's name has no tag: write NAME:TAG" ;; esac
mkdir -p "$(dirname "$3")"
output=$(cd "$(dirname "$3")" && pwd)/$(basename "$3")
shift 3
cd "$(dirname "$0")/.."

# The date of everything in the image is that of the commit, as SOURCE_DATE_EPOCH wants it (reproducible-builds.org).
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)} || fail "this is no checkout: set SOURCE_DATE_EPOCH and SOURCE_REVISION"
revision=${SOURCE_REVISION:-$(git rev-parse HEAD 2>/dev/null)} || fail "this is no checkout: set SOURCE_REVISION to the commit"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p .cache/image
hack/loaders.sh .cache/loaders
# The agents of both architectures, whatever the architecture of the image is: they run on servers.
hack/agent.sh "$version" amd64 arm64 >&2
for arch in "$@"; do
  hack/image/packages.sh "$arch" ".cache/image/$arch"
  hack/programs.sh "$version" "$revision" "linux/$arch" "$work/$arch" manager
done
(cd hack/image && GOFLAGS='' go build -buildvcs=false -o "$work/image" .)
archs=$(IFS=,; echo "$*")
digest=$("$work/image" build --programs "$work" --packages .cache/image --loaders .cache/loaders \
  --agents out/agent --agent-programs .cache/agent --license LICENSE --arch "$archs" \
  --name "$name" --version "$version" --revision "$revision" --epoch "$epoch" --output "$output")
echo "$digest $output"
