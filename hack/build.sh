#!/usr/bin/env bash
# Puts pinned Go programs into .cache/bin, once, and shows the progress. Usage: hack/build.sh NAME...
#
# A program whose project publishes it, and whose checksum is in hack/downloads.sha256, is downloaded where the Internet is reachable. The others are
# built, as is what cannot be downloaded.
#   LAB_DOWNLOAD=never  builds everything. The default is auto.
#   LAB_MIRROR=URL      takes downloads from URL/PATH, with the paths of hack/downloads.sha256, and not from https://PATH.
#
# A program is kept until its pinned version changes: a downloaded one until its line of hack/downloads.sha256 changes, a built one until its module's
# go.mod or go.sum, its flags or the Go version change. lab and manager are of this module: they are built each time, which is quick if nothing changed.
#
# Three modules hold the lab's programs (kube, etcd, capi), since they select different versions of the same libraries. capi has those of this
# project's go.mod, so that what Cluster API's programs and ours share is compiled once (laws_test.go).
# A fourth (tools) holds what developers run. Those in bootstrapproviders hold managers for golden Secrets, which CI does not build.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
bin=$root/.cache/bin
logs=$root/.cache/log
sums=$root/hack/downloads.sha256
. "$root/hack/progress.sh"

fail() {
  echo "build.sh: $*" >&2
  exit 1
}

mode=${LAB_DOWNLOAD:-auto}
case $mode in auto | never) ;; *) fail "LAB_DOWNLOAD is \"$mode\": set it to auto or never" ;; esac
mirror=${LAB_MIRROR:-}
case $mirror in '' | http://* | https://*) ;; *) fail "LAB_MIRROR is \"$mirror\": set it to a URL, such as http://mirror.example/lab" ;; esac

kube_version=v1.36.3
capi_version=v1.14.2

kube_flags="-X k8s.io/component-base/version.gitVersion=$kube_version -X k8s.io/component-base/version.gitMajor=1 \
-X k8s.io/component-base/version.gitMinor=36"
capi_flags="-X sigs.k8s.io/cluster-api/version.gitVersion=$capi_version -X sigs.k8s.io/cluster-api/version.gitMajor=1 \
-X sigs.k8s.io/cluster-api/version.gitMinor=14"

# lookup NAME prints: module folder, package, what a cold build takes on two cores (seconds) after those before it, linker flags.
lookup() {
  case $1 in
    etcd)                    echo "etcd go.etcd.io/etcd/server/v3 95" ;;
    kube-apiserver)          echo "kube k8s.io/kubernetes/cmd/kube-apiserver 500 $kube_flags" ;;
    kube-controller-manager) echo "kube k8s.io/kubernetes/cmd/kube-controller-manager 210 $kube_flags" ;;
    kubeadm)                 echo "kube k8s.io/kubernetes/cmd/kubeadm 56 $kube_flags" ;;
    kubectl)                 echo "kube k8s.io/kubernetes/cmd/kubectl 70 $kube_flags" ;;
    kubelet)                 echo "kube k8s.io/kubernetes/cmd/kubelet 60 $kube_flags" ;;
    kube-scheduler)          echo "kube k8s.io/kubernetes/cmd/kube-scheduler 30 $kube_flags" ;;
    hollow-kubelet)          echo "kube ./hollow-kubelet 60 $kube_flags" ;;
    capi-core)               echo "capi sigs.k8s.io/cluster-api/core 120 $capi_flags" ;;
    capi-kubeadm-bootstrap)  echo "capi sigs.k8s.io/cluster-api/bootstrap/kubeadm 15 $capi_flags" ;;
    capi-kubeadm-control-plane) echo "capi sigs.k8s.io/cluster-api/controlplane/kubeadm 20 $capi_flags" ;;
    clusterctl)              echo "capi sigs.k8s.io/cluster-api/cmd/clusterctl 40 $capi_flags" ;;
    k3s-bootstrap)           echo "bootstrapproviders/k3s github.com/k3s-io/cluster-api-k3s/bootstrap 80" ;;
    talos-bootstrap)         echo "bootstrapproviders/talos github.com/siderolabs/cluster-api-bootstrap-provider-talos 110" ;;
    controller-gen)          echo "tools sigs.k8s.io/controller-tools/cmd/controller-gen 20" ;;
    crd-ref-docs)            echo "tools github.com/elastic/crd-ref-docs 20" ;;
    gotestsum)               echo "tools gotest.tools/gotestsum 10" ;;
    golangci-lint)           echo "tools sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter 180" ;; # golangci-lint with the linter of the API types as its module
    lab)                     echo ".. ./hack/lab 60" ;;
    manager)                 echo ".. ./cmd/manager 30" ;;
    *) echo "build.sh: unknown program: $1" >&2; return 2 ;;
  esac
}

