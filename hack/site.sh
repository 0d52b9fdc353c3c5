#!/usr/bin/env bash
# Makes the site from docs/ into out/site: hack/site.sh [BUILDER]. With the builder linkcheck it follows the links to other sites instead, which needs the
# Internet. The generator, Sphinx, is installed into .cache/site once; after that nothing is fetched.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
builder=${1:-html}
venv=$root/.cache/site
requirements=$root/hack/site/requirements.txt

# Two runs at once wait for one another.
if [ -z "${SITE_LOCKED:-}" ]; then
  mkdir -p "$root/.cache"
  SITE_LOCKED=1 exec flock -o "$root/.cache/site.lock" "$0" "$@"
fi

python=/usr/bin/python3
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
  install=(apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 python3-venv)
  [ "$(id -u)" -eq 0 ] || { echo "site.sh: a package is missing, run as root: ${install[*]}" >&2; exit 1; }
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  "${install[@]}" >/dev/null
fi
stamp=$({ cat "$requirements"; "$python" --version; echo "$venv"; } | sha256sum | cut -c1-16)
if [ "$(cat "$venv/stamp" 2>/dev/null)" != "$stamp" ]; then
  echo "site.sh: installing Sphinx into .cache/site (about 20 s)" >&2
  rm -rf "$venv"
  "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r "$requirements"
  echo "$stamp" >"$venv/stamp"
fi

# The page of the API is made from the Go types for the site alone: its 2,000 lines say what kubectl explain says.
"$root/hack/build.sh" crd-ref-docs
api=$root/docs/reference/api.md
"$root/.cache/bin/crd-ref-docs" --log-level=ERROR --source-path="$root/api" --config="$root/hack/site/api.yaml" --renderer=markdown --output-path="$api"
sed -i -e 's/Optional: \\{\\} <br \/>//' -e 's/Required: \\{\\} <br \/>/Required/' -e '1s/.*/# API/' "$api"

# Warnings are errors: -W. All files are read again, as Sphinx repeats no warning of a file that it read before: -E.
"$venv/bin/sphinx-build" -q -E -W --keep-going -b "$builder" -c "$root/hack/site" -d "$root/.cache/site/doctrees" "$root/docs" "$root/out/site"
if [ "$builder" = html ]; then
  cp "$root/out/site/README.html" "$root/out/site/index.html" # what a web server looks for
  echo out/site/index.html
fi
