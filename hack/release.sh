#!/usr/bin/env bash
# Writes what clusterctl installs and generates from: components, templates and metadata. Usage: hack/release.sh FOLDER IMAGE
#
# The default template is cluster-template.yaml; the folder NAME of config/templates/flavors becomes cluster-template-NAME.yaml, and the
# folder NAME of config/templates/clusterclasses becomes clusterclass-NAME.yaml: where clusterctl looks for them.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
out=$1
image=$2

mkdir -p "$out"
rm -f "$out"/*.yaml
build() { "$root/.cache/bin/kustomize" build "$root/config/$1" -o "$out/$2"; }

build default infrastructure-components.yaml
build single-pod single-pod-components.yaml
build additional-boot boot-components.yaml
sed -i "s#ghcr.io/capbm-io/cluster-api-provider-baremetal:dev#$image#" "$out"/*-components.yaml
build templates cluster-template.yaml
for kind in flavors:cluster-template clusterclasses:clusterclass; do
  for folder in "$root/config/templates/${kind%:*}"/*/; do
    [ -d "$folder" ] || continue # there is none
    name=$(basename "$folder")
    build "templates/${kind%:*}/$name" "${kind#*:}-$name.yaml"
  done
done
cp "$root/metadata.yaml" "$out/metadata.yaml"
