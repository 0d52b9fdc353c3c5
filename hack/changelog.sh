#!/usr/bin/env bash
# Prints the section of a version from CHANGELOG.md: hack/changelog.sh VERSION [FILE]. A version like v0.2.0-rc.0 that has no section of its own has the
# section Unreleased. It fails without a section, or if that is empty: a release needs notes.
set -euo pipefail

[ $# -ge 1 ] || { echo "changelog.sh: usage: changelog.sh VERSION [FILE]" >&2; exit 1; }
version=$1
file=${2:-$(dirname "$0")/../CHANGELOG.md}

section() {
  # Up to the next section, or to the links at the end; without blank lines at both ends.
  awk -v heading="[$1]" '
    /^## / || /^\[[^]]+\]: / { on = ($1 == "##" && $2 == heading); next }
    on && NF { printf "%s%s\n", blank, $0; blank = ""; printed = 1 }
    on && !NF && printed { blank = blank "\n" }
  ' "$file"
}

notes=$(section "$version")
case $version in *-*) [ -n "$notes" ] || notes=$(section Unreleased) ;; esac
[ -n "$notes" ] || { echo "changelog.sh: $(basename "$file") has no section \"## [$version]\", or nothing is in it: write what changed" >&2; exit 1; }
echo "$notes"
