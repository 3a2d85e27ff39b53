#!/bin/sh
# Copies the compiled kernels (about 2 MB) to a folder that Numba can write, then executes the command of the container.
if test -d /opt/a2perf/kernels && test ! -e "$NUMBA_CACHE_DIR"; then
    cp -r /opt/a2perf/kernels "$NUMBA_CACHE_DIR" 2>/dev/null || true
fi
exec "$@"
