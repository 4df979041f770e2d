#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks of style and structure: tidy.py ROOT [BUILD-FOLDER]. Prints FILE:LINE: what, exits 1 when there was anything.

Standard library only. With a build folder it also looks at the object files' undefined symbols.
Each check is a function of check(tree) that yields messages; tools/test_tidy.py proves that every one of them finds a fault.
"""
import pathlib
import re
import subprocess
import sys

COLUMNS, FILE_LINES, FUNCTION_LINES = 140, 1000, 70

# A folder may include from those named behind it (its own always).
LAYERS = {
    "base": [],
    "nn": ["base"],
    "core": ["base", "nn"],
    "data": ["base"],
    "format": ["base"],
    "job": ["base", "nn", "core"],
    "engine": ["base", "nn", "core", "data", "format", "job"],
    "cli": ["base", "nn", "core", "data", "format", "job", "engine"],
}
PUBLIC = {"error": "base", "alloc": "base", "shape": "base", "log": "base", "nn": "nn", "core": "core", "data": "data",
          "format": "format", "job": "job", "train": "engine", "isochron": "cli"}
SOURCE = {".c", ".h", ".py", ".sh", ".cmake"}
PROSE = {".md", ".txt", ".yaml"}
# What the pure archives may ask of the outside.
PURE = re.compile(r"^(iso_\w+|mem(cpy|set|move|cmp|chr)|str(len|cmp|ncmp|chr|rchr|c?spn)|fmaf?|sqrtf?|lrintf?|llrintf?|rintf?|__\w+_chk|"
                  r"__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__(asan|ubsan|tsan|sancov)\w*|__cpu_(model|indicator_init)|__cpu_features2)$")


class Tree:
    def __init__(self, root, build=None):
        self.root, self.build = pathlib.Path(root), build and pathlib.Path(build)
        names = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
        if names.returncode == 0 and (self.root / ".git").exists():
            files = [self.root / n for n in names.stdout.splitlines()]
        else:
            files = [p for p in self.root.rglob("*") if ".git" not in p.parts]
        self.files = sorted(p for p in files if p.is_file())

    def name(self, path):
        return str(path.relative_to(self.root))

    def text(self, *suffixes):
        for path in self.files:
            if path.suffix in suffixes and "corpus" not in path.parts and "cases" not in path.parts:
                yield path, path.read_text(errors="replace")


def layer_of(tree, path):
    parts = path.relative_to(tree.root).parts
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[0] == "include" and path.suffix == ".h":
        return PUBLIC.get(path.stem, "unknown header " + path.name)
    return None


def check_includes(tree):
    """A folder includes only from the layers below it."""
    for path, text in tree.text(".c", ".h"):
        layer = layer_of(tree, path)
        if layer is None:
            continue
        if layer not in LAYERS:
            yield f"{tree.name(path)}:1: no layer: {layer}"
            continue
        for number, line in enumerate(text.splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                continue
            first, _, rest = m[1].partition("/")
            target = PUBLIC.get(rest[:-2]) if first == "isochron" else first
            if target != layer and target not in LAYERS[layer]:
                yield f"{tree.name(path)}:{number}: {layer} may not include {m[1]}"


def check_lines(tree):
    """Columns, tabs, trailing blanks, file length, SPDX line."""
    for path, text in tree.text(*SOURCE):
        lines = text.splitlines()
        if len(lines) > FILE_LINES:
            yield f"{tree.name(path)}:{FILE_LINES}: {len(lines)} lines, at most {FILE_LINES}"
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
            yield f"{tree.name(path)}:1: no SPDX line"
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS:
                yield f"{tree.name(path)}:{number}: {len(line)} columns, at most {COLUMNS}"
            if "\t" in line:
                yield f"{tree.name(path)}:{number}: a tab"
            if line != line.rstrip():
                yield f"{tree.name(path)}:{number}: blanks at the end"


def check_words(tree):
    """No open ends, no paths of one machine."""
    bad = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b|(?<![\w.])/(wo" + r"rk|home|root)/")
    for path, text in tree.text(*SOURCE, *PROSE):
        for number, line in enumerate(text.splitlines(), 1):
            if bad.search(line):
                yield f"{tree.name(path)}:{number}: {bad.search(line)[0]}"


def functions(text):
    """(first line, lines) of every function body: a brace in column 0 to its closing one in column 0."""
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start:
            yield start, number - start - 1
            start = None


def check_functions(tree):
    """Functions stay short. Test tables and macros do not count: only bodies that begin with a brace in column 0."""
    for path, text in tree.text(".c", ".h"):
        for first, count in functions(text):
            if count > FUNCTION_LINES:
                yield f"{tree.name(path)}:{first}: a function of {count} lines, at most {FUNCTION_LINES}"


def check_documented(tree):
    """Every public declaration stands under a comment, or in a group under one."""
    for path, text in tree.text(".h"):
        lines = text.splitlines()
        for number, line in enumerate(lines):
            if not line.startswith("ISO_API"):
                continue
            above = number - 1
            while above >= 0 and lines[above].strip() and not lines[above].rstrip().endswith("*/"):
                above -= 1
            behind = "/*" in line
            if not behind and (above < 0 or not lines[above].rstrip().endswith("*/")):
                yield f"{tree.name(path)}:{number + 1}: no comment says what this is"


def check_names(tree):
    """File names are unique among sources of one layer's folder tree, unit tests among all."""
    seen = {}
    for path in tree.files:
        if path.suffix == ".c" and path.relative_to(tree.root).parts[0] in ("src", "tests"):
            parts = path.relative_to(tree.root).parts
            key = (parts[0], parts[1] if parts[0] == "src" else "", "kernel" if "isa" in parts else "", path.parent.name, path.name)
            if parts[0] == "tests":
                key = ("tests", path.name)
            if key in seen:
                yield f"{tree.name(path)}:1: the name is taken by {tree.name(seen[key])}"
            seen[key] = path


def check_symbols(tree):
    """nn and core ask nothing of the outside but copying and exact arithmetic."""
    if not tree.build:
        return
    objects = [p for layer in ("iso_nn", "iso_core", "iso_kernel_scalar", "iso_kernel_avx2", "iso_kernel_avx512")
               for p in (tree.build / "CMakeFiles" / f"{layer}.dir").rglob("*.o")]
    if not objects:
        yield f"{tree.build}: no objects of nn and core: build first"
    for path in objects:
        out = subprocess.run(["nm", "-u", str(path)], capture_output=True, text=True, check=True).stdout
        for symbol in re.findall(r"\bU (\S+)", out):
            if not PURE.match(symbol):
                yield f"{path.name}: undefined symbol {symbol}: nn and core are pure"


def check_headers(tree):
    """Each public header compiles alone."""
    for path in sorted((tree.root / "include" / "isochron").glob("*.h")):
        r = subprocess.run(["cc", "-std=c11", "-fsyntax-only", "-x", "c", "-I", str(tree.root / "include"), str(path)],
                           capture_output=True, text=True)
        if r.returncode:
            yield f"{tree.name(path)}:1: does not compile alone: {r.stderr.splitlines()[0]}"


CHECKS = [check_includes, check_lines, check_words, check_functions, check_documented, check_names, check_symbols, check_headers]


def main():
    tree = Tree(*sys.argv[1:3])
    found = [message for check in CHECKS for message in check(tree)]
    print("\n".join(found) if found else f"tidy: {len(tree.files)} files are in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
