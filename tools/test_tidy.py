#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that every check of tidy.py finds what it is for: a small tree with one fault each."""
import pathlib
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

    def test_a_long_function(self):
        body = "int f(void)\n{\n" + "    x();\n" * 71 + "}\n"
        self.assertEqual(len(self.faults(tidy.check_functions, src__base__a_DOT_c=HEAD + body)), 1)

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


if __name__ == "__main__":
    unittest.main()
