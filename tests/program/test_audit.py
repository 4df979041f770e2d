#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""isochron audit: real runs are in order, killed and resumed ones too; a log that lost or doubled a line is not, and the line is named.

Runs the command named by ISOCHRON (build/isochron unless given) on small synthetic data. Standard library only.
    tests/program/test_audit.py [-v] [Class.test_name]
"""
import json
import random
import shutil
import signal
import subprocess
import time
import unittest

import program
from program import ISO

SAMPLES = 2000


def make_data(folder):
    folder.mkdir()
    random.seed(3)
    for stem, count in (("train", SAMPLES), ("t10k", 100)):
        program.idx_set(folder, stem, 4, random.randbytes(16 * count), bytes(i % 3 for i in range(count)))
    return folder


class Case(program.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.job = cls.base / "j.yaml"
        cls.job.write_text(f"data: {make_data(cls.base / 'data')}\nmodel: {{preset: mlp, hidden: [8]}}\nbatch: 90\nunit: 16\nepochs: 3\n"
                           "optimizer: {name: sgd, learning_rate: 0.01}\n")
        cls.done = cls.base / "done"
        subprocess.run([ISO, "train", str(cls.job), "--workers", "3", "--out", str(cls.done), "--quiet"], check=True, timeout=120)

    def setUp(self):
        super().setUp()
        self.run_folder = self.tmp / "run"

    def copy(self):
        shutil.copytree(self.done, self.run_folder)
        return self.run_folder / "events.jsonl"

    def audit(self, code=0):
        """The object of --json, which must tell the same as the table."""
        r = self.iso("audit", self.run_folder, "--json", code=code)
        plain = self.iso("audit", self.run_folder, code=code)
        report = json.loads(r.stdout)
        more = report["fault_count"] > len(report["faults"])
        self.assertEqual(len(plain.stderr.splitlines()), len(report["faults"]) + more + len(report["missing"]))
        self.assertEqual("NOT in order" in plain.stdout, code == 1)
        return report


class Runs(Case):
    def test_every_policy_of_threads_is_in_order(self):
        longest = 0
        for sync, workers, batch in (("nns", 1, 90), ("nns", 5, 700), ("bsp", 3, 90), ("cumulative", 2, 90), ("online", 2, 90),
                                     ("hmdspt", 3, 90), ("ssp", 3, 90), ("lb-bsp:payload=int8", 2, 90)):
            with self.subTest(sync=sync, workers=workers, batch=batch):
                out = self.run_folder.with_name(f"{sync[:6]}{workers}-{batch}")
                slow = ["--set", "model={preset: mlp, hidden: [800, 400]}"] if sync == "cumulative" else [] # workers take turns often
                self.iso("train", self.job, "--sync", sync, "--workers", workers, "--batch", batch, "--out", out, "--quiet", *slow)
                report = json.loads(self.iso("audit", out, "--json").stdout)
                self.assertEqual(report["verdict"], "whole")
                self.assertEqual(report["epochs"], [{"epoch": e, "once": SAMPLES, "more": 0, "never": 0} for e in (1, 2, 3)])
                counted = [o for o in map(json.loads, (out / "events.jsonl").read_text().splitlines()) if o["event"] == "counted"]
                self.assertEqual(len(counted), report["lines"])
                self.assertEqual(sum(n for o in counted for _, n in o["positions"]), 3 * SAMPLES)
                self.assertLessEqual({o["node"] for o in counted}, {f"worker-{i}" for i in range(workers)})
                longest = max(longest, *(len(o["positions"]) for o in counted))
        self.assertGreater(longest, 2, "no line with many ranges was tried")

    def test_the_table_is_short(self):
        shutil.copytree(self.done, self.run_folder)
        r = self.iso("audit", self.run_folder)
        self.assertRegex(r.stdout, r"(?m)^epoch +once +more than once +never$")
        self.assertRegex(r.stdout, r"(?m)^1 to 3 +2,000 +0 +0$")
        self.assertIn("each of 2,000 samples was counted exactly once in each of 3 epochs", r.stdout)
        self.assertEqual(r.stderr, "")

    def test_killed_and_resumed_runs_are_in_order(self):
        flags = ["--set", "checkpoint.every=7", "--set", "model={preset: mlp, hidden: [500, 400]}", "--epochs", "100", "--quiet",
                 "--out", self.run_folder]
        for n in range(4):
            resume = ["--resume"] if n else []
            p = subprocess.Popen([ISO, "train", str(self.job), "--workers", str(1 + n), *map(str, flags), *resume])
            end = time.time() + 60
            before = {f.name for f in self.run_folder.glob("checkpoint-*")} if n else set()
            while p.poll() is None and time.time() < end and not {f.name for f in self.run_folder.glob("checkpoint-*")} - before:
                time.sleep(0.005)
            time.sleep(0.05 * random.random())
            p.send_signal(signal.SIGKILL if n % 2 == 0 else signal.SIGTERM)
            p.wait()
            self.assertNotEqual(p.returncode, 0, "the run was over before it could be stopped: nothing was tried")
            report = self.audit()
            self.assertEqual(report["verdict"], "incomplete")
            self.assertFalse(report["finished"])
            self.assertGreater(report["lines"], 0)
            for e in report["epochs"][:-1]:
                self.assertEqual((e["once"], e["more"]), (SAMPLES, 0))
        self.iso("train", self.job, "--workers", 2, *flags, "--resume")
        report = self.audit()
        self.assertEqual(report["verdict"], "whole")
        self.assertEqual(len(report["epochs"]), 100)
        self.assertGreater(report["resumes"], 1)


class Doctored(Case):
    def doctor(self, change):
        """Applies change(lines, indices of counted lines), returns the faults."""
        path = self.copy()
        lines = path.read_text().splitlines(keepends=True)
        change(lines, [i for i, line in enumerate(lines) if '"counted"' in line])
        path.write_text("".join(lines))
        return self.audit(code=1)

    def words_of(self, line):
        o = json.loads(line)
        return f"epoch {o['epoch']}, round {o['round']}, node {o['node']}", sum(n for _, n in o["positions"]), o["epoch"]

    def test_a_lost_line_is_named(self):
        for where in (0, 17, -1):
            with self.subTest(where=where):
                gone = []
                report = self.doctor(lambda lines, counted: gone.append(lines.pop(counted[where])))
                words, samples, epoch = self.words_of(gone[0])
                self.assertTrue(any(f.startswith(words) for f in report["faults"]), report["faults"])
                self.assertEqual(report["epochs"][epoch - 1], {"epoch": epoch, "once": SAMPLES - samples, "more": 0, "never": samples})
                shutil.rmtree(self.run_folder)

    def test_a_doubled_line_is_named(self):
        for where, place in ((0, 0), (17, 0), (-1, 0), (5, 30)):
            with self.subTest(where=where, place=place):
                twin = []

                def double(lines, counted):
                    twin.append(lines[counted[where]])
                    lines.insert(counted[where] + 1 + place, twin[0])
                report = self.doctor(double)
                words, samples, epoch = self.words_of(twin[0])
                self.assertTrue(any(words in f and "counted before" in f and f.startswith("events.jsonl:") for f in report["faults"]),
                                report["faults"])
                self.assertEqual(report["epochs"][epoch - 1], {"epoch": epoch, "once": SAMPLES - samples, "more": samples, "never": 0})
                shutil.rmtree(self.run_folder)

    def test_a_changed_position_is_named(self):
        def shift(lines, counted):
            # a line of one range: in one of several the changed range would be out of order, which is another fault
            where = next(i for i in counted[20:] if len(json.loads(lines[i])["positions"]) == 1)
            o = json.loads(lines[where])
            o["positions"][0][0] = (o["positions"][0][0] + 400) % 1600
            lines[where] = json.dumps(o) + "\n"
        report = self.doctor(shift)
        self.assertTrue(any("counted before" in f for f in report["faults"]), report["faults"])
        self.assertTrue(any("never counted" in f for f in report["faults"]), report["faults"])

    def test_a_line_credited_to_another_node_is_named(self):
        def swap(lines, counted):
            o = json.loads(lines[counted[9]])
            o["node"] = "worker-9"
            lines[counted[9]] = json.dumps(o) + "\n"
        report = self.doctor(swap)
        self.assertEqual([e["never"] + e["more"] for e in report["epochs"]], [0, 0, 0])

    def test_garbage_has_its_line(self):
        def spoil(lines, counted):
            lines[counted[3]] = lines[counted[3]][:40] + "\n"
        number = 1 + next(i for i, line in enumerate((self.done / "events.jsonl").read_text().splitlines()) if '"counted"' in line) + 3
        report = self.doctor(spoil)
        self.assertTrue(any(f.startswith(f"events.jsonl:{number}: ") for f in report["faults"]), report["faults"])

    def test_a_cut_log_of_a_finished_run_is_a_fault(self):
        path = self.copy()
        path.write_bytes(path.read_bytes()[:-9])
        self.assertTrue(any("cut" in f for f in self.audit(code=1)["faults"]))

    def test_the_log_must_be_that_of_the_job(self):
        for change, words in (
                (lambda f: self.replace(f / "job.yaml", "epochs: 3", "epochs: 4"), "epochs"),
                (lambda f: self.edit(f / "summary.json", "samples", 5999), "5999"),
                (lambda f: self.edit(f / "summary.json", "rounds", 7), "7 rounds"),
                (lambda f: self.replace(f / "events.jsonl", '"samples":2000', '"samples":1999'), "1999"),
                (lambda f: (f / "events.jsonl").write_text('{"event":"start","round":0,"samples":2000,"epochs":3}\n'), "without an audit")):
            with self.subTest(words=words):
                self.copy()
                change(self.run_folder)
                self.assertIn(words, "\n".join(self.audit(code=1)["faults"]))
                shutil.rmtree(self.run_folder)

    @staticmethod
    def replace(path, old, new):
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    @staticmethod
    def edit(path, key, value):
        path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))

    def test_what_is_no_run_is_said(self):
        (self.base / "plain").mkdir(exist_ok=True)
        for path, words in ((self.base / "nowhere", "no such folder"), (self.job, "run folder"), (self.base / "plain", "job.yaml")):
            r = self.iso("audit", path, code=1)
            self.assertIn(words, r.stderr)
            self.assertEqual(r.stdout, "")
        events = self.copy()
        events.unlink()
        self.assertIn("events.jsonl", self.iso("audit", self.run_folder, code=1).stderr)
        events.write_text("")
        self.assertIn("events.jsonl", self.iso("audit", self.run_folder, code=1).stderr)
        self.iso("audit", code=2)


if __name__ == "__main__":
    unittest.main()