# module_seconds MODULE prints what the first of its programs takes longer if nothing that they share is compiled.
module_seconds() {
  case $1 in kube) echo 100 ;; capi) echo 0 ;; *) echo 0 ;; esac
}

# release NAME prints the path of its release binary in hack/downloads.sha256, and the member if that is an archive. Cluster API's managers are published only
# as container images, so they are built. A new version without a line in hack/downloads.sha256 is built, too: hack/downloads.sh --update adds it.
release() {
  local version platform=linux-$goarch
  case $1 in
    kube-apiserver | kube-controller-manager | kubeadm | kubectl) echo "dl.k8s.io/release/$kube_version/bin/linux/$goarch/$1" ;;
    clusterctl) echo "github.com/kubernetes-sigs/cluster-api/releases/download/$capi_version/clusterctl-$platform" ;;
    etcd)
      version=$(pinned etcd go.etcd.io/etcd/server/v3)
      echo "github.com/etcd-io/etcd/releases/download/$version/etcd-$version-$platform.tar.gz etcd-$version-$platform/etcd"
      ;;
  esac
}

# pinned MODULE PACKAGE prints the version that the module selects.
pinned() {
  awk -v package="$2" '$1 == package { print $2; exit }' "$root/hack/$1/go.mod"
}

# stamp NAME prints what a built program was made of.
stamp() {
  local module package flags
  read -r module package _ flags <<<"$(lookup "$1")"
  { echo "$goversion"; echo "$flags"; cat "$root/hack/$module/go.mod" "$root/hack/$module/go.sum"; case $package in ./*) cat "$root/hack/$module/$package"/*.go ;; esac; } |
    sha256sum | cut -c1-16
}

# checksum NAME prints the line of hack/downloads.sha256 of its release binary, if it has one. It is the stamp of a downloaded program.
checksum() {
  local path
  read -r path _ <<<"$(release "$1")"
  [ -z "$path" ] || awk -v path="$path" '$2 == path' "$sums"
}

# present NAME succeeds if the program is there and of the pinned version: built, or downloaded if that is permitted.
present() {
  local is
  [ -x "$bin/$1" ] && is=$(cat "$bin/$1.stamp" 2>/dev/null) && [ -n "$is" ] || return 1
  [ "$is" = "$(stamp "$1")" ] || { [ "$mode" != never ] && [ "$is" = "$(checksum "$1")" ]; }
}

# choose fills fetchable and buildable from the names.
choose() {
  local name path
  for name in "$@"; do
    read -r path _ <<<"$(release "$name")"
    if [ "$mode" = never ] || [ "$goos" != linux ] || [ -z "$path" ]; then
      buildable+=("$name")
    elif [ -z "$(checksum "$name")" ]; then
      echo "build.sh: $name is built: hack/downloads.sha256 has no line for $path" >&2
      buildable+=("$name")
    else
      fetchable+=("$name")
    fi
  done
}

# plan NAME... estimates what building them takes: in total as planned, and each in weight.
declare -A weight=()
plan() {
  local name module seconds begun=
  planned=0
  for name in "$@"; do
    read -r module _ seconds _ <<<"$(lookup "$name")"
    case " $begun " in *" $module "*) ;; *) begun+=" $module" seconds=$((seconds + $(module_seconds "$module"))) ;; esac
    weight[$name]=$seconds
    planned=$((planned + seconds))
  done
}

# compile NAME runs the Go compiler. All is compiled with the same settings as the manager's image, so that each package is compiled once for all programs.
compile() {
  local module package flags settings=(-o "$bin/$1")
  read -r module package _ flags <<<"$(lookup "$1")"
  case $1 in
    manager) package=$(cd "$root" && go list -f '{{join .Imports " "}}' "$package") settings=() ;; # without linking it: each lab links its own
    lab) settings+=(-ldflags "-s -w") ;;
    *) settings+=(-p 2 -buildvcs=false -ldflags "-s -w $flags"); export GOFLAGS= ;;
  esac
  # shellcheck disable=SC2086 # packages of the manager
  cd "$root/hack/$module" && CGO_ENABLED=0 go build -trimpath "${settings[@]}" $package
}

# build NAME builds it, and shows what the compiler printed only if that fails.
build() {
  local log=$logs/$1.log lock
  exec {lock}>"$logs/$1.lock"
  ! command -v flock >/dev/null || flock "$lock"
  case $1 in
    lab | manager) ;;
    *) if present "$1"; then exec {lock}>&-; return; fi ;; # somebody else has built it meanwhile: .ci/run needs some programs in two lanes
  esac
  progress_step "${weight[$1]}"
  rm -f "$bin/$1.stamp" # a run that is interrupted leaves no stamp of another program
  if ! (compile "$1") >"$log" 2>&1; then
    progress_stop
    grep -v '^go: downloading ' "$log" >&2 || true
    fail "building $1 failed"
  fi
  progress_stop
  case $1 in lab | manager) ;; *) stamp "$1" >"$bin/$1.stamp" ;; esac
  exec {lock}>&-
}

build_all() {
  local name
  for name in "$@"; do
    build "$name"
    progress_done "$name"
  done
}

# reach succeeds if downloads can be reached. One attempt decides, since every further one would cost a machine without the Internet its time limit again.
reach() {
  local path message
  read -r path _ <<<"$(release "${fetchable[0]}")"
  if ! message=$(FETCH_MIRROR=$mirror "$root/hack/fetch.sh" probe "$path" 2>&1); then
    echo "build.sh: everything is built, since downloads cannot be reached (LAB_DOWNLOAD=never does not try): $message" >&2
    return 1
  fi
}

# download starts to fetch the programs of fetchable beside what is built.
download() {
  local name path member wanted=()
  for name in "${fetchable[@]}"; do
    read -r path member <<<"$(release "$name")"
    wanted+=("$name=$path${member:+!$member}")
  done
  progress_results=$(mktemp "$logs/fetch.XXXXXX")
  FETCH_MIRROR=$mirror "$root/hack/fetch.sh" install "$sums" "$bin" "${wanted[@]}" >"$progress_results" 2>"$logs/fetch.log" &
  fetch_pid=$!
}

# await_downloads waits for them, and fills failed with the names of those that have to be built.
await_downloads() {
  local name reason
  progress_step 0
  while kill -0 "$fetch_pid" 2>/dev/null; do sleep 0.2; done
  fetch_pid=
  progress_stop
  for name in "${fetchable[@]}"; do
    if present "$name"; then
      progress_fetched "$name"
      continue
    fi
    failed+=("$name")
    reason=$(sed -n "s/^$name\t//p" "$progress_results")
    echo "build.sh: $name is built, since its download failed: ${reason:-$(tail -n 1 "$logs/fetch.log")}" >&2
  done
}

cleanup() {
  progress_stop
  [ -z "$fetch_pid" ] || kill "$fetch_pid" 2>/dev/null || true
  [ -z "$progress_results" ] || rm -f "$progress_results"
}

# check_go fails where Go is missing, or is so old that its own messages about go.mod do not say so, such as Go 1.19 of Debian 12.
check_go() {
  local wanted hint
  wanted=$(awk '$1 == "go" { print $2; exit }' "$root/go.mod")
  hint="install Go ${wanted%.*} or later (https://go.dev/dl/), and put its folder bin into PATH"
  command -v go >/dev/null || fail "there is no go in PATH: $hint"
  { read -r goversion && read -r goos && read -r goarch; } < <(cd "$root" && go env GOVERSION GOOS GOARCH) || fail "go env failed: $hint"
  if [[ $goversion == go[0-9]* ]] && ! printf '%s\n' "${wanted%.*}" "${goversion#go}" | sort -V -C; then
    fail "$(command -v go) is ${goversion/go/Go }: $hint"
  fi
}

fetch_pid=
check_go
if [ "${1:-}" = --releases ]; then # for hack/downloads.sh
  goarch=$2
  for name in kube-apiserver kube-controller-manager kubeadm kubectl etcd clusterctl; do release "$name"; done
  exit
fi

mkdir -p "$bin" "$logs"
todo=() always=() fetchable=() buildable=() failed=()
for name in "$@"; do
  lookup "$name" >/dev/null
  case $name in
    lab | manager) always+=("$name") ;;
    *) present "$name" || todo+=("$name") ;;
  esac
done

progress_init "$#" "${#todo[@]}" "$((${#todo[@]} + ${#always[@]}))" "$1"
trap cleanup EXIT
choose "${todo[@]}"
if [ ${#fetchable[@]} -gt 0 ] && ! reach; then
  fetchable=() buildable=("${todo[@]}")
fi
plan "${buildable[@]}" "${always[@]}"
progress_plan "${#fetchable[@]}" "$planned"
progress_announce
[ ${#fetchable[@]} -eq 0 ] || download
build_all "${buildable[@]}" "${always[@]}"
if [ ${#fetchable[@]} -gt 0 ]; then
  await_downloads
  plan "${failed[@]}"
  progress_replan "${#failed[@]}" "$planned"
  build_all "${failed[@]}"
fi
progress_end
