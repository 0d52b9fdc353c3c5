#!/usr/bin/env bash
# Builds pinned Go programs into .cache/bin, once: a program is built again only when its module's go.mod or go.sum,
# this script, or the Go version changed. Usage: hack/build.sh NAME...
#
# Three modules hold the lab's programs (kube, etcd, capi), since they select different versions of the same libraries;
# a fourth (tools) holds what developers run. Those in bootstrapproviders hold managers for golden Secrets, which CI does not build.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
bin=$root/.cache/bin
mkdir -p "$bin"

kube_version=v1.36.3
capi_version=v1.14.2

kube_flags="-X k8s.io/component-base/version.gitVersion=$kube_version -X k8s.io/component-base/version.gitMajor=1 \
-X k8s.io/component-base/version.gitMinor=36"
capi_flags="-X sigs.k8s.io/cluster-api/version.gitVersion=$capi_version -X sigs.k8s.io/cluster-api/version.gitMajor=1 \
-X sigs.k8s.io/cluster-api/version.gitMinor=14"

# lookup NAME prints: module folder, package, what a cold build takes on two cores (seconds), linker flags.
lookup() {
  case $1 in
    etcd)                    echo "etcd go.etcd.io/etcd/server/v3 95" ;;
    kube-apiserver)          echo "kube k8s.io/kubernetes/cmd/kube-apiserver 500 $kube_flags" ;;
    kube-controller-manager) echo "kube k8s.io/kubernetes/cmd/kube-controller-manager 210 $kube_flags" ;;
    kubeadm)                 echo "kube k8s.io/kubernetes/cmd/kubeadm 56 $kube_flags" ;;
    kubectl)                 echo "kube k8s.io/kubernetes/cmd/kubectl 70 $kube_flags" ;;
    hollow-kubelet)          echo "kube ./hollow-kubelet 60 $kube_flags" ;;
    capi-core)               echo "capi sigs.k8s.io/cluster-api/core 120 $capi_flags" ;;
    capi-kubeadm-bootstrap)  echo "capi sigs.k8s.io/cluster-api/bootstrap/kubeadm 15 $capi_flags" ;;
    capi-kubeadm-control-plane) echo "capi sigs.k8s.io/cluster-api/controlplane/kubeadm 20 $capi_flags" ;;
    clusterctl)              echo "capi sigs.k8s.io/cluster-api/cmd/clusterctl 40 $capi_flags" ;;
    k3s-bootstrap)           echo "bootstrapproviders/k3s github.com/k3s-io/cluster-api-k3s/bootstrap 80" ;;
    talos-bootstrap)         echo "bootstrapproviders/talos github.com/siderolabs/cluster-api-bootstrap-provider-talos 110" ;;
    controller-gen)          echo "tools sigs.k8s.io/controller-tools/cmd/controller-gen 20" ;;
    crd-ref-docs)            echo "tools github.com/elastic/crd-ref-docs 20" ;;
    kustomize)               echo "tools sigs.k8s.io/kustomize/kustomize/v5 20" ;;
    golangci-lint)           echo "tools github.com/golangci/golangci-lint/v2/cmd/golangci-lint 180" ;;
    *) echo "build.sh: unknown program: $1" >&2; return 2 ;;
  esac
}

# stamp MODULE FOLDER FLAGS prints what the program was made of.
stamp() {
  { go env GOVERSION; echo "$3"; cat "$root/hack/$1/go.mod" "$root/hack/$1/go.sum"; case $2 in ./*) cat "$root/hack/$1/$2"/*.go ;; esac; } |
    sha256sum | cut -c1-16
}

todo=()
for name in "$@"; do
  read -r module package _ flags <<<"$(lookup "$name")"
  [ "$(cat "$bin/$name.stamp" 2>/dev/null)" = "$(stamp "$module" "$package" "$flags")" ] && [ -x "$bin/$name" ] || todo+=("$name")
done

n=0
for name in "${todo[@]}"; do
  n=$((n + 1))
  read -r module package seconds flags <<<"$(lookup "$name")"
  echo "[$n/${#todo[@]}] building $name (about ${seconds} s on two cores with an empty Go cache; once)" >&2
  start=$SECONDS
  (cd "$root/hack/$module" && CGO_ENABLED=0 GOFLAGS='' go build -p 2 -buildvcs=false -ldflags "-s -w $flags" -o "$bin/$name" "$package")
  stamp "$module" "$package" "$flags" >"$bin/$name.stamp"
  echo "        done in $((SECONDS - start)) s" >&2
done
