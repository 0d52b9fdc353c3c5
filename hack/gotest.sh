#!/usr/bin/env bash
# Runs tests and reports them: hack/gotest.sh SUITE GROUP... [-- GROUP...]... Each group is the arguments of one run of go test, such as "-race ./bmc/...". It prints
# a line for each package, the output of failed tests, the command that reruns each of them alone, and at the end "N passed, N failed, N skipped". A group that fails
# does not stop the next one. The groups after each -- run beside the others. .cache/results/SUITE has the events of all tests (go doc test2json).
set -euo pipefail

[ $# -ge 2 ] || { echo "gotest.sh: usage: gotest.sh SUITE GROUP..." >&2; exit 1; }
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
hack/build.sh gotestsum
results=.cache/results/$1
shift
rm -rf "$results"
mkdir -p "$results"
export CAPBM_TESTS=complete # a program that is missing fails the tests that need it, which are skipped otherwise
# Most of the time of the tests is that of API servers and of the linker. A tenth of it is the collection of garbage, and each look of a test at an API server
# takes some from the tests beside it.
export GOGC=${GOGC:-400} GOMEGA_DEFAULT_EVENTUALLY_POLLING_INTERVAL=${GOMEGA_DEFAULT_EVENTUALLY_POLLING_INTERVAL:-100ms}
# With GOGC=400 the heap of a suite with more than a thousand managers would fill the memory.
export GOMEMLIMIT=${GOMEMLIMIT:-4GiB}
# -ldflags=-w: without the tables of a debugger, which no test reads, a test binary takes two thirds of the linker's time. Stack traces do not need them.
# -vet=off: make verify has the same analysers, once and not for each kind of build.
# Go's cache of results does not see SEED, which is read before the tests start: CI does not accept an old result.
fresh=()
[ -z "${CI:-}" ] || fresh=(-count=1)

# run LANE GROUP... runs groups one after another.
run() {
  local lane=$1 number=0 group file
  shift
  for group in "$@"; do
    number=$((number + 1)) file=$results/$lane$number.json
    echo "$group" >"$file.args"
    # shellcheck disable=SC2086 # arguments of go test
    .cache/bin/gotestsum --format pkgname --format-icons text --format-hide-empty-pkg --hide-summary skipped --jsonfile "$file" -- -ldflags=-w -vet=off "${fresh[@]}" $group || true # testreport judges
  done
}

lane=1 groups=()
for group in "$@" --; do
  if [ "$group" = -- ]; then
    run "$lane-" "${groups[@]}" &
    lane=$((lane + 1)) groups=()
  else
    groups+=("$group")
  fi
done
wait
go run ./hack/testreport "$results"/*.json
