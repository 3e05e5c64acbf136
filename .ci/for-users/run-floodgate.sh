# To be sourced. `run_floodgate WORDS…` runs Floodgate as a child and returns its exit code. A shell would keep a signal to
# itself: here the child gets it, heals its faults and writes its report, and is waited for.
floodgate_pid=
trap 'if [ -n "$floodgate_pid" ]; then kill -TERM "$floodgate_pid"; else exit 143; fi' INT TERM

run_floodgate() {
  local code=0
  node "$here/../../src/cli/floodgate.mjs" "$@" &
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
