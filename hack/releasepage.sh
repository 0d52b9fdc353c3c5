#!/usr/bin/env bash
# Makes the files of a release: hack/releasepage.sh FOLDER VERSION IMAGE
#
# It writes FOLDER/release/VERSION, a flat folder as GitHub's release pages and clusterctl with a GitHub URL want it, and what hack/release.sh writes: the
# same manifests as a repository for clusterctl in folders. The manifests name IMAGE (NAME:TAG) by the digest of the index that is built here. If IMAGE has
# a digest it must be that one: otherwise the page has an image that its manifests do not name.
#
#   PLATFORMS    the platforms of the programs. Without it, the plugin of kubectl is built for Windows too
#   RELEASE_KEY  file with a private key (ECDSA P-256, PEM) to sign checksums.txt with
#
# The same commit with the same VERSION, IMAGE, Go and Debian packages gives the same bytes, apart from the signature.
set -euo pipefail

fail() {
  echo "releasepage.sh: $*" >&2
  exit 1
}

[ $# -eq 3 ] || fail "usage: releasepage.sh FOLDER VERSION IMAGE"
mkdir -p "$1/release"
folder=$(cd "$1" && pwd)
version=$2 image=${3%%@*} wanted=
case $3 in *@*) wanted=${3#*@} ;; esac
cd "$(dirname "$0")/.."
project=cluster-api-provider-baremetal
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
plugin_platforms=${PLATFORMS:-$platforms windows/amd64}

# What would fail the release is checked before anything is built.
case ${image##*/} in *:?*) ;; *) fail "IMAGE has no tag: write NAME:TAG" ;; esac
[[ -z $wanted || $wanted =~ ^sha256:[0-9a-f]{64}$ ]] || fail "IMAGE has the digest $wanted: it is like sha256: and 64 hexadecimal digits"
[[ $version =~ ^v([0-9]+)\.([0-9]+)\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || fail "VERSION is like v0.1.0 or v0.1.0-rc.0, and not $version"
grep -Pzq "major: ${BASH_REMATCH[1]}\n +minor: ${BASH_REMATCH[2]}\n" metadata.yaml ||
  fail "metadata.yaml has no release series ${BASH_REMATCH[1]}.${BASH_REMATCH[2]}: clusterctl would refuse $version"
changes=$(git status --porcelain 2>/dev/null) || true
if [ -z "${SOURCE_REVISION:-}" ] && [ -n "$changes" ]; then
  fail "the checkout has changes that are in no commit: commit, move or remove them, or set SOURCE_REVISION
$(head -n 10 <<<"$changes")"
fi
[ -z "${RELEASE_KEY:-}" ] || openssl pkey -in "$RELEASE_KEY" -noout -text_pub | grep -q "ASN1 OID: prime256v1" ||
  fail "RELEASE_KEY is no private key of ECDSA P-256: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out FILE"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)} || fail "this is no checkout: set SOURCE_DATE_EPOCH and SOURCE_REVISION"
SOURCE_REVISION=${SOURCE_REVISION:-$(git rev-parse HEAD 2>/dev/null)} || fail "this is no checkout: set SOURCE_REVISION to the commit"
export SOURCE_DATE_EPOCH SOURCE_REVISION

work=$(mktemp -d "$folder/release/.$version.XXXXXX")
trap 'rm -rf "$work"' EXIT
page=$work/page
mkdir "$page"
hack/changelog.sh "$version" >"$page/release-notes.md"

# The image, for both architectures.
digest=$(hack/image.sh "$image" "$version" "$page/$project-image.tar" amd64 arm64)
digest=${digest%% *}
[ -z "$wanted" ] || [ "$wanted" = "$digest" ] ||
  fail "IMAGE has the digest $wanted, but what is built here has $digest: leave it out, or write only the manifests, with hack/release.sh"

# The manifests.
hack/release.sh "$folder" "$version" "$image@$digest"
name=$(sed -n 's/.*provider: infrastructure-//p' "config/provider/infrastructure/kustomization.yaml")
cp "$folder/infrastructure-$name/$version"/*.yaml "$folder/bootstrap-$name/$version/bootstrap-components.yaml" "$page/" # one metadata.yaml for both

# The programs.
programs=()
for platform in $platforms; do
  hack/programs.sh "$version" "$SOURCE_REVISION" "$platform" "$work/programs" bmcctl bmcsim
  for program in bmcctl bmcsim; do
    programs+=("$page/$program-${platform/\//-}")
    mv "$work/programs/$program" "${programs[-1]}"
  done
done

# The plugin of kubectl, in archives as krew wants them, and its manifest. A manifest without the checksum of a platform would be of no use.
manifest=$(sed "s/{{version}}/$version/" hack/krew.yaml)
for platform in $plugin_platforms; do
  plugin=kubectl-baremetal-${platform/\//-}
  hack/programs.sh "$version" "$SOURCE_REVISION" "$platform" "$work/$plugin" kubectl-baremetal
  cp LICENSE "$work/$plugin/"
  [ "${platform%/*}" = windows ] || cp hack/kubectl_complete-baremetal "$work/$plugin/"
  (
    cd "$work/$plugin"
    tar --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=a=rX,u+w --mtime="@$SOURCE_DATE_EPOCH" -cf - -- *
  ) | gzip -9n >"$page/$plugin.tar.gz"
  sum=$(sha256sum "$page/$plugin.tar.gz")
  manifest=${manifest//"{{${platform/\//-}}}"/${sum%% *}}
  programs+=("$work/programs/$plugin") # for the SBOM
  mv "$work/$plugin"/kubectl-baremetal* "${programs[-1]}"
done
case $manifest in *'{{'*) ;; *) printf '%s\n' "$manifest" >"$page/krew.yaml" ;; esac

# The boot loaders, for sites with a TFTP server of their own.
(
  cd .cache/loaders
  tar --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=0644 --mtime="@$SOURCE_DATE_EPOCH" -cf - -- *
) | gzip -9n >"$page/boot-loaders.tar.gz"
# The agents, for a folder agent.dir outside of the image.
for arch in amd64 arm64; do
  tar --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=a=rX,u+w --mtime="@$SOURCE_DATE_EPOCH" --exclude=.stamp -C out/agent -cf - "$arch" |
    gzip -9n >"$page/agent-$arch.tar.gz"
done
(cd hack/image && GOFLAGS='' go run -buildvcs=false . sbom --version "$version" --epoch "$SOURCE_DATE_EPOCH" --loaders ../../.cache/loaders \
  --agents ../../out/agent --agent-programs ../../.cache/agent --archives "$page" --output "$page/$project.spdx.json" "${programs[@]}")

(cd "$page" && LC_ALL=C && sha256sum -- * >../checksums.txt)
mv "$work/checksums.txt" "$page/"
if [ -n "${RELEASE_KEY:-}" ]; then
  # openssl and cosign read the signature in this form (ASN.1 DER).
  openssl dgst -sha256 -sign "$RELEASE_KEY" -out "$page/checksums.txt.sig" "$page/checksums.txt"
fi
chmod 0755 "$page"
rm -rf "$folder/release/$version"
mv "$page" "$folder/release/$version"
[ -n "${RELEASE_KEY:-}" ] || echo "releasepage.sh: this release is not signed: RELEASE_KEY names no key" >&2
echo "$image@$digest"
