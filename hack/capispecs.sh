#!/usr/bin/env bash
# Runs Cluster API's specs for providers on the lab: hack/capispecs.sh LABEL. LABEL is the label of a spec, "ci", "nightly", or another filter of Ginkgo, such as
# "nightly && !scale". .cache/capi-specs has the objects of the specs and, after a failure, the logs of the lab; .cache/capi-specs.xml has the time of each spec.
#   V=1                 prints all steps, and not only those of a spec that failed.
#   SPECS_OVERLAY=FILE  builds the provider with this overlay (go help build): hack/mutants sets it.
set -euo pipefail

[ $# = 1 ] || { echo "capispecs.sh: usage: capispecs.sh LABEL" >&2; exit 1; }
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root/hack/capispecs"
rm -rf "$root/.cache/capi-specs"
go test -c -o "$root/.cache/capispecs.test" .
# The lab builds the manager and the agent when it starts.
[ -z "${SPECS_OVERLAY:-}" ] || export GOFLAGS="${GOFLAGS:-} -overlay=$SPECS_OVERLAY"
exec "$root/.cache/capispecs.test" -ginkgo.no-color -ginkgo.timeout=4h -ginkgo.fail-on-empty -ginkgo.label-filter="$1" ${V:+-ginkgo.v} \
  -ginkgo.junit-report="$root/.cache/capi-specs.xml"
