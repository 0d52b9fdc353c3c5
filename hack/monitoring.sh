#!/usr/bin/env bash
# Makes the PrometheusRule of the Prometheus Operator of the rule file, which promtool reads. Usage: hack/monitoring.sh [FILE]
set -euo pipefail

folder=$(cd "$(dirname "$0")/.." && pwd)/config/monitoring
{
  cat <<'HEAD'
# Made of rules.yaml by `make generate`: change that.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: capbm
  namespace: capbm-system
spec:
HEAD
  grep -v '^#' "$folder/rules.yaml" | sed 's/^./  &/'
} >"${1:-$folder/prometheusrule.yaml}"
