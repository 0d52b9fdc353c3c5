#!/usr/bin/env bash
# Runs the tests that depend most on time TIMES times in a row, while other work keeps all processors busy: hack/stability.sh TIMES GROUP. A test that fails once is flaky.
set -euo pipefail
[ $# -eq 2 ] || { echo "stability.sh: usage: stability.sh TIMES GROUP" >&2; exit 1; }
cd "$(dirname "$0")/.."
busy=()
trap '[ ${#busy[@]} -eq 0 ] || kill "${busy[@]}"' EXIT
for _ in $(seq "$(nproc)"); do
  while kill -0 $$ 2>/dev/null; do :; done &
  busy+=($!)
done
hack/gotest.sh stability "-count=$1 $2"
