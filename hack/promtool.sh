#!/usr/bin/env bash
# Unpacks promtool of Debian's prometheus into .cache/prometheus: it checks and tests the rules of config/monitoring. Nothing is installed,
# since the package would start a server, and no root is needed. It does nothing when promtool is there.
set -euo pipefail

fail() {
  echo "promtool.sh: $*" >&2
  exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
dir=$root/.cache/prometheus

# Two runs at once wait for one another. -o keeps the lock from what is started here.
if [ -z "${PROMTOOL_LOCKED:-}" ]; then
  mkdir -p "$root/.cache"
  PROMTOOL_LOCKED=1 exec flock -o "$root/.cache/prometheus.lock" "$root/hack/promtool.sh"
fi

stamp=$(sha256sum "$0" | cut -c1-16)
[ "$(cat "$dir/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
for program in apt-get dpkg; do
  command -v "$program" >/dev/null || fail "$program is missing: run this on Debian, or in a container of it"
done

echo "promtool.sh: unpacking promtool into .cache/prometheus" >&2
rm -rf "$dir"
mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial" "$dir/packages"
# Lists of its own, so that nobody has to be root.
apt=(apt-get -qq -o "Dir::State::Lists=$dir/apt/lists" -o "Dir::Cache=$dir/apt/cache" -o "APT::Sandbox::User=$(id -un)" -o Acquire::Languages=none -o Acquire::Retries=3)
"${apt[@]}" update
# Of its dependencies promtool needs none but libc: the others are of the server.
(cd "$dir/packages" && "${apt[@]}" download prometheus && dpkg -x prometheus_*.deb unpacked && mv unpacked/usr/bin/promtool "$dir/")
rm -r "$dir/packages" "$dir/apt"
"$dir/promtool" --version >/dev/null || fail "promtool does not run here"
# The stamp goes last: a run that was broken off is made again.
echo "$stamp" >"$dir/stamp"
