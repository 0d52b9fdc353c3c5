#!/usr/bin/env bash
# Downloads release binaries of other projects with curl, from their hosts or from a mirror. hack/build.sh runs it, and builds what it reports as failed.
#
#   fetch.sh probe PATH                           attempts once to reach the server of PATH
#   fetch.sh install SUMS FOLDER NAME=PATH[!MEMBER]...
#       installs programs that have the checksum of SUMS, and nothing else, and prints a line for each: its name, a tab, and "ok" or why it failed.
#       A program gets its name when its checksum was verified, and NAME.stamp has the line of SUMS. MEMBER is the file of an archive
#   fetch.sh print PATH, fetch.sh hash PATH       print the content of PATH, and its checksum, without a check
#
# PATH is an address without https://. FETCH_MIRROR is the base URL of a mirror that serves these paths.
set -euo pipefail

fail() {
  echo "$*" >&2
  exit 1
}

mirror=${FETCH_MIRROR:-}
command -v curl >/dev/null || fail "curl is missing"

# get PATH OPTION... runs curl for a path.
get() {
  local path=$1 protocols='=https' url=https://$1
  shift
  [ -z "$mirror" ] || protocols='=http,https' url=${mirror%/}/$path
  curl --silent --show-error --location --proto "$protocols" --connect-timeout 10 --max-filesize 1G "$@" "$url"
}

# download PATH FILE downloads a whole file. A connection that delivers less than a kilobyte a second for half a minute has failed.
download() { get "$1" --fail --retry 2 --speed-limit 1024 --speed-time 30 --max-time 1800 --output "$2"; }

temporary=
trap '[ -z "$temporary" ] || rm -rf "$temporary"' EXIT
trap 'exit 1' INT TERM

# install_one SUMS FOLDER NAME PATH MEMBER
install_one() {
  local line file=$temporary/file got
  line=$(awk -v path="$4" '$2 == path' "$1")
  [ -n "$line" ] || fail "no checksum of $4 is known"
  download "$4" "$file" || exit
  got=$(sha256sum "$file" | cut -d' ' -f1)
  [ "$got" = "${line%% *}" ] || fail "$4 has the checksum $got"
  if [ -n "$5" ]; then
    tar -tzf "$file" >/dev/null 2>&1 || fail "$4 is no archive"
    tar -xzOf "$file" "$5" >"$temporary/member" 2>/dev/null || fail "$4 has no $5"
    mv "$temporary/member" "$file"
  fi
  chmod 0755 "$file"
  rm -f "$2/$3.stamp"
  mv "$file" "$2/$3" # of the same file system
  echo "$line" >"$2/$3.stamp"
}

# install SUMS FOLDER NAME=PATH[!MEMBER]... A host that does not answer costs its time limit once.
install() {
  local sums=$1 folder=$2 wanted name path member host reason status
  local -A down=()
  shift 2
  temporary=$(mktemp -d "$folder/.fetch.XXXXXX")
  for wanted in "$@"; do
    name=${wanted%%=*} path=${wanted#*=} member=
    case $path in *!*) member=${path#*!} path=${path%%!*} ;; esac
    host=${path%%/*} status=0
    reason=${down[$host]:-}
    if [ -z "$reason" ]; then
      reason=$(install_one "$sums" "$folder" "$name" "$path" "$member" 2>&1) || status=$?
      case $status in 6 | 7 | 28) down[$host]=$reason ;; esac # curl: no name, no connection, no answer in time
    else
      status=1
    fi
    [ "$status" -ne 0 ] || reason=ok
    printf '%s\t%s\n' "$name" "$(tr '\n' ' ' <<<"$reason")"
  done
}

case ${1:-} in
  probe) get "$2" --head --max-time 3 --output /dev/null ;;
  install) install "${@:2}" ;;
  print) get "$2" --fail --max-time 60 ;;
  hash)
    temporary=$(mktemp -d)
    download "$2" "$temporary/file"
    echo "$(sha256sum "$temporary/file" | cut -d' ' -f1)  $2"
    ;;
  *) fail "usage: fetch.sh probe|print|hash PATH, or fetch.sh install SUMS FOLDER NAME=PATH[!MEMBER]..." ;;
esac
