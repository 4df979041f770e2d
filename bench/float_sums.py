#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a copy of the sources whose gradients are summed as plain floats: float_sums.py FOLDER.

Place: bench/run.py builds the copy and runs it beside the real program, to tell what the exact integer sums cost. The copy has the
same kernels, threads and protocol; the type of the sums, the grid and the tile loop of the dense gradient differ (bench/float_sums).
Its weights depend on who computed what: it is good for nothing else. A substitution that finds nothing is an error, so that the
copy cannot quietly become the program itself.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ISA = "src/nn/kernel/isa"
SUMS = (r"\bint64_t (?=(?:\*|\*\*|\*const \*)(?:sum|sum_w|sum_b|total)\b)", "float ")
# file, pattern, replacement
CHANGES = [
    ("include/isochron/nn.h", *SUMS), ("src/nn/layer.h", *SUMS), ("src/nn/pass.c", *SUMS), ("src/nn/layer/dense.c", *SUMS),
    ("src/nn/update.c", *SUMS), ("src/nn/update.c", r"0x1p-40 / ", "1.0 / "),
    ("src/nn/kernel/kernel.h", *SUMS), (f"{ISA}/step.h", *SUMS), (f"{ISA}/update.c", *SUMS),
    (f"{ISA}/loss.c", r"isa/grid\.h", "isa/integer_grid.h"),  # losses stay integers, and so do merges
    (f"{ISA}/codec.c", r"isa/grid\.h", "isa/integer_grid.h"),
    ("src/nn/kernel/kernel.h", r"(\(\*(?:weigh|mean)\)\((?:float \*value, const )?)float \*sum", r"\1int64_t *sum"),
    ("src/engine/local/inside.h", *SUMS),
    # replicas, merges and the simulator hand on sums too: compiled, never run
    ("CMakeLists.txt", r"(include\(cmake/options\.cmake\))", r"\1\nadd_compile_options(-Wno-incompatible-pointer-types)"),
]


def make(folder):
    """Writes the copy; files that would not change keep their time, so that a second build is short."""
    made = {}
    for part in ("src", "include", "cmake"):
        for path in (ROOT / part).rglob("*"):
            if path.is_file():
                made[str(path.relative_to(ROOT))] = path.read_text()
    made["CMakeLists.txt"] = (ROOT / "CMakeLists.txt").read_text()
    made[f"{ISA}/integer_grid.h"] = made[f"{ISA}/grid.h"].replace("ISO_NN_KERNEL_GRID_H", "ISO_NN_KERNEL_INTEGER_GRID_H")
    for name, pattern, replacement in CHANGES:
        made[name], count = re.subn(pattern, replacement, made[name])
        if count == 0:
            sys.exit(f"float_sums.py: {name} has no {pattern}: the source has changed, adapt CHANGES")
    for stand_in in ("grid.h", "dense_gradient.c"):
        made[f"{ISA}/{stand_in}"] = (ROOT / "bench" / "float_sums" / stand_in).read_text()
    folder = pathlib.Path(folder)
    for old in [p for p in folder.rglob("*") if p.is_file() and str(p.relative_to(folder)) not in made]:
        old.unlink()
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    make(sys.argv[1])
