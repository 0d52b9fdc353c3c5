#!/usr/bin/env bash
# Builds programs for a platform, as releases have them: hack/programs.sh VERSION COMMIT OS/ARCH FOLDER NAME..., where NAME is a folder of cmd.
# They are linked statically, and nothing of this machine gets into them: no path, no C library, no state of the checkout.
set -euo pipefail

[ $# -ge 5 ] || { echo "programs.sh: usage: programs.sh VERSION COMMIT OS/ARCH FOLDER NAME..." >&2; exit 1; }
version=$1 commit=$2 platform=$3 folder=$4
shift 4
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/.."
echo "programs.sh: building $* for $platform (minutes the first time)" >&2
package=github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/version
CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} GOFLAGS='' go build -trimpath -buildvcs=false \
  -ldflags "-s -w -X $package.version=$version -X $package.commit=$commit" -o "$folder/" "${@/#/./cmd/}"
