#!/usr/bin/env bash
# Unpacks Debian's haproxy into .cache/haproxy: the balancer that stands before the control plane servers of the lab. It is not
# installed, since its service would be started, and it needs no root. It does nothing when all of that is there.
set -euo pipefail

fail() {
  echo "balancer.sh: $*" >&2
  exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd)
dir=$root/.cache/haproxy

# Two runs at once wait for one another. -o keeps the lock from what is started here.
if [ -z "${BALANCER_LOCKED:-}" ]; then
  mkdir -p "$root/.cache"
  BALANCER_LOCKED=1 exec flock -o "$root/.cache/haproxy.lock" "$root/hack/balancer.sh"
fi

stamp=$(sha256sum "$0" | cut -c1-16)
[ "$(cat "$dir/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
for program in apt-get dpkg; do
  command -v "$program" >/dev/null || fail "$program is missing: run this on Debian, or in a container of it"
done

echo "balancer.sh: unpacking haproxy into .cache/haproxy" >&2
rm -rf "$dir"
mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial" "$dir/packages"
# Lists of its own, so that nobody has to be root.
apt=(apt-get -qq -o "Dir::State::Lists=$dir/apt/lists" -o "Dir::Cache=$dir/apt/cache" -o "APT::Sandbox::User=$(id -un)" -o Acquire::Languages=none -o Acquire::Retries=3)
"${apt[@]}" update
# The libraries that are not installed come along.
mapfile -t packages < <({ echo haproxy; "${apt[@]}" -s install -o Debug::NoLocking=1 --no-install-recommends haproxy | awk '$1 == "Inst" {print $2}'; } | sort -u)
(cd "$dir/packages" && "${apt[@]}" download "${packages[@]}" && for package in *.deb; do dpkg -x "$package" "$dir"; done)
rm -r "$dir/packages" "$dir/apt"
# Its libraries are where only this finds them.
cat >"$dir/haproxy" <<'EOF'
#!/bin/sh
dir=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH=$(echo "$dir"/usr/lib/*-linux-gnu) exec "$dir/usr/sbin/haproxy" "$@"
EOF
chmod +x "$dir/haproxy"
"$dir/haproxy" -v >/dev/null || fail "haproxy does not run here"
# The stamp goes last: a run that was broken off is made again.
echo "$stamp" >"$dir/stamp"
