# The demo's agent: three iterations of a perfectly ordinary afternoon.
cat >/dev/null # the prompt
say() { echo "$1"; sleep "${2:-0.35}"; }
case $DACAPO_ITERATION in
1)
  git init -q . 2>/dev/null
  say "Reading the task and check.sh."
  say "Writing a first greet.sh."
  echo 'echo "Hello, $1!"' >greet.sh
  say "It greets Ada. The case without a name is still missing, so I make no promise yet."
  ;;
2)
  say "Looking at greet.sh."
  say "That should be fine, I suppose."
  echo "<promise>DONE</promise>"
  ;;
*)
  say "The check says that nobody was greeted when nobody was named."
  say "Giving the argument a default."
  echo 'echo "Hello, ${1:-world}!"' >greet.sh
  say "Running check.sh myself this time."
  sh check.sh || exit 1
  echo "<promise>DONE</promise>"
  ;;
esac
