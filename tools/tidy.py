#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks of style and structure: tidy.py [ROOT [BUILD-FOLDER]]. Prints FILE:LINE: what, exits 1 when there was anything.

ROOT is this tree unless given. With a build folder it also looks at symbols, exports, and whether everything is compiled and run.
Each check is a function of check(tree) that yields messages; tools/test_tidy.py proves that every one of them finds a fault. Standard
library only.
"""
import ast
import json
import os
import pathlib
import re
import shutil
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
PUBLIC = {"error": "base", "alloc": "base", "shape": "base", "log": "base", "nn": "nn", "replica": "nn", "core": "core", "data": "data",
          "format": "format", "job": "job", "cluster": "job", "train": "engine", "simulate": "engine"}
SOURCE = {".c", ".h", ".py", ".sh", ".cmake"}
PROSE = {".md", ".txt", ".yaml", ".in", ".map", ".tsv"}
# What objects may ask of the outside, layer by layer. Pure: copying and exact arithmetic. Bytes in, bytes out: text as well, in no
# locale. The others: all but what a library leaves to its program.
RUNTIME = r"__\w+_chk|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__(asan|ubsan|tsan|sancov)\w*|__(float|fix|u?div|u?mod)\w+"
PURE = re.compile(rf"^(iso_\w+|mem(cpy|set|move|cmp|chr)|bcmp|str(len|cmp|ncmp|chr|rchr|c?spn)|fmaf?|sqrtf?|"
                  rf"lrintf?|llrintf?|rintf?|{RUNTIME}|__cpu_(model|indicator_init)|__cpu_features2)$")
BYTES = re.compile(rf"{PURE.pattern}|^(v?snprintf|qsort|bsearch|floor|mem\w+|str(?!to[dfl]|error|dup|ftime|coll)\w+|stpn?cpy|yaml_\w+)$")
LIBRARY = re.compile(r"^(?!(v?d?f?printf|f?puts|putchar|f?putc|fwrite|perror|stdout|stderr|_?exit|_Exit|quick_exit|(secure_)?getenv|setenv|"
                     r"environ|(set|use|new)locale|signal|sigaction|system|popen|v?fork|exec\w+|strto[df]|atof|s?rand|\w*scanf)$)")
OBJECTS = {"iso_nn": PURE, "iso_core": PURE, "iso_kernel_scalar": PURE, "iso_kernel_avx2": PURE, "iso_kernel_avx512": PURE,
           "iso_data": BYTES, "iso_format": BYTES, "iso_job": BYTES, "iso_base": LIBRARY, "iso_engine": LIBRARY}
# A broken invariant has nobody to report to; its handler is one word for the whole process.
EXCUSED = {("assert.c.o", "fprintf"), ("assert.c.o", "stderr"), ("assert.c.o", "installed")}


class Tree:
    def __init__(self, root, build=None):
        self.root, self.build = pathlib.Path(root), build and pathlib.Path(build)
        files = self.known_to_git() or self.all_but_built()
        self.files = sorted(p for p in files if p.is_file())

    def known_to_git(self):
        """Files that are in the repository or will be; none without git, or where git does not trust the folder's owner."""
        if not shutil.which("git") or not (self.root / ".git").exists():
            return []
        names = subprocess.run(["git", "-C", str(self.root), "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
        return [self.root / n for n in names.stdout.splitlines()] if names.returncode == 0 else []

    def all_but_built(self):
        left_out = re.compile(r"build.*|runs|\.git|\.venv.*|__pycache__")
        for folder, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if not left_out.fullmatch(f) or pathlib.Path(folder) != self.root and f == "build"]
            yield from (pathlib.Path(folder) / n for n in names)

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
    bad = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b|(?<![\w.}])/(wo" + r"rk|home|root|tm" + r"p)\b|"
                     r"https?://\S*(npm" + r"js|py" + r"pi|pythonhosted|maven|deb" + r"ian|crates)\S*")
    for path, text in tree.text(*SOURCE, *PROSE, ""):
        for number, line in enumerate(text.splitlines(), 1):
            if bad.search(line):
                yield f"{tree.name(path)}:{number}: {bad.search(line)[0]}"


def blank(text):
    """C text with comments, literals and preprocessor lines made blank; the lines stay where they are."""
    keep_lines = lambda m: re.sub(r"[^\n]", " ", m[0])
    text = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", keep_lines, text, flags=re.S)
    return re.sub(r"^[ ]*#(?:[^\n]*\\\n)*[^\n]*", keep_lines, text, flags=re.M)


def functions(text):
    """(line, lines between the braces) of every function body of C text: a block at file level behind a closing bracket."""
    text = blank(text)
    depth, body, before = 0, None, ""
    for m in re.finditer(r"[{};]|[^\s{};]", text):
        if m[0] == "{":
            if depth == 0 and before == ")":
                body = m.start()
            depth += 1
        elif m[0] == "}":
            depth -= 1
            if depth == 0 and body is not None:
                yield text.count("\n", 0, body) + 1, max(0, text.count("\n", body, m.start()) - 1)
                body = None
        before = m[0]


