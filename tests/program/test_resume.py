#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Going on with a run: what is meant counts, not what it is called. Data, test set, labels, validation file and first weights may lie
elsewhere when they are the same; options go over the run's own job; whatever else differs is told, with what to do.

Runs the command named by ISOCHRON (build/isochron unless given) on small synthetic data. Standard library only.
    tests/program/test_resume.py [-v] [Class.test_name]
"""
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import program
from program import ISO

EPOCHS = 400
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def make_data(folder, seed=5, train=600, test=90):
    rng = random.Random(seed)
    folder.mkdir()
    for stem, count in (("train", train), ("t10k", test), ("other", test)):
        labels = [n % 3 for n in range(count)]
        pixels = bytes(min(255, 80 * (k % 3 == label) + rng.randrange(120)) for label in labels for k in range(16))
        program.idx_set(folder if stem != "other" else folder.parent, stem, 4, pixels, bytes(labels))


def sha(run):
    return json.loads((run / "summary.json").read_text())["weights_sha256"]


def flip_last_byte(path):
    b = bytearray(path.read_bytes())
    b[-1] ^= 1
    path.write_bytes(b)


class Case(program.Case):
    """self.base/d is the data that cls.stopped was begun with, by the relative path d; self.tmp gets a copy of both as e and r."""
    COMMAND = "train"
    JOB = ["--model", "mlp", "--data", "d", "--epochs", EPOCHS, "--set", "checkpoint.every=50", "--workers", "2"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_data(cls.base / "d")
        subprocess.run([ISO, *cls.words(*cls.JOB, "--out", "whole")], cwd=cls.base, check=True)
        cls.right = sha(cls.base / "whole")
        cls.stop_one("stopped", *cls.JOB)

    @classmethod
    def words(cls, *args):
        return [str(a) for a in (cls.COMMAND, *args, "--quiet")]

    @classmethod
    def stop_one(cls, out, *args):
        """Begins a run in self.base and stops it once it has a checkpoint."""
        p = subprocess.Popen([ISO, *cls.words(*args, "--out", out)], cwd=cls.base, stderr=subprocess.PIPE, text=True)
        end = time.time() + 60
        while not list((cls.base / out).glob("checkpoint-*")) and p.poll() is None and time.time() < end:
            time.sleep(0.002)
        p.send_signal(signal.SIGINT)
        err = p.communicate()[1]
        if p.returncode != 130:
            raise AssertionError(f"the run was not stopped: {p.returncode} {err}")
        return cls.base / out

    def setUp(self):
        super().setUp()
        shutil.copytree(self.base / "d", self.tmp / "e")
        shutil.copytree(self.base / "stopped", self.tmp / "r")

    def resume(self, *args, out="r", code=0):
        return self.iso(self.COMMAND, "--resume", "--out", out, *args, code=code)

    def expect_whole(self, run="r"):
        self.assertEqual(sha(self.tmp / run), self.right)
        self.iso("audit", run)

    def expect_refused(self, words, *args, out="r"):
        before = {f.name: f.read_bytes() for f in (self.tmp / out).iterdir()}
        r = self.resume(*args, out=out, code=1)
        for word in words:
            self.assertIn(word, r.stderr)
        self.assertEqual({f.name: f.read_bytes() for f in (self.tmp / out).iterdir()}, before)
        return r


class Moved(Case):
    def test_data_that_are_gone_are_told_with_the_way_on(self):
        r = self.expect_refused(["r/job.yaml:", "d (from the folder", "--resume --out r --data NEW"])
        self.assertNotIn("missing", r.stderr)
        self.expect_refused(["nowhere", "training data were at d", "--data NEW"], "--data", "nowhere")
        (self.tmp / "empty").mkdir()
        self.expect_refused(["empty", "training data were at d", "--data NEW"], "--data", "empty")

    def test_the_same_bytes_under_any_name(self):
        """Another folder, its full name, a link, packed, as files; by option, by --set, by a job file of any name."""
        os.symlink("e", self.tmp / "link")
        (self.tmp / "packed").mkdir()
        for name in FILES:
            (self.tmp / "packed" / f"{name}.gz").write_bytes(gzip.compress((self.tmp / "e" / name).read_bytes()))
        text = (self.tmp / "r" / "job.yaml").read_text()
        (self.tmp / "mine.yaml").write_text("\n".join(line if "path:" not in line else f"  path: {self.tmp}/e" for line in text.splitlines()
                                                      if not line.startswith(("name:", "out:"))) + "\n")
        ways = {"data": ["--data", "e"], "set": ["--set", "data.path=e"], "full": ["--data", self.tmp / "e"], "link": ["--data", "link"],
                "dots": ["--data", "./e/../e/"], "packed": ["--data", "packed"],
                "files": ["--data", f"e/{FILES[0]}", "--set", f"data.test=e/{FILES[2]}", "--set", "data.format=idx"],
                "labels": ["--data", f"e/{FILES[0]}", "--set", f"data.labels=e/{FILES[1]}", "--set", f"data.test=packed/{FILES[2]}.gz"],
                "job": [self.tmp / "mine.yaml"]}
        for name, args in ways.items():
            with self.subTest(way=name):
                shutil.copytree(self.tmp / "r", self.tmp / name / "run")
                self.resume(*args, "--workers", 3, out=f"{name}/run")
                self.expect_whole(f"{name}/run")
        self.resume(out="data/run")  # the new place is the run's own now

    def test_a_run_in_the_place_of_a_job_file(self):
        shutil.move(self.tmp / "r", self.tmp / "moved")
        self.iso(self.COMMAND, "moved", "--resume", "--data", "e")
        self.expect_whole("moved")

    def test_other_data_under_the_same_name(self):
        """Both places and both fingerprints are named, of whichever set it is, and what to do."""
        shutil.copytree(self.tmp / "e", self.tmp / "d")
        for file, words in ((FILES[0], ["training set", "--data PATH"]), (FILES[1], ["training set"]),
                            (FILES[2], ["test set", "--set data.test=PATH"]), (FILES[3], ["test set"])):
            with self.subTest(file=file):
                flip_last_byte(self.tmp / "d" / file)
                r = self.expect_refused(["d (fingerprint ", "--init r --out NEW", *words])
                self.assertEqual(len({w.strip(")") for w in r.stderr.split() if len(w.strip(")")) == 16}), 2, r.stderr)
                shutil.copy(self.tmp / "e" / file, self.tmp / "d" / file)
        for file in FILES[2:]:
            (self.tmp / "d" / file).unlink()
        self.expect_refused(["test set was d (fingerprint", "is none now"])
        self.resume("--set", f"data.test=e/{FILES[2]}")
        self.expect_whole()

    def test_what_the_run_was_not_begun_with_is_refused_with_the_way_that_works(self):
        for key, args, values in (("epochs", ["--epochs", EPOCHS + 1], [str(EPOCHS), str(EPOCHS + 1)]),
                                  ("batch", ["--batch", 65], ["64", "65"]),
                                  ("model.hidden", ["--set", "model.hidden=[7]"], ["[7]"]), ("sync", ["--sync", "bsp"], ["nns", "bsp"]),
                                  ("data.validation", ["--set", "data.validation=0.5"], ["0.5"]), ("seed", ["--seed", 9], ["9"]),
                                  ("init", ["--init", "whole"], ["not set", "whole"])):
            with self.subTest(key=key):
                self.expect_refused([f"{key} was", "--init r --out NEW", *values], "--data", "e", *args)
        self.resume("--data", "e", "--epochs", EPOCHS, "--batch", 64, "--set", "sync={policy: nns}")  # what is the same may be said
        self.expect_whole()
        self.iso(self.COMMAND, "--model", "mlp", "--data", "e", "--epochs", 1, "--init", "r", "--out", "NEW", "--quiet")
        self.assertIn("epochs was", self.resume("--epochs", EPOCHS + 1, code=1).stderr)  # of a finished run as well

    def test_without_a_run(self):
        for args in (["--resume", "--out", "nowhere"], ["e", "--resume"]):
            self.assertIn("no job.yaml", self.iso(self.COMMAND, *args, code=2).stderr)
        self.resume("--model", "mlp", "--data", "e", "--epochs", 1, out="fresh")
        self.assertTrue((self.tmp / "fresh" / "summary.json").exists())


class MovedWithMore(Case):
    """A run that began from weights, with a validation file."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.more = [*cls.JOB[:4], "--epochs", EPOCHS, *cls.JOB[6:], "--init", "m", "--set", "data.validation=other-images-idx3-ubyte"]
        subprocess.run([ISO, *cls.words("--model", "mlp", "--data", "d", "--epochs", 1, "--out", "m")], cwd=cls.base, check=True)
        shutil.rmtree(cls.base / "whole")
        subprocess.run([ISO, *cls.words(*cls.more, "--out", "whole")], cwd=cls.base, check=True)
        cls.right = sha(cls.base / "whole")
        shutil.rmtree(cls.base / "stopped")
        cls.stop_one("stopped", *cls.more)

    def test_first_weights_are_needed_no_more(self):
        for name in ("other-images-idx3-ubyte", "other-labels-idx1-ubyte"):
            shutil.copy(self.base / name, self.tmp / name)
        self.resume("--data", "e")  # m is gone
        self.expect_whole()

    def test_validation_and_first_weights_elsewhere(self):
        for stem in ("images-idx3", "labels-idx1"):
            shutil.copy(self.base / f"other-{stem}-ubyte", self.tmp / f"v-{stem}-ubyte")
        shutil.copytree(self.base / "m", self.tmp / "n")
        self.expect_refused(["validation set was at other-images", "--set data.validation=NEW"], "--data", "e")
        moved = ["--data", "e", "--set", "data.validation=v-images-idx3-ubyte"]
        self.expect_refused(["init was m (weights ", "is r (weights ", "leave it out"], *moved, "--init", "r")
        self.resume(*moved, "--init", "n/model.safetensors")
        self.expect_whole()

    def test_another_validation_set(self):
        for stem in ("images-idx3", "labels-idx1"):
            shutil.copy(self.base / f"other-{stem}-ubyte", self.tmp / f"other-{stem}-ubyte")
        flip_last_byte(self.tmp / "other-images-idx3-ubyte")
        self.expect_refused(["validation set was other-images", "--set data.validation=PATH"], "--data", "e")


if __name__ == "__main__":
    unittest.main()
