#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Says in a sentence what is missing before a compiler or CMake does it in many lines: tools/need.sh PART...
set -eu
lack=
need() { # need PACKAGE COMMAND-THAT-SUCCEEDS
    sh -c "$2" >/dev/null 2>&1 || lack="$lack $1"
}
for part; do
    case $part in
    build)
        need "${CC:-gcc}" "command -v ${CC:-cc}"
        need cmake 'command -v cmake'
        need ninja-build 'command -v ninja'
        need pkg-config 'command -v pkg-config'
        need libyaml-dev 'pkg-config --exists yaml-0.1'
        need libjansson-dev 'pkg-config --exists jansson'
        need zlib1g-dev 'pkg-config --exists zlib'
        ;;
    test)
        need libcmocka-dev 'pkg-config --exists cmocka'
        need python3 'command -v python3'
        need binutils 'command -v nm && command -v readelf'
        ;;
    clang)
        need clang 'command -v clang'
        ;;
    sanitizers) # the runtime is a package of its own
        need clang 'command -v clang'
        need libclang-rt-14-dev 'ls "$(clang -print-runtime-dir)" | grep -q asan'
        ;;
    aarch64)
        need cmake 'command -v cmake'
        need ninja-build 'command -v ninja'
        need gcc-aarch64-linux-gnu 'command -v aarch64-linux-gnu-gcc'
        need libc6-dev-arm64-cross 'test -e /usr/aarch64-linux-gnu/lib/libm.so.6'
        need qemu-user-static 'command -v qemu-aarch64-static'
        ;;
    *)
        echo "tools/need.sh: no part $part" >&2
        exit 1
        ;;
    esac
done
[ -z "$lack" ] || {
    echo "Missing:$lack. \`make deps\` installs what building needs, \`make test\` also what the tests need." >&2
    exit 1
}
