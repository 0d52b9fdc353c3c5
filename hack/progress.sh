# The progress of hack/build.sh, which sources this file: on a terminal one line that is redrawn each second, otherwise a line for each finished program.
# It shows nothing while all is up to date and takes less than five seconds. shellcheck shell=bash

# progress_init NAMES MISSING COUNT NAME: of so many programs that were asked for, the first of which is NAME, so many are missing, and COUNT are prepared.
progress_init() {
  progress_title="preparing the lab" progress_first=no progress_visible=5 progress_columns=80
  [ "$1" -ne 1 ] || progress_title="preparing $4"
  if [ "$2" -gt 0 ]; then progress_first=yes progress_visible=0; fi
  progress_count=$3 progress_noun=programs
  [ "$3" -ne 1 ] || progress_noun=program
  progress_reason="first run only"
  progress_downloads=0 progress_seconds=0
  progress_finished=0                     # built
  progress_results=                       # file with a line for each download that ended
  progress_began=$SECONDS                 # when the current program was begun
  progress_current=0                      # its estimate
  progress_spent=0 progress_estimated=0   # what finished programs took, and what had been estimated for them
  progress_ticker=
  if [ -t 2 ]; then
    progress_columns=$(stty size 2>/dev/null </dev/tty | cut -d' ' -f2) || true
    [ "${progress_columns:-0}" -gt 0 ] || progress_columns=80
  fi
}

# progress_plan DOWNLOADS SECONDS: so many programs are downloaded, and building the others takes about so long.
progress_plan() {
  progress_downloads=$1 progress_seconds=$2
  [ "$progress_first" = yes ] || return 0
  if [ "$1" -gt 0 ]; then
    progress_reason="first run only; downloads $1, builds the others"
  elif [ "$2" -gt 400 ]; then
    progress_reason="first run only; builds Kubernetes from source"
  fi
}

# progress_announce reports the plan where no line is drawn.
progress_announce() {
  [ "$progress_first" = no ] || [ -t 2 ] || echo "$progress_title: $progress_count $progress_noun, $(progress_left) ($progress_reason)" >&2
}

# progress_replan FAILED SECONDS: so many downloads failed, and building these takes about so long.
progress_replan() {
  progress_downloads=$((progress_downloads - $1)) progress_seconds=$((progress_seconds + $2))
}

# progress_step SECONDS: a program is begun that takes about so long.
progress_step() {
  progress_stop
  progress_began=$SECONDS progress_current=$1
  [ -t 2 ] || return 0
  progress_draw
  while sleep 1 && kill -0 $$ 2>/dev/null; do progress_draw; done &
  progress_ticker=$!
  disown # so that bash does not report its end
}

# progress_done NAME: the program of the last progress_step is finished.
progress_done() {
  local took=$((SECONDS - progress_began)) ready left=
  progress_finished=$((progress_finished + 1))
  progress_seconds=$((progress_seconds - progress_current))
  progress_spent=$((progress_spent + took))
  progress_estimated=$((progress_estimated + progress_current))
  progress_current=0
  if [ -t 2 ] || [ "$took" -lt "$progress_visible" ]; then return 0; fi
  ready=$((progress_finished + $(progress_downloaded)))
  [ "$ready" -ge "$progress_count" ] || left=", $(progress_left)"
  echo "[$ready/$progress_count] built $1 in $took s$left" >&2
}

# progress_fetched NAME: a program was downloaded.
progress_fetched() {
  [ -t 2 ] || echo "downloaded $1" >&2
}

# progress_end reports the whole.
progress_end() {
  [ "$progress_first" = no ] || [ ! -t 2 ] || echo "prepared ${progress_title#preparing } in $(progress_duration "$SECONDS")" >&2
}

# progress_stop removes the line from the terminal.
progress_stop() {
  [ -n "${progress_ticker:-}" ] || return 0
  kill -KILL "$progress_ticker" 2>/dev/null || true # bash 5.2 that gets SIGTERM just after its fork prints an error
  progress_ticker=
  printf '\r\033[K' >&2
}

progress_downloaded() {
  if [ -n "$progress_results" ]; then grep -c $'\tok$' "$progress_results" || true; else echo 0; fi
}

progress_draw() {
  local text
  [ "$SECONDS" -ge "$progress_visible" ] || return 0
  text="$progress_title: $((progress_finished + $(progress_downloaded))) of $progress_count $progress_noun, $(progress_duration "$SECONDS") so far, $(progress_left)"
  [ "$progress_first" != yes ] || text+=" ($progress_reason)"
  printf '\r\033[K%s' "${text:0:$((progress_columns - 1))}" >&2 # a longer line would wrap, and could not be redrawn
}

# progress_left estimates the time that is left: the cold seconds of what is to be built, by how fast this machine was so far.
progress_left() {
  local permille=1000 current left downloads
  [ "$progress_estimated" -lt 30 ] || permille=$((progress_spent * 1000 / progress_estimated))
  current=$((progress_current * permille / 1000 - (SECONDS - progress_began)))
  [ "$current" -ge $((progress_current * permille / 10000)) ] || current=$((progress_current * permille / 10000))
  left=$(((progress_seconds - progress_current) * permille / 1000 + current))
  downloads=$(((progress_downloads - $(progress_downloaded)) * 8)) # 100 MB at 100 Mbit/s
  [ "$left" -ge "$downloads" ] || left=$downloads
  if [ "$left" -lt 10 ]; then
    echo "a few seconds left"
  elif [ "$left" -lt 55 ]; then
    echo "about $(((left + 9) / 10 * 10)) s left"
  else
    echo "about $(((left + 30) / 60)) min left"
  fi
}

progress_duration() {
  if [ "$1" -lt 60 ]; then echo "$1 s"; else echo "$(($1 / 60)) min $(($1 % 60)) s"; fi
}
