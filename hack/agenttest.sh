#!/usr/bin/env bash
# Installs what hack/agenttest and the test of the agent in hack/e2e need, and builds the agent for amd64: hack/agenttest.sh VERSION.
set -euo pipefail

[ $# -eq 1 ] || { echo "agenttest.sh: usage: agenttest.sh VERSION" >&2; exit 1; }
root=$(cd "$(dirname "$0")/.." && pwd)
"$root/hack/e2e.sh"
"$root/hack/agent.sh" "$1" amd64
