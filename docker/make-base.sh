#!/bin/sh
# Builds the base image of base.Dockerfile from Debian packages, for machines without access to an image registry.
#
#   docker/make-base.sh [NAME]     NAME defaults to a2perf-debian:bookworm
#
# Needs root (debootstrap), debootstrap and a Docker engine. MIRROR names another Debian mirror than debootstrap's own.
set -eu
name=${1:-a2perf-debian:bookworm}
for tool in debootstrap docker tar; do
    command -v "$tool" >/dev/null || { echo "make-base: $tool is missing: apt-get install debootstrap docker.io" >&2; exit 2; }
done
test "$(id -u)" = 0 || { echo "make-base: debootstrap needs root" >&2; exit 2; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
# Show the log only after a failure.
if ! debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm "$folder/root" ${MIRROR:+"$MIRROR"} \
    >"$folder/log" 2>&1; then
    tail -n 20 "$folder/log" >&2
    exit 1
fi
# Security updates (mainly Chromium's) are in a separate archive; another mirror may not have it.
if test -z "${MIRROR:-}"; then
    sed -n 's#^deb \(.*[^/]\)/* bookworm main#deb \1-security bookworm-security main#p' \
        "$folder/root/etc/apt/sources.list" > "$folder/root/etc/apt/sources.list.d/security.list"
fi
rm -rf "$folder"/root/var/cache/apt/archives/*.deb "$folder"/root/var/lib/apt/lists/* "$folder"/root/var/log/*.log \
    "$folder"/root/usr/share/doc/* "$folder"/root/usr/share/man/* "$folder"/root/usr/share/locale/*
# Remove the settings of the building host.
: > "$folder/root/etc/resolv.conf"
: > "$folder/root/etc/hostname"
tar --directory "$folder/root" --create --exclude=./dev/* --exclude=./proc/* --exclude=./sys/* . |
    docker import --change 'CMD ["sh"]' - "$name" >/dev/null
echo "$name"
