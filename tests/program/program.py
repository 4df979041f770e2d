# SPDX-License-Identifier: Apache-2.0
"""What tests of the command share; imported, not run: where it is, IDX files, a case that runs it in scratch folders."""
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ISO = str(pathlib.Path(os.environ.get("ISOCHRON", ROOT / "build" / "isochron")).resolve())


def idx(path, dims, values):
    """Writes bytes as an IDX file."""
    path.write_bytes(struct.pack(">BBBB", 0, 0, 8, len(dims)) + b"".join(struct.pack(">I", d) for d in dims) + bytes(values))


def idx_set(folder, stem, side, pixels, labels):
    """Writes images of side x side bytes and their labels under the usual names."""
    idx(folder / f"{stem}-images-idx3-ubyte", (len(labels), side, side), pixels)
    idx(folder / f"{stem}-labels-idx1-ubyte", (len(labels),), labels)


class Case(unittest.TestCase):
    """self.base is a scratch folder of the class, self.tmp one of the test below it."""
    @classmethod
    def setUpClass(cls):
        cls.base = pathlib.Path(tempfile.mkdtemp(prefix="iso-program-"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.base, ignore_errors=True)

    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(dir=self.base))

    def iso(self, *args, code=0, stdin="", env=None, cwd=None, text=True):
        """Runs the command in self.tmp and expects its exit status; code None: any."""
        r = subprocess.run([ISO, *map(str, args)], capture_output=True, text=text, input=stdin if text else stdin.encode(), timeout=3600,
                           env={**os.environ, **(env or {})}, cwd=cwd or self.tmp)
        if code is not None:
            self.assertEqual(r.returncode, code, f"isochron {' '.join(map(str, args))}\n{r.stdout[-500:]}\n{r.stderr[-1500:]}")
        return r
