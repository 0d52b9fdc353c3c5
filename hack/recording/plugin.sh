#!/usr/bin/env bash
# Records kubectl baremetal status, why and events in the lab of make demo, with faults: docs/status.svg, docs/why.svg and docs/events.svg. make recording-plugin builds what it
# needs. The faults are a wrong password of a BMC, a server in maintenance, a machine that no host fits, and a power cycle.
set -euo pipefail

cd "$(dirname "$0")/../.."
bin=$PWD/.cache/bin
log=$(mktemp)

"$bin/lab" demo --keep >"$log" 2>&1 &
lab=$!
finish() {
  kill -TERM "$lab" 2>/dev/null || true
  wait "$lab" || true
  rm -f "$log"
}
trap finish EXIT

echo "recording-plugin: the lab starts" >&2
for _ in $(seq 900); do
  grep -q '^Everything is left running' "$log" && break
  kill -0 "$lab" 2>/dev/null || { cat "$log" >&2; exit 1; }
  sleep 1
done
KUBECONFIG=$(sed -n 's/^  export KUBECONFIG=//p' "$log")
[ -n "$KUBECONFIG" ] || { cat "$log" >&2; exit 1; }
export KUBECONFIG PATH="$bin:$PATH"

# in_phase PHASE prints the names of the hosts in a phase.
in_phase() {
  kubectl get baremetalhosts -o jsonpath="{range .items[?(@.status.phase==\"$1\")]}{.metadata.name}{\"\\n\"}{end}"
}

echo "recording-plugin: the faults" >&2
mapfile -t free < <(in_phase Available)
mapfile -t running < <(in_phase Provisioned)
[ "${#free[@]}" -ge 2 ] && [ "${#running[@]}" -ge 1 ] || { kubectl get baremetalhosts >&2; exit 1; }
secret=$(kubectl get baremetalhost "${free[0]}" -o jsonpath='{.spec.bmc.credentialsSecretName}')
kubectl patch secret "$secret" --type merge -p '{"stringData":{"password":"not this one"}}' >&2
kubectl baremetal inspect "${free[0]}" --bmc --reason "is the new password right?" --wait 0 --yes >&2
kubectl baremetal maintenance start "${free[1]}" --reason "new DIMM" --yes >&2
kubectl baremetal power cycle "${running[0]}" --reason "hangs" --yes-its-claimed "${running[0]}" >&2
kubectl baremetal inspect "${running[0]}" --bmc --reason "who switched it off?" --yes >&2
kubectl scale machinedeployment demo-workers --replicas=1 >&2
kubectl wait --for=condition=BMCReady=false "baremetalhost/${free[0]}" --timeout=2m >&2
for _ in $(seq 120); do # until the machine says that no host fits
  waiting=$(kubectl get baremetalmachines -o jsonpath='{range .items[?(@.status.phase=="Pending")]}{.metadata.name}{"\n"}{end}' | head -1)
  [ -n "$waiting" ] && kubectl get baremetalmachine "$waiting" -o yaml | grep -q 'reason: NoHostFits' && break
  sleep 1
done

# record FILE COMMAND... records the commands in one picture, each after its prompt. An explanation of a fault has the exit code 1.
record() {
  local file=$1 first=$2
  shift 2
  {
    $first || true
    for command in "$@"; do
      echo
      echo "\$ $command"
      sleep 1
      $command || true
    done
  } 2>&1 | "$bin/recording" "$first" >"docs/$file.svg.new"
  mv "docs/$file.svg.new" "docs/$file.svg"
}

record status "kubectl baremetal status" "kubectl baremetal status --hosts"
record why "kubectl baremetal why ${free[0]}" "kubectl baremetal why machine/$waiting"
record events "kubectl baremetal events ${running[0]} --since 15m"
