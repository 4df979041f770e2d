#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Says in a sentence what is missing before a compiler or CMake does it in many lines.
set -eu
lack=
need() { # need COMMAND-THAT-SUCCEEDS PACKAGE
    sh -c "$1" >/dev/null 2>&1 || lack="$lack $2"
}
for section; do
    case $section in
    build)
        need 'command -v "${CC:-cc}"' gcc
        need 'command -v cmake' cmake
        need 'command -v ninja' ninja-build
        need 'command -v pkg-config' pkg-config
        need 'pkg-config --exists yaml-0.1' libyaml-dev
        need 'pkg-config --exists jansson' libjansson-dev
        need 'pkg-config --exists zlib' zlib1g-dev
        ;;
    test)
        need 'pkg-config --exists cmocka' libcmocka-dev
        need 'command -v python3' python3
        ;;
    esac
done
[ -z "$lack" ] || {
    echo "Missing:$lack. \`make deps\` installs what building needs, \`make test\` also what the tests need." >&2
    exit 1
}
