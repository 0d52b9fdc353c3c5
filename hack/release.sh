#!/usr/bin/env bash
# Writes what clusterctl installs and generates from, one folder a provider: components, templates and metadata. Usage: hack/release.sh FOLDER VERSION IMAGE
# It writes FOLDER/infrastructure-NAME/VERSION and FOLDER/bootstrap-NAME/VERSION, with the name of the provider: clusterctl reads the version from the path.
#
# The default template is cluster-template.yaml; the folder NAME of config/templates/flavors becomes cluster-template-NAME.yaml, and the
# folder NAME of config/templates/clusterclasses becomes clusterclass-NAME.yaml: where clusterctl looks for them.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
version=$2
image=$3
name=$(sed -n 's/.*provider: infrastructure-//p' "$root/config/provider/infrastructure/kustomization.yaml")
infrastructure=$1/infrastructure-$name/$version
bootstrap=$1/bootstrap-$name/$version

mkdir -p "$infrastructure" "$bootstrap"
rm -f "$infrastructure"/*.yaml "$bootstrap"/*.yaml
build() { "$root/.cache/bin/kubectl" kustomize "$root/config/$1" -o "$2"; }

build default "$infrastructure/infrastructure-components.yaml"
build single-pod "$infrastructure/single-pod-components.yaml"
build additional-boot "$infrastructure/boot-components.yaml"
build bootstrap/default "$bootstrap/bootstrap-components.yaml"
sed -i "s#ghcr.io/capbm-io/cluster-api-provider-baremetal:dev#$image#" "$infrastructure"/*-components.yaml "$bootstrap"/*-components.yaml
build templates "$infrastructure/cluster-template.yaml"
for kind in flavors:cluster-template clusterclasses:clusterclass; do
  for folder in "$root/config/templates/${kind%:*}"/*/; do
    [ -d "$folder" ] || continue # there is none
    name=$(basename "$folder")
    build "templates/${kind%:*}/$name" "$infrastructure/${kind#*:}-$name.yaml"
  done
done
cp "$root/metadata.yaml" "$infrastructure/metadata.yaml"
cp "$root/metadata.yaml" "$bootstrap/metadata.yaml"
