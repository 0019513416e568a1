#!/usr/bin/env bash
# Many loops in one home on a disk whose syncs are slow: none may fail, and waiting for the journal must stay bearable.
# Usage: benches/slow-disk.sh [DACAPO [LOOPS [ITERATIONS [MILLISECONDS]]]]
# Prints how many loops failed, how long they took, how many syncs there were, and the longest wait.
set -euo pipefail
dacapo=$(realpath "${1:-target/release/dacapo}") loops=${2:-200} iterations=${3:-5} delay=${4:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/slow.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static void hold(void) {
    long ms = atol(getenv("SLOW_SYNC_MS"));
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&t, 0);
    int log = open(getenv("SLOW_SYNC_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (log >= 0) { if (write(log, ".", 1) < 0) {} close(log); }
}
int fsync(int fd) { static int (*f)(int); if (!f) f = dlsym(RTLD_NEXT, "fsync"); hold(); return f(fd); }
int fdatasync(int fd) { static int (*f)(int); if (!f) f = dlsym(RTLD_NEXT, "fdatasync"); hold(); return f(fd); }
C
cc -shared -fPIC -O1 -o "$work/slow.so" "$work/slow.c" -ldl
export DACAPO_HOME="$work/home" SLOW_SYNC_MS=$delay SLOW_SYNC_LOG="$work/syncs"
touch "$work/syncs"
begun=$(date +%s.%N)
for n in $(seq "$loops"); do
    mkdir "$work/$n"
    (
        cd "$work/$n"
        code=0
        LD_PRELOAD="$work/slow.so" "$dacapo" run "do it" --task "t$n" -q -n "$iterations" --restart-delay 0 \
            --agent-cmd true > "$work/$n.out" 2>&1 || code=$?
        # 3 is the iteration limit, which is how these loops end well.
        [ "$code" = 3 ] || echo "$code" > "$work/$n.failed"
    ) &
done
wait
ended=$(date +%s.%N)
failed=$(find "$work" -maxdepth 1 -name '*.failed' | wc -l)
echo "loops $loops, iterations $iterations, sync ${delay} ms"
echo "failed $failed"
echo "wall $(echo "$ended - $begun" | bc) s"
echo "syncs $(stat -c %s "$work/syncs")"
echo "longest wait $(cat "$DACAPO_HOME/dacapo.db-waits" 2>/dev/null || echo 'below a second')"
[ "$failed" = 0 ] || head -3 $(find "$work" -maxdepth 1 -name '*.failed' | head -3 | sed 's/failed$/out/')
[ "$failed" = 0 ]
