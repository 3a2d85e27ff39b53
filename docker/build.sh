#!/bin/sh
# Builds a2perf:base and one image per domain from this checkout.
#
#   docker/build.sh [DOMAIN ...]     all domains when none is named
#
# BASE_IMAGE  start from this image; unset: a base made from Debian packages (make-base.sh), reused when it is there
# NETWORK     network of the build steps, such as `host` for an engine without a bridge
# DOCKER      the client; unset: the first of `docker` and /usr/bin/docker that has BuildKit
# CONTENT     also names a domain's image a2perf:DOMAIN-CONTENT (the docker launcher names images by their content)
# PIP_CONF    a pip.conf for the build, PIP_CA a bundle of certificates; both are build secrets and not stored
set -eu
cd "$(dirname "$0")/.."
export DOCKER_BUILDKIT=1
# A client of version 23 or later needs the buildx plug-in; without it, try Debian's client, which does not need it.
for client in ${DOCKER:-docker /usr/bin/docker} ""; do
    test -n "$client" || { echo "build: no client with BuildKit: install docker-buildx, or name another with DOCKER=" >&2; exit 2; }
    if "$client" build --help 2>/dev/null | grep -q -e --secret; then break; fi
done
if test -z "${BASE_IMAGE:-}"; then
    BASE_IMAGE=a2perf-debian:bookworm
    "$client" image inspect "$BASE_IMAGE" >/dev/null 2>&1 || docker/make-base.sh "$BASE_IMAGE"
fi

build() {
    name=$1
    shift
    began=$(date +%s)
    "$client" build --quiet ${NETWORK:+--network "$NETWORK"} ${PIP_CONF:+--secret "id=pip,src=$PIP_CONF"} \
        ${PIP_CA:+--secret "id=ca,src=$PIP_CA"} --file "docker/$name.Dockerfile" --tag "a2perf:$name" "$@" . >/dev/null
    bytes=$("$client" image inspect --format '{{.Size}}' "a2perf:$name")
    echo "a2perf:$name $((bytes / 1000000)) MB, $(($(date +%s) - began)) s"
}

build base --build-arg "BASE_IMAGE=$BASE_IMAGE"
if test $# = 0; then
    for file in docker/*.Dockerfile; do
        test "$file" = docker/base.Dockerfile || set -- "$@" "$(basename "$file" .Dockerfile)"
    done
fi
for domain in "$@"; do
    build "$domain" --build-arg BASE=a2perf:base \
        ${CONTENT:+--label "a2perf.content=$CONTENT" --tag "a2perf:$domain-$CONTENT"}
done
