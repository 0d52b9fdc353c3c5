#!/usr/bin/env bash
# Runs every fuzz test of the repository, one after the other, each for as long as the argument says. Interesting inputs are not minimized: with inputs of some KiB
# that took the whole time, and three inputs were tried in 30 seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rlE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sort | while read -r file; do
  grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | cut -d' ' -f2 | while read -r name; do
    echo "== $name ($(dirname "$file"))"
    go test -run '^$' -fuzz "^$name\$" -fuzztime "$1" -fuzzminimizetime 1x "$(dirname "$file")"
  done
done
