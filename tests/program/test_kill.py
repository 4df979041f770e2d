#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed, stopped or run out of disk, from outside: resumed, they end with the bytes of an unbroken one.

Runs the command named by ISOCHRON (build/isochron unless given) on small synthetic data. Standard library only.
    tests/program/test_kill.py [-v] [Class.test_name]          ISO_SEED=N replays the moments of the kills
"""
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
import unittest

import program
from program import ISO

SEED = int(os.environ.get("ISO_SEED", "1"))
JOB = """model: {{preset: mlp, hidden: [48]}}
data: {{path: {data}, validation: 0.1}}
batch: 32
epochs: {epochs}
seed: 3
optimizer: {{name: adam, learning_rate: 0.002}}
schedule: {{name: cosine}}
checkpoint: {{every: 7, seconds: 0}}
"""


def make_data(folder, train=2000, test=200, side=12, classes=5):
    rng = random.Random(7)
    folder.mkdir()
    for stem, count in (("train", train), ("t10k", test)):
        labels = [n % classes for n in range(count)]
        pixels = bytearray()
        for label in labels:
            noise = bytearray(rng.randbytes(side * side))
            noise[label * side:(label + 1) * side] = bytes(b // 2 + 128 for b in noise[label * side:(label + 1) * side])
            pixels += noise
        program.idx_set(folder, stem, side, pixels, labels)
    return folder


class Case(program.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = make_data(cls.base / "data")
        cls.job = cls.base / "job.yaml"
        cls.job.write_text(JOB.format(data=cls.data, epochs=120))
        cls.run_to_end(cls.base / "whole")
        cls.right = cls.summary(cls.base / "whole")

    @classmethod
    def run_to_end(cls, out, *more):
        r = subprocess.run([ISO, "train", str(cls.job), "--out", str(out), "--quiet", *more], capture_output=True,
                           text=True, timeout=300)
        if r.returncode:
            raise AssertionError(f"exit {r.returncode}: {r.stderr}")
        return r

    @staticmethod
    def summary(out):
        return json.loads((out / "summary.json").read_text())

    def begin(self, out, *more, **popen):
        return subprocess.Popen([ISO, "train", str(self.job), "--out", str(out), "--quiet", *more],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **popen)

    def wait_until(self, p, out, share):
        """Until the run has a checkpoint of this share of its rounds, and a little more: progress, since speeds differ."""
        def done():
            names = os.listdir(out) if out.exists() else []
            return max((int(n[11:-12]) for n in names if n.startswith("checkpoint-")), default=-1)
        while p.poll() is None and done() < share * self.right["rounds"]:
            time.sleep(0.002)

    def expect_whole(self, out):
        s = self.summary(out)
        for key in ("weights_sha256", "rounds", "samples", "epochs", "test_accuracy", "train_loss"):
            self.assertEqual(s[key], self.right[key], key)
        rounds = [json.loads(line)["round"] for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(rounds, list(range(1, self.right["rounds"] + 1)))
        for line in (out / "events.jsonl").read_text().splitlines():
            json.loads(line)
        self.assertEqual([f.name for f in out.iterdir() if "tmp" in f.name or f.name.endswith("~")], [])


class Killed(Case):
    def test_at_random_moments(self):
        rng = random.Random(SEED)
        cut = 0
        for n in range(8):
            out = self.base / f"kill{n}"
            for k in range(rng.randint(1, 3)):
                p = self.begin(out, "--workers", str(1 + rng.randint(0, 3)), *(["--resume"] if out.exists() else []))
                self.wait_until(p, out, rng.random() * 0.3 * (k + 1) - 0.05)
                time.sleep(rng.random() * 0.02)
                p.send_signal(signal.SIGKILL)
                p.communicate()
                cut += p.returncode == -signal.SIGKILL
            self.run_to_end(out, "--resume", "--workers", str(1 + n % 4))
            self.expect_whole(out)
            shutil.rmtree(out)
        self.assertGreater(cut, 4, "hardly any run was killed: nothing was proved")

    def test_by_signals_that_can_be_heard(self):
        rng = random.Random(SEED + 1)
        heard = 0
        for n, sig in enumerate((signal.SIGTERM, signal.SIGINT) * 4):
            out = self.base / f"stop{n}"
            p = self.begin(out, "--workers", str(1 + n % 3))
            while not (out / "metrics.jsonl").exists() and p.poll() is None:
                time.sleep(0.002)
            self.wait_until(p, out, rng.random() * 0.7 - 0.05)
            p.send_signal(sig)
            _, err = p.communicate()
            self.assertIn(p.returncode, (0, 128 + sig), err)
            if p.returncode:
                heard += 1
                self.assertTrue(list(out.glob("checkpoint-*.safetensors")), "no checkpoint was written")
                self.assertFalse((out / "model.safetensors").exists())
            self.run_to_end(out, "--resume", "--workers", str(1 + (n + 1) % 3))
            self.expect_whole(out)
        self.assertGreater(heard, 3, "hardly any run was stopped: nothing was proved")

    def test_the_second_signal_ends_at_once(self):
        out = self.base / "twice"
        p = self.begin(out, "--workers", "2", "--throttle", "64:1")
        while not (out / "events.jsonl").exists() and p.poll() is None:
            time.sleep(0.002)
        p.send_signal(signal.SIGTERM)
        p.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        p.communicate(timeout=30)
        self.assertLess(time.monotonic() - begun, 10)
        self.assertIn(p.returncode, (0, 128 + signal.SIGTERM))


class Disk(Case):
    def test_a_file_size_limit_is_an_error_with_the_path(self):
        """ulimit -f: writing beyond it fails (SIGXFSZ is ignored, as a careful parent does)."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        out = self.base / "limited"
        p = self.begin(out, "--workers", "2", preexec_fn=limit)
        _, err = p.communicate(timeout=120)
        self.assertEqual(p.returncode, 1, err)
        self.assertIn(str(out), err)
        self.assertFalse((out / "model.safetensors").exists())
        self.run_to_end(out, "--resume")
        self.expect_whole(out)

    def test_a_full_file_system(self):
        """A real one: 256 KiB of tmpfs, where mounting is allowed."""
        mount = self.base / "small"
        mount.mkdir()
        mounting = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(mount)]
        if os.geteuid() or subprocess.run(mounting, capture_output=True).returncode:
            self.skipTest("mounting a tmpfs is not allowed here")
        try:
            out = mount / "run"
            p = self.begin(out, "--workers", "2")
            _, err = p.communicate(timeout=120)
            self.assertEqual(p.returncode, 1, err)
            self.assertIn(str(out), err)
            self.assertIn("No space left", err)
            whole = self.base / "moved"
            shutil.copytree(out, whole)
            self.assertFalse([f for f in whole.iterdir() if f.name.endswith(".tmp")])
            self.run_to_end(whole, "--resume")
            self.expect_whole(whole)
        finally:
            subprocess.run(["umount", str(mount)], check=True)

    def test_a_folder_that_cannot_be_written(self):
        folder = self.base / "closed"
        folder.mkdir()
        folder.chmod(0o555)
        if os.geteuid() == 0:
            self.skipTest("root may write anywhere")
        p = self.begin(folder / "run")
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 1)
        self.assertIn(str(folder), err)


if __name__ == "__main__":
    unittest.main()
