#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A folder of small IDX files that LeNet-5 learns: small_data.py FOLDER [TRAIN [TEST]]"""
import pathlib
import random
import struct
import sys

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True)
sizes = [int(v) for v in sys.argv[2:]] + [400, 100][len(sys.argv) - 2:]
draw = random.Random(1)
for stem, n in zip(("train", "t10k"), sizes):
    labels = [i % 10 for i in range(n)]
    pixels = bytearray()
    for label in labels:
        for row in range(28):
            bright = 150 if row // 2 == label + 2 else 0
            pixels += bytes(min(255, bright + draw.randrange(100)) for _ in range(28))
    (folder / f"{stem}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, n, 28, 28) + pixels)
    (folder / f"{stem}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, n) + bytes(labels))
