#!/usr/bin/env bash
# Runs lanes of make targets side by side: hack/lanes.sh LANE... The targets of a lane are separated by semicolons and run one after another, such as
# "matrix; soak DURATION=3m". Suites that wait share the processors with suites that work: the first lane has those that work, and yields to the others,
# whose control planes have deadlines of seconds. The output of a target is printed when the target ends. After a failure no further target starts, and the
# targets that run are waited for. LANES_TABLE is a file that gets a line for each target: its name, seconds, seconds of processor time, and result.
set -euo pipefail

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# run LOG NICENESS TARGET prints the output of a target in one piece.
run() {
  local log=$1 nice=$2 status=0 start=$SECONDS TIMEFORMAT='%U %S' user=0 system=0 result=passed
  # shellcheck disable=SC2086 # a target and its variables
  { time nice -n "$nice" make --no-print-directory $3 </dev/null >"$log" 2>&1; } 2>"$log.time" || status=$? result=FAILED
  read -r user system < <(tail -n 1 "$log.time")
  {
    flock 9
    echo "== make $3"
    cat "$log"
    [ -z "${LANES_TABLE:-}" ] || printf 'make %s\t%d\t%.0f\t%s\n' "$3" $((SECONDS - start)) "$(awk "BEGIN { print $user + $system }")" "$result" >>"$LANES_TABLE"
  } 9>"$logs/lock"
  return "$status"
}

lane() {
  local number=$1 nice=0 target
  [ "$number" -gt 1 ] || nice=5
  while IFS= read -r -d ';' target; do
    target=$(xargs <<<"$target")
    [ -z "$target" ] || [ -e "$logs/failed" ] || run "$logs/lane$number" "$nice" "$target" || { echo "make $target" >>"$logs/failed"; return; }
  done <<<"$2;"
}

number=0
for targets in "$@"; do
  number=$((number + 1))
  lane "$number" "$targets" &
done
wait
[ ! -e "$logs/failed" ] || { echo "lanes.sh: failed: $(paste -sd, "$logs/failed")" >&2; exit 1; }
