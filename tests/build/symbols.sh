#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the libraries need and show: libisochron-core wants libc and libm alone; every exported symbol begins with iso_ and has a
# version.   tests/build/symbols.sh BUILD-FOLDER
set -eu
core="$1/libisochron-core.so"
needed=$(readelf -d "$core" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v -e '^libc\.so' -e '^libm\.so' -e '^ld-linux' || true)
[ -z "$needed" ] || { echo "$core needs more than libc and libm: $needed" >&2; exit 1; }
for library in "$core" "$1/libisochron.so"; do
    names=$(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}')
    [ -n "$names" ] || { echo "$library shows no symbols" >&2; exit 1; }
    others=$(echo "$names" | grep -v '^iso_[a-z0-9_]*@@ISOCHRON_0$' || true)
    [ -z "$others" ] || { echo "$library shows other names: $others" >&2; exit 1; }
done
echo "$(echo "$names" | wc -l) symbols"
