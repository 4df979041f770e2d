#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""isochron compare: figures of runs whose answers are known, in every form of output; mistakes that are named before hours of work.

Runs the command named by ISOCHRON (build/isochron unless given). Standard library only.
    tests/program/test_compare.py [-v] [Class.test_name]
"""
import csv
import io
import json
import math
import random
import signal
import struct
import subprocess
import time
import unittest
import xml.dom.minidom

import program

KEYS = ["sync", "seed", "seconds", "samples_per_second", "efficiency", "time_to", "test_accuracy", "syncs", "bytes_up", "bytes_down"]


def make_run(folder, sync, seed, accuracies, step=1.0, **more):
    """A finished run folder: a probe after every second round of `step` seconds each."""
    folder.mkdir(parents=True)
    (folder / "job.yaml").write_text(f"data: x\nmodel: lenet5\nsync: {sync}\nseed: {seed}\n")
    lines, seconds = [], 0
    for n, accuracy in enumerate(accuracies):
        for k in range(2):
            line = {"round": 2 * n + k + 1, "epoch": 1, "samples": 50, "seconds": step, "nodes": []}
            seconds += step
            if k and accuracy is not None:
                line["probe_accuracy"] = accuracy
            lines.append(json.dumps(line))
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "events.jsonl").write_text("")
    summary = {"test_accuracy": accuracies[-1], "epochs": 1, "rounds": len(lines), "samples": 50 * len(lines), "seconds": seconds,
               "samples_per_second": 50 * len(lines) / seconds if seconds else None, "efficiency": 0.5,
               "bytes_up": 2048, "bytes_down": 4096, "seed": seed,
               "engine": "simulate", "sync": sync, "nodes": []}
    (folder / "summary.json").write_text(json.dumps({**summary, **more}))
    return folder


class Case(program.Case):
    def runs(self):
        where = self.tmp / "runs"
        make_run(where / "a1", "bsp", 1, [0.5, 0.9, 0.96, 0.98], step=4.0)
        make_run(where / "a2", "bsp", 2, [0.5, 0.9, 0.97, 0.97], step=4.0, efficiency=0.7)
        make_run(where / "b1", "nns", 1, [0.9, 0.97, 0.99, 0.99], efficiency=None, test_accuracy=0.9912)
        (where / "notes.txt").write_text("not a run")
        return where


class Figures(Case):
    def test_json_has_a_run_a_line_of_the_list(self):
        rows = json.loads(self.iso("compare", "--from", self.runs(), "--json").stdout)
        self.assertEqual([(r["sync"], r["seed"]) for r in rows], [("bsp", 1), ("bsp", 2), ("nns", 1)])
        for r in rows:
            self.assertEqual(list(r), KEYS)
        self.assertEqual([r["time_to"] for r in rows], [{"0.97": 32, "0.98": 32}, {"0.97": 24, "0.98": None}, {"0.97": 4, "0.98": 6}])
        self.assertEqual([r["efficiency"] for r in rows], [0.5, 0.7, None])
        self.assertEqual(rows[2]["test_accuracy"], 0.9912)
        self.assertEqual((rows[0]["syncs"], rows[0]["bytes_up"], rows[0]["bytes_down"], rows[0]["seconds"]), (8, 2048, 4096, 32))

    def test_csv_says_the_same(self):
        where = self.runs()
        rows = list(csv.DictReader(io.StringIO(self.iso("compare", "--from", where, "--csv", "--accuracy", "0.9,97%,.999").stdout)))
        self.assertEqual([r["time_to_0.9"] for r in rows], ["16", "16", "2"])
        self.assertEqual([r["time_to_0.97"] for r in rows], ["32", "24", "4"])
        self.assertEqual([r["time_to_0.999"] for r in rows], ["", "", ""])
        self.assertEqual([float(r["test_accuracy"]) for r in rows], [0.98, 0.97, 0.9912])

    def test_the_table_has_means_and_spread(self):
        lines = self.iso("compare", "--from", self.runs()).stdout.splitlines()
        self.assertEqual(len(lines), 3)
        for word in ("sync", "samples/s", "E", "s to 0.97", "s to 0.98", "accuracy", "syncs", "up", "down"):
            self.assertIn(word, lines[0])
        bsp = " ".join(lines[1].split())
        self.assertIn("0.6000 +-0.1414", bsp)              # of 0.5 and 0.7
        self.assertIn(f"28.00 +-{math.sqrt(32):.2f}", bsp)  # of 32 and 24
        self.assertIn("1 of 2", bsp)                       # reached 0.98
        self.assertIn("2.0 KiB", bsp)
        self.assertRegex(lines[2], r"^nns +50 +- +4\.00 +6\.00 +0\.9912 ")
        self.assertEqual(len(set(map(len, lines))), 1, "columns do not line up")

    def test_a_run_without_probes_shows_its_epochs(self):
        run = make_run(self.tmp / "runs" / "a", "nns", 3, [None, None], test_accuracy=0.98)
        (run / "events.jsonl").write_text("".join(json.dumps(o) + "\n" for o in (
            {"event": "start", "seconds": 0}, {"event": "epoch", "seconds": 5, "test_accuracy": 0.96},
            {"event": "resume", "seconds": 0}, {"event": "epoch", "seconds": 2.5, "test_accuracy": 0.98})))
        rows = json.loads(self.iso("compare", "--from", self.tmp / "runs", "--json").stdout)
        self.assertEqual(rows[0]["time_to"], {"0.97": 7.5, "0.98": 7.5})


class Plot(Case):
    def plot(self, name, *more):
        r = self.iso("compare", "--from", self.runs(), "--plot", name, *more, code=None)
        if "without cairo" in r.stderr:
            self.skipTest("this build cannot draw")
        self.assertEqual(r.returncode, 0, r.stderr)
        return self.tmp / name

    def test_svg_is_a_picture_with_lines(self):
        text = self.plot("a.svg").read_text()
        picture = xml.dom.minidom.parseString(text).documentElement
        self.assertEqual(picture.tagName, "svg")
        widest = max((p.getAttribute("d").count("L") + p.getAttribute("d").count("C") for p in picture.getElementsByTagName("path")))
        self.assertGreater(widest, 100, "no line of a policy")
        self.assertLess(len(text), 400000)

    def test_png_is_a_picture(self):
        data = self.plot("a.PNG", "--time", "linear").read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", data[16:24])
        self.assertEqual(width, 2000)
        self.assertGreater(height, 800)

    def test_axes_differ_and_files_repeat(self):
        self.assertNotEqual(self.plot("a.svg", "--time", "log").read_text(), (self.plot_again("b.svg", "--time", "linear")).read_text())
        self.assertEqual((self.tmp / "a.svg").read_text(), self.plot_again("c.svg", "--time", "log").read_text())

    def plot_again(self, name, *more):
        self.iso("compare", "--from", self.tmp / "runs", "--plot", name, *more)
        return self.tmp / name

    def test_what_cannot_be_drawn_is_said(self):
        self.plot("a.svg")
        for name, code, words in (("a.pdf", 2, [".svg", ".png"]), ("nowhere/a.svg", 1, ["nowhere/a.svg"]),
                                  ("nowhere/a.png", 1, ["nowhere/a.png"])):
            r = self.iso("compare", "--from", self.tmp / "runs", "--plot", name, code=code)
            for word in words:
                self.assertIn(word, r.stderr)
        make_run(self.tmp / "dull" / "a", "nns", 1, [None, None], test_accuracy=None)
        self.assertIn("test set", self.iso("compare", "--from", self.tmp / "dull", "--plot", "b.svg", code=2).stderr)

    def test_odd_curves_are_drawn(self):
        """One point alone, an accuracy of 1, of 0, a time of 0."""
        where = self.tmp / "odd"
        make_run(where / "a", "nns", 1, [1.0])
        make_run(where / "b", "bsp", 1, [0.0, 0.0, 1.0], step=0)
        make_run(where / "c", "online", 1, [0.1] * 3, step=1e-6)
        self.plot("x.svg")
        for axis in ("linear", "log"):
            for end in ("svg", "png"):
                r = self.iso("compare", "--from", where, "--plot", f"odd.{end}", "--time", axis)
                self.assertEqual(r.stderr, "")
        self.assertNotIn("nan", (self.tmp / "odd.svg").read_text().lower())


class Simulations(program.Case):
    """Two policies and two seeds on four uneven machines: what compare makes and shows."""

    def setUp(self):
        super().setUp()
        random.seed(2)
        data = self.tmp / "data"
        data.mkdir()
        for stem, count in (("train", 600), ("t10k", 100)):
            labels = [i % 3 for i in range(count)]
            pixels = bytes(200 if k % 3 == label else random.randrange(120) for label in labels for k in range(36))
            program.idx(data / f"{stem}-images-idx3-ubyte", (count, 6, 6), pixels)
            program.idx(data / f"{stem}-labels-idx1-ubyte", (count,), labels)
        self.job = self.tmp / "j.yaml"
        self.job.write_text(f"data: {data}\nmodel: {{preset: mlp, hidden: [8]}}\nbatch: 30\nunit: 16\nepochs: 2\nseed: 5\n")
        self.cluster = self.tmp / "four.yaml"
        self.cluster.write_text("link: {bandwidth: 1Gbit, latency: 0.1ms}\nnodes:\n" + "".join(
            f"  - {{name: {name}, speed: {speed}}}\n" for name, speed in (("a", 4000), ("b", 2000), ("c", 1000), ("d", 500))))

    def compare(self, *more, **options):
        return self.iso("compare", self.job, "--cluster", self.cluster, "--accuracy", "0.5,0.9", *more, **options)

    def test_every_run_is_made_and_shown(self):
        r = self.compare("--sync", "bsp,nns:batch=60", "--seeds", 2, "--json", "--out", "kept", "--jobs", 3)
        rows = json.loads(r.stdout)
        self.assertEqual([(r["sync"], r["seed"]) for r in rows], [("bsp", 5), ("bsp", 6), ("nns:batch=60", 5), ("nns:batch=60", 6)])
        for row in rows:
            self.assertEqual(list(row), KEYS)
            self.assertEqual(row["syncs"], 40 if row["sync"] == "bsp" else 20)
            self.assertGreater(row["bytes_up"], 0)
            self.assertTrue(0 < row["efficiency"] < 1, row)
            self.assertAlmostEqual(row["efficiency"] * 7500, row["samples_per_second"], delta=1)
            self.assertTrue(0 < row["time_to"]["0.5"] <= row["seconds"], row)
        for word in ("bsp, seed 5: ", "nns:batch=60, seed 6: "):
            self.assertIn(word, r.stderr)
        self.assertEqual(json.loads((self.tmp / "kept" / "compare.json").read_text()), rows)
        kept = sorted(p.name for p in (self.tmp / "kept").iterdir() if p.is_dir())
        self.assertEqual(kept, ["01-bsp-seed5", "01-bsp-seed6", "02-nns-batch-60-seed5", "02-nns-batch-60-seed6"])
        for name in kept:
            self.iso("audit", self.tmp / "kept" / name)
        again = json.loads(self.iso("compare", "--from", "kept", "--accuracy", "0.5,0.9", "--json").stdout)
        self.assertEqual([{**r, "sync": None} for r in again], [{**r, "sync": None} for r in rows])
        self.assertIn("not empty", self.compare("--sync", "bsp", "--out", "kept", code=1).stderr)

    def test_jobs_change_nothing_and_nothing_is_left(self):
        scratch = self.tmp / "scratch"
        scratch.mkdir()
        out = [self.compare("--sync", "nns,bsp", "--csv", "--quiet", "--jobs", n, env={"TMPDIR": str(scratch)}) for n in (1, 2)]
        self.assertEqual(out[0].stdout, out[1].stdout)
        self.assertEqual(out[0].stderr, "")
        self.assertEqual(list(scratch.iterdir()), [])

    def test_a_run_that_fails_ends_all_and_says_why(self):
        self.cluster.write_text("nodes:\n  - {name: a, sped: 4000}\n")
        r = self.compare("--sync", "bsp,nns", code=2)
        self.assertIn("bsp, seed 5", r.stderr)
        self.assertIn("sped", r.stderr)
        self.assertEqual(r.stdout, "")

    def test_a_signal_ends_all_of_them(self):
        p = subprocess.Popen([program.ISO, "compare", str(self.job), "--cluster", str(self.cluster), "--sync", "bsp,nns",
                              "--epochs", "20000", "--out", "cut"], cwd=self.tmp, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.time() + 60
        while time.time() < end and p.poll() is None and not list((self.tmp / "cut").glob("*/metrics.jsonl")):
            time.sleep(0.01)
        p.send_signal(signal.SIGTERM)
        out, _ = p.communicate(timeout=60)
        self.assertEqual((p.returncode, out), (128 + signal.SIGTERM, ""))


class Mistakes(Case):
    def test_they_are_named_at_once(self):
        job = self.tmp / "j.yaml"
        job.write_text("data: x\nmodel: lenet5\n")
        (self.tmp / "empty").mkdir()
        cluster = ["--cluster", "c.yaml"]
        for args, words in (
                ([job], ["--cluster", "--sync", "--from"]),
                ([job, *cluster], ["--sync"]),
                ([job, *cluster, "--sync", "bsp,,nns"], ["--sync"]),
                ([job, *cluster, "--sync", "bsp,nnss"], ["nnss", "nns"]),
                ([job, *cluster, "--sync", "bsp,bsp"], ["twice"]),
                ([job, *cluster, "--sync", "bsp:batch=no"], ["batch", "no"]),
                ([job, *cluster, "--sync", "bsp:colour=red"], ["colour"]),
                ([job, *cluster, "--sync", "bsp", "--seeds", "0"], ["--seeds"]),
                ([job, *cluster, "--sync", "bsp", "--jobs", "x"], ["--jobs"]),
                ([job, *cluster, "--sync", "bsp", "--accuracy", "1.5"], ["--accuracy", "1.5"]),
                ([job, *cluster, "--sync", "bsp", "--accuracy", "0.9,"], ["--accuracy"]),
                ([job, *cluster, "--sync", "bsp", "--plot", "x.gif"], ["x.gif"]),
                ([job, *cluster, "--sync", "bsp", "--time", "sideways"], ["sideways", "linear", "log"]),
                ([self.tmp / "none.yaml", *cluster, "--sync", "bsp"], ["none.yaml"]),
                (["--from", "nowhere"], ["nowhere"]),
                (["--from", "empty"], ["empty"])):
            with self.subTest(args=args):
                r = self.iso("compare", *args, code=1 if "--from" in args else 2)
                for word in words:
                    self.assertIn(word, r.stderr)
                self.assertEqual(r.stdout, "")

    def test_help_of_sync(self):
        self.assertEqual(self.iso("compare", "--sync", "help").stdout, self.iso("help", "sync").stdout)


if __name__ == "__main__":
    unittest.main()
