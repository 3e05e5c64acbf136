# To be sourced. `run_floodgate WORDS…` runs Floodgate as a child and returns its exit code. A shell would keep a signal to
# itself: here the child gets it, heals its faults and writes its report, and is waited for. Should the shell be killed, the
# child notices, and ends in the same way.
floodgate_pid=
trap 'if [ -n "$floodgate_pid" ]; then kill -TERM "$floodgate_pid"; else exit 143; fi' INT TERM HUP

# Where a script keeps target files: the line that repeats a run does not name this folder, which is removed.
private=
run_floodgate() {
  local code=0
  FLOODGATE_PRIVATE_FOLDER=$private FLOODGATE_END_WITH_PARENT=1 node "$here/../../src/cli/floodgate.mjs" "$@" 9>&- &
  floodgate_pid=$!
  wait "$floodgate_pid" || code=$?
  # A signal ends the first wait and not the run.
  while kill -0 "$floodgate_pid" 2>/dev/null; do
    code=0
    wait "$floodgate_pid" || code=$?
  done
  floodgate_pid=
  return "$code"
}

# What has to go when this shell does, even when it is killed: `goes group PID` ends a process group, `goes folder PATH` removes
# a folder. Done by a process that hears the other end of descriptor 9 close. It has none of the job's environment, by which a
# clean-up of the job would know it.
cleaner=
goes() {
  if [ -z "$cleaner" ]; then
    exec 9> >(exec env -i PATH="$PATH" setsid bash "$here/clean-up")
    cleaner=$!
  fi
  echo "$1 $2" >&9
}
# Now, and waited for.
clean_up() {
  [ -n "$cleaner" ] || return 0
  exec 9>&-
  wait "$cleaner" || true
  cleaner=
}

# Whether the run of a folder is a process of this machine that is there still: by its id and when it started.
is_going_on() {
  local about written
  # A run that has just made its folder names itself a moment later, once its watchdog is there.
  until about=$(grep -m1 -o '"run":{"pid":[0-9]*,"start":"[0-9]*"' "$1/journal.ndjson" 2>/dev/null); do
    written=$(stat -c %Y "$1/journal.ndjson" 2>/dev/null) || return 1
    [ $(($(date +%s) - written)) -lt 10 ] || return 1
    sleep 0.5
  done
  [[ $about =~ ([0-9]+),\"start\":\"([0-9]+) ]] || return 1
  # Field 22 of the line, of which the second may hold blanks.
  [ "$(sed 's/.*) //' "/proc/${BASH_REMATCH[1]}/stat" 2>/dev/null | cut -d' ' -f20)" = "${BASH_REMATCH[2]}" ]
}

# A run makes its folder anew. What an earlier one left there is moved aside, so that nobody takes it for this one's.
set_aside() {
  local earlier
  [ -e "$1/run.json" ] || [ -e "$1/journal.ndjson" ] || return 0
  if is_going_on "$1"; then
    echo "another run writes to $1 now; expected a folder for each job: set FLOODGATE_OUT to one of its own" >&2
    "$here/say-state" 2 "$1" "$(date +%s)"
    exit 2
  fi
  earlier=$1.earlier-$(date -u +%Y%m%dT%H%M%SZ)
  mv "$1" "$earlier" && echo "the folder of an earlier run was moved to $earlier" >&2
}
