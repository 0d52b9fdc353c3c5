#!/usr/bin/env bash
# Runs every fuzz test of the repository, one after the other, each for as long as the argument says, and lists those that failed at the end. Interesting inputs are not minimized: with inputs of some KiB
# that took the whole time, and three inputs were tried in 30 seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=()
while IFS=: read -r file match; do
  name=${match#func } folder=$(dirname "$file")
  echo "== $name ($folder)"
  go test -run '^$' -fuzz "^$name\$" -fuzztime "$1" -fuzzminimizetime 1x "$folder" </dev/null || failed+=("$name in $folder")
done < <(grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sort)
[ "${#failed[@]}" -eq 0 ] || { printf 'fuzz.sh: failed: %s\n' "${failed[@]}" >&2; exit 1; }
