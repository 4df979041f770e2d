#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that every check of tidy.py finds what it is for: a small tree with one fault each."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tidy  # noqa: E402

HEAD = "/* SPDX-License-Identifier: Apache-2.0\n * x. */\n"


class Finds(unittest.TestCase):
    def faults(self, check, **files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder) / name.replace("__", "/").replace("_DOT_", ".")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return list(check(tidy.Tree(folder)))

    def test_a_tree_in_order_has_none(self):
        files = {"src__base__a_DOT_c": HEAD + "int x;\n", "src__nn__b_DOT_c": HEAD + '#include "base/a.h"\n'}
        for check in tidy.CHECKS:
            self.assertEqual(self.faults(check, **files), [], check.__name__)

    def test_files_are_found_without_git(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a.c", "tests/build/b.c", "build/c.c", "build-asan/d.c", "runs/e.c", ".git/f.c", "src/__pycache__/g.c"):
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("")
            tree = tidy.Tree(folder)
            self.assertEqual([tree.name(p) for p in tree.files], ["a.c", "tests/build/b.c"])

    def test_an_include_from_above(self):
        self.assertEqual(len(self.faults(tidy.check_includes, src__base__a_DOT_c=HEAD + '#include "core/b.h"\n')), 1)
        self.assertEqual(len(self.faults(tidy.check_includes, src__core__a_DOT_c=HEAD + '#include "isochron/train.h"\n')), 1)

    def test_long_lines_tabs_missing_licence(self):
        self.assertEqual(len(self.faults(tidy.check_lines, src__base__a_DOT_c=HEAD + "x" * 141 + "\n")), 1)
        self.assertEqual(len(self.faults(tidy.check_lines, src__base__a_DOT_c=HEAD + "\tint x;\n")), 1)
        self.assertEqual(len(self.faults(tidy.check_lines, src__base__a_DOT_c=HEAD + "int x; \n")), 1)
        self.assertEqual(len(self.faults(tidy.check_lines, src__base__a_DOT_c="int x;\n")), 1)
        self.assertEqual(len(self.faults(tidy.check_lines, src__base__a_DOT_c=HEAD + "\n" * 1001)), 1)

    def test_open_ends_and_paths(self):
        self.assertEqual(len(self.faults(tidy.check_words, src__base__a_DOT_c=HEAD + "/* TO" + "DO */\n")), 1)
        self.assertEqual(len(self.faults(tidy.check_words, docs__a_DOT_md="see /ho" + "me/me\n")), 1)
        self.assertEqual(len(self.faults(tidy.check_words, docs__a_DOT_md="https://npm" + "js.org/x\n", Makefile="x: /tm" + "p/a\n")), 2)
        self.assertEqual(len(self.faults(tidy.check_words, docs__a_DOT_md="in /ho" + "me, or `/ro" + "ot`\n")), 1)
        self.assertEqual(self.faults(tidy.check_words, docs__a_DOT_md="https://semver.org, ${base}/tmp/x, a/work, /workers, Debian\n"), [])

    def test_a_long_function(self):
        for head in ("int f(void)\n{\n", "static int f(int a,\n         int b) {\n", "int f(void) {\n    if (x) {\n    }\n"):
            body = head + "    x(\"}\"); /* } */\n" * 71 + "}\n"
            self.assertEqual(len(self.faults(tidy.check_functions, src__base__a_DOT_c=HEAD + body)), 1, head)
        python = "# SPDX\ndef f():\n" + "    x()\n" * 71
        self.assertEqual(len(self.faults(tidy.check_functions, tools__a_DOT_py=python)), 1)

    def test_a_long_table_is_no_function(self):
        text = HEAD + "static const int t[] = {\n" + "    1,\n" * 100 + "};\n#define F(x) { \\\n    x\nint f(void)\n{\n}\n"
        self.assertEqual(self.faults(tidy.check_functions, src__base__a_DOT_c=text), [])

    def test_a_declaration_without_comment(self):
        self.assertEqual(len(self.faults(tidy.check_documented, include__isochron__nn_DOT_h=HEAD + "\nISO_API int f(void);\n")), 1)

    def test_a_name_taken_twice(self):
        files = {"tests__unit__a__test_x_DOT_c": HEAD, "tests__unit__b__test_x_DOT_c": HEAD}
        self.assertEqual(len(self.faults(tidy.check_names, **files)), 1)

    def test_a_header_that_needs_another(self):
        text = HEAD + "iso_unknown f(void);\n"
        self.assertEqual(len(self.faults(tidy.check_headers, include__isochron__nn_DOT_h=text)), 1)

    def test_impure_symbols(self):
        for symbol in ("malloc", "printf", "time", "pthread_create", "open", "getenv", "exp", "rand"):
            self.assertIsNone(tidy.PURE.match(symbol), symbol)
        self.assertTrue(tidy.PURE.match("memcpy") and tidy.PURE.match("iso_rng_u32"))

    def objects(self, text, target="iso_core", name="a.o"):
        """What check_symbols says of one object file of a layer."""
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder) / "CMakeFiles" / f"{target}.dir"
            place.mkdir(parents=True)
            subprocess.run(["cc", "-w", "-fPIC", "-c", "-x", "c", "-o", place / name, "-"], input=text, text=True, check=True)
            return list(tidy.check_symbols(tidy.Tree(folder, folder)))

    def test_objects(self):
        self.assertEqual(self.objects("extern int iso_x; int *const p = &iso_x; const int t[] = {1};"), [])
        self.assertEqual(len(self.objects("void *malloc(unsigned long); void *f(void) { return malloc(1); }")), 1)
        self.assertEqual(len(self.objects("int counter; int f(void) { static int calls = 1; return calls++; }")), 2)
        gone = self.objects("void *malloc(unsigned long); void *f(void) { return malloc(1); }", name="gone.c.o")
        self.assertEqual(["no objects" in m for m in gone], [True], "an object whose source is gone is nothing to look at: a fault")

    def test_objects_of_the_other_layers(self):
        def calls(name):
            return f"long {name}(void); long f(void) {{ return {name}(); }}"
        for target in ("iso_data", "iso_format", "iso_job"):
            self.assertEqual(self.objects(calls("strstr"), target), [])
            for name in ("open", "read", "fopen", "time", "clock_gettime", "pthread_create", "strtod", "getenv", "malloc", "exit"):
                self.assertEqual(len(self.objects(calls(name), target)), 1, (target, name))
        for target in ("iso_base", "iso_engine"):
            self.assertEqual(self.objects(calls("open"), target), [])
            for name in ("printf", "fprintf", "puts", "exit", "_exit", "getenv", "setlocale", "strtod", "rand", "sigaction"):
                self.assertEqual(len(self.objects(calls(name), target)), 1, (target, name))

    def test_exports(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "include" / "isochron").mkdir(parents=True)
            (root / "include" / "isochron" / "a.h").write_text("/* ISO_API int iso_no(void); */\nISO_API int iso_a(void);\n"
                                                               "ISO_API const char *const *iso_b(int\n x);\n")
            (root / "map").write_text("V { global: iso_*; local: *; };")
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", root / "libisochron.so", f"-Wl,--version-script={root}/map"],
                           input="int iso_a(void) { return 0; } int iso_c(void) { return 0; }", text=True, check=True)
            found = list(tidy.check_exports(tidy.Tree(root, root)))
            self.assertEqual(["iso_b" in found[0], "iso_c" in found[1], len(found)], [True, True, 2], found)

    def test_files_that_nothing_compiles_or_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            for name in ("src/base/a.c", "src/base/b.c", "tests/unit/base/test_a.c", "tests/program/test_b.py", "fuzz/fuzz_a.c"):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(HEAD)
            entry = [{"directory": str(root), "file": str(root / n)} for n in
                     ("src/base/a.c", "src/base/a.c", "tests/unit/base/test_a.c", "fuzz/fuzz_a.c")]
            (root / "compile_commands.json").write_text(json.dumps(entry))
            (root / "CTestTestfile.cmake").write_text("")
            found = list(tidy.check_built(tidy.Tree(root, root)))
            for words in ("a.c:1: compiled 2", "b.c:1: nothing compiles", "test_a.c:1: no test", "test_b.py:1: no test", "no corpus"):
                self.assertTrue(any(words in f for f in found), (words, found))
            self.assertEqual(len(found), 5, found)


if __name__ == "__main__":
    unittest.main()
