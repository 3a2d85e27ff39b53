#!/bin/sh
# Runs inside a build: installs the packages of the lock for the core and the named extras, with verified hashes; with
# --package, installs a2perf; with --kernels ID, compiles the kernels of the environment ID.
# Uses two optional build secrets, which are not stored: `pip` (a pip.conf) and `ca` (a bundle of certificates).
set -eu
source=$(dirname "$(dirname "$0")")
environment=/opt/a2perf
test ! -s /run/secrets/pip || export PIP_CONFIG_FILE=/run/secrets/pip
test ! -s /run/secrets/ca || export PIP_CERT=/run/secrets/ca
export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

if test "${1:-}" = --package; then
    "$environment/bin/pip" install --quiet --no-deps --no-build-isolation --no-index "$source"
    install "$source/docker/start.sh" "$environment/bin/a2perf-start"
elif test "${1:-}" = --kernels; then
    NUMBA_CACHE_DIR=$environment/kernels "$environment/bin/python" "$source/docker/compile_kernels.py" "$2"
else
    pinned=$(mktemp)
    "$environment/bin/python" "$source/docker/pinned.py" "$source" "$@" > "$pinned"
    "$environment/bin/pip" install --quiet --require-hashes --requirement "$pinned"
    rm "$pinned"
fi
"$environment/bin/pip" check
