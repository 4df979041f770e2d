#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into a scratch folder; a program of a few lines, found by pkg-config alone, is compiled against it and trains.
#   tests/build/install.sh BUILD-FOLDER COMPILER
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$1" --prefix "$scratch/usr" >/dev/null
export PKG_CONFIG_PATH="$scratch/usr/lib/pkgconfig"
# shellcheck disable=SC2046
"$2" -std=c11 -Wall -Wextra -Werror "$root/examples/train.c" $(pkg-config --cflags --libs isochron) -o "$scratch/train"
python3 "$root/tests/build/small_data.py" "$scratch/data"
LD_LIBRARY_PATH="$scratch/usr/lib" "$scratch/train" "$scratch/data" "$scratch/run" 2 | tee "$scratch/out"
grep -q '^epoch 2 of 2' "$scratch/out"
test -s "$scratch/run/model.safetensors"
"$scratch/usr/bin/isochron" evaluate "$scratch/run" --data "$scratch/data" --json | grep -q '"accuracy"'
# the static library too, with what pkg-config says it needs
# shellcheck disable=SC2046
"$2" -std=c11 "$root/examples/train.c" $(pkg-config --cflags isochron) "$scratch/usr/lib/libisochron.a" \
    $(pkg-config --static --libs isochron | sed 's/-lisochron //') -o "$scratch/train-static"
"$scratch/train-static" "$scratch/data" "$scratch/run-static" 1 | grep -q '^epoch 1 of 1'
# the core needs libc and libm alone, and its header compiles by itself
printf '#include "isochron/core.h"\nint main(void){return iso_policy_count() ? 0 : 1;}\n' >"$scratch/core.c"
# shellcheck disable=SC2046
"$2" -std=c11 "$scratch/core.c" $(pkg-config --cflags --libs isochron-core) -o "$scratch/core"
LD_LIBRARY_PATH="$scratch/usr/lib" "$scratch/core"
echo "installed, compiled, trained"
