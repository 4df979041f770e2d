#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All tests, one part after the other; goes on after a failure and says at the end which parts failed.
# Each part is a target of the Makefile: `make PART` replays it.
set -u
failed=
passed=0
for part in unit clang asan tsan aarch64; do
    echo "==== make $part"
    if ${MAKE:-make} --no-print-directory "$part"; then
        passed=$((passed + 1))
    else
        failed="$failed $part"
    fi
done
count=$(echo "$failed" | wc -w)
[ -z "$failed" ] || echo "failed parts:$failed (replay one with: make PART)"
echo "$passed passed, $count failed"
[ -z "$failed" ]
