#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target of a build folder for some seconds on a copy of its corpus: tools/fuzz.sh BUILD-FOLDER SECONDS
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
for target in "$1"/fuzz_*; do
    [ -x "$target" ] || continue
    name=$(basename "$target" | sed 's/^fuzz_//')
    found="$1/corpus-$name"
    mkdir -p "$found"
    echo "==== $name: $2 s"
    "$target" -max_total_time="$2" -rss_limit_mb=2048 -artifact_prefix="$1/" "$found" "$root/fuzz/corpus/$name"
done
