# What .ci/run and .ci/nightly need before anything else. They source it. shellcheck shell=bash
need=()
for tool in git gcc make; do
  command -v "$tool" >/dev/null || need+=("$tool")
done
[ -e /usr/include/stdlib.h ] || need+=(libc6-dev) # the race detector needs a C compiler with its headers
[ -e /etc/ssl/certs/ca-certificates.crt ] || need+=(ca-certificates)
if [ ${#need[@]} -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${need[@]}"
fi
command -v go >/dev/null || { echo "$0: Go is missing: install the version that go.mod names, or a later one" >&2; exit 1; }
export GOFLAGS="${GOFLAGS:--buildvcs=false}"
export LAB_DOWNLOAD=never # what is tested is what is built here, from the modules that this repository pins
