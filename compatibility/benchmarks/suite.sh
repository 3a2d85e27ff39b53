# Sourced by the suites: starts recorded runs in the background and waits for them.
# Two runs at a time by default (JOBS=n), with one thread each: more threads would compete for the same processors.
export MKL_NUM_THREADS=1 OMP_NUM_THREADS=1
JOBS="${JOBS:-2}"
QUICK=0
for word in "$@"; do
    case "$word" in
        --quick) QUICK=1 ;;
        *) echo "$0: unknown option $word; the only option is --quick" >&2; exit 2 ;;
    esac
done
FAILED=0

# bench SCRIPT ENV SEED [ARGUMENT...]
bench() {
    while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do wait -n || FAILED=1; done
    echo "== $1 $2 seed $3"
    local script="$1" env="$2" seed="$3"
    shift 3
    BENCH_SCRIPT="$script" BENCH_ENV="$env" BENCH_SEED="$seed" "${PYTHON:-python}" benchmark.py "$@" &
}

finish() {
    while [ -n "$(jobs -rp)" ]; do wait -n || FAILED=1; done
    for job in $(jobs -p); do wait "$job" || FAILED=1; done
    if [ "$FAILED" = 0 ]; then echo "all runs finished"; else echo "some runs failed" >&2; fi
    exit "$FAILED"
}
