# The demo's gate: what the agent says does not count, this does.
expect() {
  want=$1; shift
  got=$(sh greet.sh "$@") || { echo "greet.sh $*: failed"; exit 1; }
  [ "$got" = "$want" ] || { echo "greet.sh $*: expected '$want', got '$got'"; exit 1; }
  echo "ok: greet.sh $*"
}
sleep 0.4
expect "Hello, Ada!" Ada
expect "Hello, world!"
