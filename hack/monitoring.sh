#!/usr/bin/env bash
# Writes the PrometheusRule of the Prometheus Operator from the rule file that promtool reads. Usage: hack/monitoring.sh [FILE]
set -euo pipefail

folder=$(cd "$(dirname "$0")/.." && pwd)/config/monitoring
{
  cat <<'HEAD'
# Generated from rules.yaml by `make generate`: change that file.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: capbm
  namespace: capbm-system
spec:
HEAD
  grep -v '^#' "$folder/rules.yaml" | sed 's/^./  &/'
} >"${1:-$folder/prometheusrule.yaml}"
