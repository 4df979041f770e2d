#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of the given sections of tools/packages.txt that are not there yet, saying which.
#   tools/install.sh build test        tools/install.sh --list build
set -eu
here=$(dirname "$0")

names() {
    for section; do
        sed -n "s/^$section  *\([^ ]*\).*/\1/p" "$here/packages.txt"
    done | sort -u
}

if [ "${1:-}" = --list ]; then
    shift
    names "$@"
    exit 0
fi
command -v dpkg-query >/dev/null 2>&1 || {
    echo "This is not Debian: install the equivalents of these packages, then go on with make:" $(names "$@") >&2
    exit 1
}
missing=
for name in $(names "$@"); do
    state=$(dpkg-query -W -f='${Status}' "$name" 2>/dev/null || true)
    [ "$state" = "install ok installed" ] || missing="$missing $name"
done
[ -n "$missing" ] || exit 0
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "Missing packages:$missing. There is no sudo here; run as root: apt-get install$missing" >&2
        exit 1
    }
    as_root=sudo
fi
echo "installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { # without questions; waits when another installation holds the lock
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1
}
# shellcheck disable=SC2086
apt install --no-install-recommends $missing || { apt update && apt install --no-install-recommends $missing; } || {
    tail -n 15 "$log" >&2
    echo "apt-get could not install:$missing (its last words are above; is the network there?)" >&2
    exit 1
}
