#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the libraries need and show: libisochron-core wants libc and libm alone; every exported symbol begins with iso_ and has a
# version.   tests/build/symbols.sh BUILD-FOLDER LIBRARY...
set -eu
build=$1
shift
for name; do
    library="$build/lib$name.so"
    needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    [ -n "$needed" ] || { echo "$library needs no library, not even libc: is it one?" >&2; exit 1; }
    if [ "$name" = isochron-core ]; then
        more=$(echo "$needed" | grep -v -e '^libc\.so' -e '^libm\.so' -e '^ld-linux' || true)
        [ -z "$more" ] || { echo "$library needs more than libc and libm: $more" >&2; exit 1; }
    fi
    names=$(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}')
    [ -n "$names" ] || { echo "$library shows no symbols" >&2; exit 1; }
    others=$(echo "$names" | grep -v '^iso_[a-z0-9_]*@@ISOCHRON_0$' || true)
    [ -z "$others" ] || { echo "$library shows other names: $others" >&2; exit 1; }
    echo "$name: $(echo "$names" | wc -l) symbols"
done