def python_functions(text):
    """(line, lines) of every function or method of Python text."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno


def check_functions(tree):
    """Functions stay short."""
    for path, text in tree.text(".c", ".h", ".py"):
        for first, count in python_functions(text) if path.suffix == ".py" else functions(text):
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
    """Names of test sources are unique: each is a program of its own in the build folder."""
    seen = {}
    for path in tree.files:
        if path.suffix == ".c" and path.relative_to(tree.root).parts[0] == "tests":
            if path.name in seen:
                yield f"{tree.name(path)}:1: the name is taken by {tree.name(seen[path.name])}"
            seen[path.name] = path


def check_symbols(tree):
    """Objects of a layer ask of the outside only what the layer may, and the library has no variables of its own."""
    if not tree.build:
        return
    seen = 0
    for target, allowed in OBJECTS.items():
        folder = tree.build / "CMakeFiles" / f"{target}.dir"
        for path in sorted(folder.rglob("*.o")):
            source = tree.root / path.relative_to(folder).with_suffix("")
            if source.suffix == ".c" and not source.exists():  # left over from a file that is gone
                continue
            seen += 1
            # name|value|class|type|size|line|section
            for line in subprocess.run(["nm", "-f", "sysv", str(path)], capture_output=True, text=True, check=True).stdout.splitlines():
                field = [f.strip() for f in line.split("|")]
                if len(field) != 7 or (path.name, field[0]) in EXCUSED:
                    continue
                if field[2] == "U" and not allowed.match(field[0].split("@")[0]):
                    yield f"{path.name}: undefined symbol {field[0]}: {target} may not use it"
                if re.match(r"\.(data|bss|tdata|tbss)(?!\.rel\.ro)|\*COM", field[6]):
                    yield f"{path.name}: {field[0]} is a variable: the library has none"
    if not seen:
        yield f"{tree.build}: no objects of the library: build first"


def check_exports(tree):
    """What the headers declare with ISO_API is what the library shows, name by name."""
    library = tree.build and tree.build / "libisochron.so"
    if not library or not library.exists():
        return
    text = "".join(blank(p.read_text()) for p in (tree.root / "include" / "isochron").glob("*.h"))
    declared = set(re.findall(r"^ISO_API\b[^;(]*?\b(\w+)\s*\(", text, re.M))
    out = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    shown = {name for kind, name in re.findall(r"\b([A-Z]) (\w+)@", out) if kind != "A"}
    for name in sorted(declared - shown):
        yield f"libisochron.so: {name} is declared but not there"
    for name in sorted(shown - declared):
        yield f"libisochron.so: {name} is there but not declared in include/isochron"


def check_headers(tree):
    """Each header compiles alone."""
    headers = [p for p in tree.files if p.suffix == ".h" and p.relative_to(tree.root).parts[0] in ("include", "src")]
    for path in headers:
        r = subprocess.run(["cc", "-std=c11", "-fsyntax-only", "-D_GNU_SOURCE", "-DISO_ISA=scalar", "-DISO_ISA_scalar=1", "-x", "c",
                            "-I", str(tree.root / "include"), "-I", str(tree.root / "src"), str(path)],
                           capture_output=True, text=True)
        if r.returncode:
            yield f"{tree.name(path)}:1: does not compile alone: {r.stderr.splitlines()[0]}"


def check_built(tree):
    """Every C file of the tree is compiled: those of src once (kernels once an instruction set), tests and fuzz targets too; every
    one that is a test is known to CTest."""
    commands = tree.build and tree.build / "compile_commands.json"
    if not commands or not commands.exists():
        return
    times = {}
    for entry in json.loads(commands.read_text()):
        times[entry["file"]] = times.get(entry["file"], 0) + 1
    listed = subprocess.run(["ctest", "--test-dir", str(tree.build), "--show-only=json-v1"], capture_output=True, text=True)
    known = "\n".join(" ".join(t.get("command", [])) for t in json.loads(listed.stdout)["tests"])
    for path in tree.files:
        parts = path.relative_to(tree.root).parts
        count = times.get(str(path.resolve()), 0)
        if path.suffix == ".c" and parts[0] in ("src", "tests", "fuzz"):
            if count == 0:
                yield f"{tree.name(path)}:1: nothing compiles this file"
            if parts[0] == "src" and "isa" not in parts and count > 1:
                yield f"{tree.name(path)}:1: compiled {count} times"
        if parts[0] == "tests" and parts[1] in ("unit", "program", "build", "canary", "same") and path.suffix in (".c", ".py", ".sh"):
            command = path.stem if path.suffix == ".c" else path.name
            if not re.search(rf"/{re.escape(command)}\b", known) and path.name not in ("small_data.py", "program.py"):
                yield f"{tree.name(path)}:1: no test runs this file"
        if parts[0] == "fuzz" and path.suffix == ".c" and path.stem.startswith("fuzz_"):
            corpus = tree.root / "fuzz" / "corpus" / path.stem[5:]
            if not corpus.is_dir() or not any(corpus.iterdir()):
                yield f"{tree.name(path)}:1: no corpus in {tree.name(corpus)}"


CHECKS = [check_includes, check_lines, check_words, check_functions, check_documented, check_names, check_symbols, check_exports,
          check_headers, check_built]


def main():
    tree = Tree(*(sys.argv[1:3] or [pathlib.Path(__file__).resolve().parent.parent]))
    found = [message for check in CHECKS for message in check(tree)]
    print("\n".join(found) if found else f"tidy: {len(tree.files)} files are in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
