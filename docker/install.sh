#!/bin/sh
# Runs inside a build: installs the lock's part for the named extras, hashes checked; --package installs a2perf too.
# Two optional secrets of the build are heeded and never stored: `pip` (a pip.conf) and `ca` (a bundle of certificates).
set -eu
source=$(dirname "$(dirname "$0")")
environment=/opt/a2perf
test ! -s /run/secrets/pip || export PIP_CONFIG_FILE=/run/secrets/pip
test ! -s /run/secrets/ca || export PIP_CERT=/run/secrets/ca
export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

package=no
if test "${1:-}" = --package; then
    package=yes
    shift
fi
pinned=$(mktemp)
"$environment/bin/python" "$source/docker/pinned.py" "$source" "$@" > "$pinned"
"$environment/bin/pip" install --quiet --require-hashes --requirement "$pinned"
rm "$pinned"
if test "$package" = yes; then
    "$environment/bin/pip" install --quiet --no-deps --no-build-isolation "$source"
fi
"$environment/bin/pip" check
