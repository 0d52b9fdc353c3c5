# Functions for scripts that take packages of Debian without root and without installing them: source this file. The lists of packages are private, so
# the machine stays as it is, and any release of Debian can run them.
# shellcheck shell=bash

# debian_release is the release that packages are taken from, whatever the release of the machine is.
debian_release=trixie

# debian_fail MESSAGE ends the script.
debian_fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# debian_apt WORK ARCH COMPONENT... sets the array apt to a command line of apt-get and apt-cache options for an architecture, with lists in WORK, and
# fetches the lists. The mirrors are those of the machine. dpkg's status is empty: what a package needs is found as for a machine that has no packages.
debian_apt() {
  local work=$1 arch=$2 keyring=/usr/share/keyrings/debian-archive-keyring.gpg sources mirror security program
  shift 2
  for program in apt-get apt-cache dpkg-deb; do
    command -v "$program" >/dev/null || debian_fail "$program is missing: run this on Debian, or in a container of it"
  done
  [ -e "$keyring" ] || debian_fail "$keyring is missing: install debian-archive-keyring"
  sources=$(sed '/^#/d' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null) || true
  mirror=$(grep -oE 'https?://[^ ]*/debian/?( |$)' <<<"$sources" | head -n 1 | tr -d ' ') || true
  security=$(grep -oE 'https?://[^ ]*/debian-security/?( |$)' <<<"$sources" | head -n 1 | tr -d ' ') || true
  [ -n "$mirror" ] || debian_fail "this machine's package sources name no mirror of Debian"
  [ -n "$security" ] || debian_fail "this machine's package sources name no mirror of debian-security, which has the newest versions: add to /etc/apt/sources.list, for example
deb MIRROR/debian-security bookworm-security main"
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
  : >"$work/status"
  {
    echo "deb [signed-by=$keyring] $mirror $debian_release $*"
    echo "deb [signed-by=$keyring] $security $debian_release-security $*"
  } >"$work/sources.list"
  apt=(-qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$work/lists"
    -o "Dir::State::status=$work/status" -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=$(id -un)" -o "APT::Architecture=$arch" -o "APT::Architectures=$arch"
    -o Acquire::Languages=none -o Acquire::Retries=3 -o Debug::NoLocking=true)
  apt-get "${apt[@]}" update
}

# debian_unpack DEB DIR unpacks a package into DIR/PACKAGE, and adds it to the list DIR/PACKAGES: package, version, checksum of the file.
debian_unpack() {
  local name
  name=$(dpkg-deb -f "$1" Package)
  dpkg-deb -x "$1" "$2/$name"
  dpkg-deb -f "$1" >"$2/$name.control"
  echo "$name $(dpkg-deb -f "$1" Version) $(sha256sum "$1" | cut -d' ' -f1)" >>"$2/PACKAGES"
}
