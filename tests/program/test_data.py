#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data and files as people have them, from outside: hidden files, two spellings of one file, sets that teach nothing, the best weights.

Runs the command named by ISOCHRON (build/isochron unless given) on small synthetic data. Standard library only.
    tests/program/test_data.py [-v] [Class.test_name]
"""
import gzip
import json
import shutil
import unittest

import program

SIDE = 4


def pixels(labels):
    """Easy images: brightness tells the class."""
    return bytes(label % 4 * 60 + (n * 7 + i * 3) % 20 for n, label in enumerate(labels) for i in range(SIDE * SIDE))


def make_set(folder, train, test=None, stems=("train", "t10k")):
    folder.mkdir(exist_ok=True)
    for stem, labels in zip(stems, (train, test)):
        if labels is not None:
            program.idx_set(folder, stem, SIDE, pixels(labels), labels)
    return folder


THREE = [n % 3 for n in range(60)]
TRAIN = ("train", "--model", "mlp", "--epochs", 2, "--workers", 1, "--set", "model.hidden=[8]")


class HiddenFiles(program.Case):
    """What begins with a dot is as if it were not there, in every command that looks into a folder."""
    def setUp(self):
        super().setUp()
        self.data = make_set(self.tmp / "set", THREE, THREE[:30])
        self.iso(*TRAIN, "--data", self.data, "--out", "clean")
        for name in ("._train-images-idx3-ubyte", "._train-labels-idx1-ubyte", "._t10k-images-idx3-ubyte", ".DS_Store",
                     ".train-labels-idx1-ubyte.swp", "train-images-idx3-ubyte~", ".t10k-labels-idx1-ubyte.gz"):
            (self.data / name).write_bytes(b"\0\5\x16\7")
        (self.data / ".ipynb_checkpoints").mkdir()

    def test_every_command_reads_the_folder_as_before(self):
        self.iso(*TRAIN, "--data", self.data, "--out", "run")
        weights = [json.loads((self.tmp / run / "summary.json").read_text())["weights_sha256"] for run in ("clean", "run")]
        self.assertEqual(*weights)
        self.assertIn("60 samples", self.iso("inspect", self.data).stdout)
        self.assertIn("30 test", self.iso("check", "--model", "mlp", "--data", self.data).stdout)
        self.assertIn(" of 30)", self.iso("evaluate", "run", "--data", self.data).stdout)
        self.assertEqual(self.iso("predict", "run", self.data).stdout.count("\n"), 31)
        (self.tmp / "c.yaml").write_text("nodes: [{name: a, speed: 1000}]\n")
        self.iso("simulate", "--model", "mlp", "--data", self.data, "--epochs", 1, "--cluster", "c.yaml", "--out", "sim", "--quiet")
        for value in (f"data.test={self.data}", f"data.validation={self.data}"):
            self.iso(*TRAIN, "--data", self.data, "--set", value, "--out", "run-" + value.partition("=")[0], "--quiet")

    def test_a_folder_of_hidden_files_alone_holds_nothing(self):
        for path in self.data.iterdir():
            if not path.name.startswith("."):
                path.unlink()
        r = self.iso("check", "--model", "mlp", "--data", self.data, code=1)
        self.assertIn("nothing but hidden files", r.stderr)

    def test_runs_are_listed_without_hidden_files(self):
        shutil.copytree(self.tmp / "clean", self.tmp / "clean" / ".old")
        self.assertNotIn(".old", self.iso("inspect", "clean").stdout)
        (self.tmp / "runs").mkdir()
        shutil.copytree(self.tmp / "clean", self.tmp / "runs" / "one")
        shutil.copytree(self.tmp / "clean", self.tmp / "runs" / ".one")
        self.assertEqual(len(json.loads(self.iso("compare", "--from", "runs", "--json").stdout)), 1)


class TwoSpellings(program.Case):
    """Two names of one file: the same bytes are one set, other bytes are an error with both names."""
    def test_each_file_of_a_set(self):
        data = make_set(self.tmp / "set", THREE, THREE[:30])
        for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
            whole = (data / name).read_bytes()
            other = whole[:-1] + bytes([whole[-1] ^ 1])
            for twin, pack in ((name.replace("-idx", ".idx"), bytes), (name.upper(), bytes), (name + ".gz", gzip.compress)):
                with self.subTest(name=name, twin=twin):
                    (data / twin).write_bytes(pack(whole))
                    self.iso("check", "--model", "mlp", "--data", data)
                    (data / twin).write_bytes(pack(other))
                    for command in (("check", "--model", "mlp", "--data", data), (*TRAIN, "--data", data), ("inspect", data)):
                        r = self.iso(*command, code=1)
                        self.assertIn(name, r.stderr)
                        self.assertIn(twin, r.stderr)
                        self.assertIn("two spellings", r.stderr)
                    (data / twin).unlink()


def warnings(r):
    return [line.removeprefix("warning: ") for line in r.stderr.splitlines() if line.startswith("warning: ")]


class Doubts(program.Case):
    """What is known of a data set before it is trained on is told, a line a fact, by every command that would train on it."""
    #  name, training labels, test labels, the sentences
    SETS = (
        ("even", THREE, THREE[:30], ()),
        ("never occurs", [0, 1, 4] * 20, [0, 1, 4] * 10, ("2 of 5 classes have no training sample: 2, 3",)),
        ("one is not there", [0, 2] * 20, [0, 2] * 10, ("1 of 3 classes has no training sample: 1",)),
        ("one alone", [2] * 40, [2] * 9, ("all 40 training samples are of class 2: there is nothing to tell apart",)),
        ("other classes", [0, 1] * 20, [1, 2, 3] * 4,
         ("2 of 4 classes have no training sample: 2, 3", "8 of 12 test samples are of classes without a training sample: 2, 3",
          "1 of 2 trained classes has no test sample: 0")),
        ("a test set of one class", THREE, [1] * 12, ("all 12 test samples are of class 1",)),
        ("less in the test set", THREE, [0, 2] * 6, ("1 of 3 trained classes has no test sample: 1",)),
        ("uneven", [0] * 50 + [1] * 5 + [2] * 20, THREE, ("the classes are uneven: 50 training samples of class 0, 5 of class 1",)),
        ("not very uneven", [0] * 49 + [1] * 5, [0, 1], ()),
        ("many", list(range(0, 40, 2)), list(range(0, 40, 2)),
         ("19 of 39 classes have no training sample: 1, 3, 5, 7, 9, 11, 13, 15 and 11 more",)),
    )

    def test_every_command_that_trains(self):
        (self.tmp / "c.yaml").write_text("nodes: [{name: a, speed: 1000}]\n")
        for n, (name, train, test, wanted) in enumerate(self.SETS):
            data = make_set(self.tmp / f"set{n}", train, test)
            job = ("--model", "mlp", "--set", "model.hidden=[8]", "--set", "workers=1", "--batch", 8, "--data", data)
            with self.subTest(name=name):
                for command in (("check", *job), ("check", *job, "--json"), ("train", *job, "--epochs", 1, "--out", f"a{n}", "--quiet"),
                                ("train", *job, "--epochs", 1, "--out", f"b{n}", "--json"),
                                ("simulate", *job, "--epochs", 1, "--cluster", "c.yaml", "--out", f"c{n}", "--quiet"),
                                ("compare", *job, "--epochs", 1, "--cluster", "c.yaml", "--sync", "bsp,nns", "--seeds", 2, "--json"),
                                ("inspect", data), ("inspect", data, "--json")):
                    r = self.iso(*command)
                    self.assertEqual(warnings(r), list(wanted), command[0])
                    if "--json" in command:
                        for text in [r.stdout] if command[0] != "train" else r.stdout.splitlines():
                            json.loads(text)
                told = json.loads(self.iso("check", *job, "--json").stdout)["warnings"]
                self.assertEqual(told, list(wanted))

    def test_validation_and_what_a_split_leaves(self):
        data = make_set(self.tmp / "set", THREE, THREE)
        other = make_set(self.tmp / "other", None, [0, 3] * 4)
        for command in ("check", "train"):
            r = self.iso(command, "--model", "mlp", "--data", data, "--workers", 1, "--batch", 8,
                         "--set", f"data.validation={other}")
            self.assertEqual(warnings(r), ["1 of 4 classes has no training sample: 3",
                                           "4 of 8 validation samples are of a class without a training sample: 3",
                                           "2 of 3 trained classes have no validation sample: 1, 2"])
        rare = make_set(self.tmp / "rare", [0, 1] * 30 + [2], [0, 1])  # its one sample of class 2 may be split off
        for seed in range(40):
            r = self.iso("check", "--model", "mlp", "--data", rare, "--workers", 1, "--batch", 8, "--seed", seed,
                         "--set", "data.validation=0.5")
            if "1 of 3 classes has no training sample: 2" in warnings(r):
                self.assertIn("1 of 31 validation samples are of a class without a training sample: 2", warnings(r))
                break
        else:
            self.fail("of 40 splits in halves none took the one sample")

    def test_more_outputs_than_classes_and_constant_images(self):
        data = make_set(self.tmp / "set", THREE, THREE)
        program.idx(data / "train-images-idx3-ubyte", (60, SIDE, SIDE), [7] * 60 * SIDE * SIDE)
        for command in ("check", "train"):
            r = self.iso(command, "--model", "mlp", "--data", data, "--workers", 1, "--batch", 8, "--set", "model.classes=5")
            self.assertEqual(warnings(r), ["1 of 1 channels of the training data are constant: they tell nothing",
                                           "2 of 5 classes have no training sample: 3, 4"])


class BestWeights(program.Case):
    """With a validation set: which file holds the best weights, and by what they are best, is told everywhere."""
    def test_summary_and_evaluate_agree(self):
        data = make_set(self.tmp / "set", THREE, THREE[:30])
        told = self.iso(*TRAIN, "--epochs", 4, "--data", data, "--set", f"data.validation={data}", "--out", "run").stdout
        summary = json.loads((self.tmp / "run" / "summary.json").read_text())
        events = [json.loads(line) for line in (self.tmp / "run" / "events.jsonl").read_text().splitlines()]
        losses = [e["validation_loss"] for e in events if e["event"] == "epoch"]
        best = summary["best"]
        self.assertEqual(best["file"], "best.safetensors")
        self.assertEqual(best["epoch"], losses.index(min(losses)) + 1)
        self.assertAlmostEqual(best["validation_loss"], min(losses), 6)
        self.assertIn("run/best.safetensors: epoch %d, the lowest validation loss" % best["epoch"], told)
        self.assertEqual(json.loads(self.iso("inspect", "run", "--json").stdout)["summary"]["best"]["epoch"], best["epoch"])
        r = json.loads(self.iso("evaluate", "run/best.safetensors", "--data", data, "--json").stdout)
        self.assertAlmostEqual(r["loss"], best["validation_loss"], 6)
        self.assertAlmostEqual(r["accuracy"], best["validation_accuracy"], 12)

    def test_without_validation_there_is_none(self):
        data = make_set(self.tmp / "set", THREE, THREE[:30])
        told = self.iso(*TRAIN, "--data", data, "--out", "run").stdout
        self.assertNotIn("best", told)
        self.assertIsNone(json.loads((self.tmp / "run" / "summary.json").read_text())["best"])

    def test_help_names_it(self):
        for words in (("train", "--help"), ("evaluate", "--help"), ("predict", "--help"), ("help", "job")):
            self.assertIn("best.safetensors", self.iso(*words).stdout, words)


if __name__ == "__main__":
    unittest.main()
