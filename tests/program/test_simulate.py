#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""isochron simulate: the weights of `train` on any cluster and in any disaster, runs that replay, planted faults that are found,
thousands of machines, and the clusters of examples/.

Runs the command named by ISOCHRON (build/isochron unless given) on small synthetic data. Standard library only. ISO_SEEDS=1..10000
widens the fault seeds (`make swarm`).
    tests/program/test_simulate.py [-v] [Class.test_name]
"""
import json
import os
import random
import signal
import subprocess
import time
import unittest

import program
from program import ISO, ROOT

SAMPLES = 600
CLUSTERS = ROOT / "examples" / "clusters"
EXACT = ["bsp", "nns", "lb-bsp"]
POLICIES = EXACT + ["online", "cumulative", "lb-bsp:payload=int8", "ssp", "asp", "local-sgd", "post-local", "adacomm", "fda", "diloco",
                    "mixbp", "hmdspt", "hmdspt:payload=int4"]
CALM = """link: {bandwidth: 1Gbit, latency: 0.5ms}
nodes:
  - {name: a, speed: 4000}
  - {name: b, speed: 2000}
  - {name: c, speed: 1000}
  - {name: d, speed: 500}
"""


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def summary(run):
    return json.loads((run / "summary.json").read_text())


class Case(program.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random.seed(5)
        data = cls.base / "data"
        data.mkdir()
        for stem, count in (("train", SAMPLES), ("t10k", 90)):
            labels = [random.randrange(3) for _ in range(count)]
            pixels = bytes(min(255, 80 * (k % 3 == label) + random.randrange(120)) for label in labels for k in range(16))
            program.idx_set(data, stem, 4, pixels, bytes(labels))
        cls.job = cls.base / "j.yaml"
        cls.job.write_text(f"data: {data}\nmodel: {{preset: mlp, hidden: [8]}}\nbatch: 96\nunit: 16\nepochs: 2\nseed: 3\n"
                           "optimizer: {name: sgd, learning_rate: 0.01}\n")
        cls.calm = cls.base / "calm.yaml"
        cls.calm.write_text(CALM)

    def simulate(self, *args, cluster=None, out="run", code=0):
        return self.iso("simulate", self.job, "--cluster", cluster or self.calm, "--out", self.tmp / out, *args, code=code)


class Results(Case):
    def test_exact_policies_have_the_weights_of_threads(self):
        self.iso("train", self.job, "--workers", 2, "--out", self.tmp / "train", "--quiet")
        right = summary(self.tmp / "train")["weights_sha256"]
        for cluster in [self.calm, *(CLUSTERS / f"{c}.yaml" for c in ("uneven4", "drift", "noisy", "flaky"))]:
            for sync in EXACT:
                with self.subTest(cluster=cluster.name, sync=sync):
                    out = f"{cluster.stem}-{sync}"
                    self.simulate("--sync", sync, "--quiet", cluster=cluster, out=out)
                    self.assertEqual(summary(self.tmp / out)["weights_sha256"], right)

    def test_every_policy_counts_every_sample_once(self):
        for sync in POLICIES:
            with self.subTest(sync=sync):
                out = self.tmp / sync
                self.simulate("--sync", sync, "--quiet", out=out)
                s = summary(out)
                self.assertEqual((s["samples"], s["engine"], len(s["nodes"])), (2 * SAMPLES, "simulate", 4))
                self.assertTrue(0 < s["efficiency"] <= 1.0001, s["efficiency"])
                self.assertEqual(sum(n["samples"] for n in s["nodes"]), 2 * SAMPLES)
                rounds = lines(out / "metrics.jsonl")
                self.assertEqual([r["round"] for r in rounds], list(range(1, s["rounds"] + 1)))
                self.assertEqual(sum(r["bytes_up"] for r in rounds), s["bytes_up"])
                self.assertTrue(any("probe_accuracy" in r for r in rounds))
                self.iso("audit", out)

    def test_one_node_is_serial_whatever_the_way(self):
        """A lone node of local steps has the weights of `online` steps of the same size, since it is alone."""
        (self.tmp / "one.yaml").write_text("nodes: [{name: a, speed: 1000}]")
        seen = set()
        for sync in ("local-sgd:local_batch=16:period=4", "local-sgd:local_batch=16:period=9", "hmdspt:local_batch=16:payload=int4"):
            self.simulate("--sync", sync, "--quiet", cluster=self.tmp / "one.yaml", out=sync)
            seen.add(summary(self.tmp / sync)["weights_sha256"])
        self.assertEqual(len(seen), 1)

    def test_times_are_virtual(self):
        """Speeds 4:2:1:0.5 thousand and batches that divide evenly: a round of `nns` takes what the slowest unit takes."""
        (self.tmp / "ideal.yaml").write_text("link: {bandwidth: unlimited, latency: 0}\n"
                                             "nodes: [{name: a, speed: 100}, {name: b, speed: 100}]")
        self.simulate("--sync", "bsp", "--quiet", "--batch", 64, cluster=self.tmp / "ideal.yaml")
        s = summary(self.tmp / "run")
        self.assertAlmostEqual(s["samples"] / s["samples_per_second"], SAMPLES * 2 / 200, delta=0.5)
        self.assertGreater(s["efficiency"], 0.9)
        full = [r["seconds"] for r in lines(self.tmp / "run" / "metrics.jsonl") if r["samples"] == 64]
        self.assertTrue(all(abs(x - 0.32) < 0.001 for x in full[2:]), full)

    def test_links_cost_what_their_bandwidth_says(self):
        seconds = {}
        for bandwidth in ("1Mbit", "2Mbit"):
            (self.tmp / "c.yaml").write_text(f"link: {{bandwidth: {bandwidth}, latency: 0}}\nnodes: [{{name: a, speed: 1e9}}]")
            self.simulate("--sync", "bsp", "--quiet", cluster=self.tmp / "c.yaml", out=bandwidth)
            seconds[bandwidth] = sum(r["seconds"] for r in lines(self.tmp / bandwidth / "metrics.jsonl"))
        self.assertAlmostEqual(seconds["1Mbit"] / seconds["2Mbit"], 2, delta=0.1)

    def test_a_far_machine_holds_nobody_up(self):
        """Frames that are under way for seconds take no wire: the near machine's steps of 16 samples at 10 a second take 1.6 s each."""
        (self.tmp / "far.yaml").write_text("nodes: [{name: near, speed: 10}, {name: far, speed: 10, link: {latency: 10s}}]")
        self.simulate("--sync", "asp", "--batch", 16, "--epochs", 1, "--quiet", "--cost-model", cluster=self.tmp / "far.yaml")
        rounds = lines(self.tmp / "run" / "metrics.jsonl")
        far = [n["samples"] for r in rounds for n in r["nodes"] if n["name"] == "far"]
        self.assertTrue(any(far[:-4]) and len(rounds) > 30, far)
        self.assertLess(max(r["seconds"] for r in rounds[:-4]), 1.61)


class Replay(Case):
    def test_equal_seeds_give_equal_files(self):
        for sync in ("hmdspt", "nns", "asp"):
            for n in "12":
                self.simulate("--sync", sync, "--fault-seed", 5, "--quiet", cluster=CLUSTERS / "noisy.yaml", out=sync + n)
            a, b = ((self.tmp / (sync + n) / "metrics.jsonl").read_bytes() for n in "12")
            self.assertEqual(a, b, sync)

    def test_other_seeds_give_other_times(self):
        seen = {}
        for seed in (1, 2):
            self.simulate("--fault-seed", seed, "--quiet", cluster=CLUSTERS / "noisy.yaml", out=str(seed))
            seen[summary(self.tmp / str(seed))["seconds"]] = summary(self.tmp / str(seed))["weights_sha256"]
        self.assertEqual((len(seen), len(set(seen.values()))), (2, 1))

    def test_a_stopped_run_goes_on(self):
        """Killed at any moment and resumed: the weights of the run that was not."""
        job = ["--epochs", "60", "--set", "checkpoint.every=5", "--quiet"]
        self.simulate(*job, out="whole")
        for n in range(3):
            out = self.tmp / f"cut{n}"
            p = subprocess.Popen([ISO, "simulate", str(self.job), "--cluster", str(self.calm), "--out", str(out), *job])
            end = time.time() + 60
            while not list(out.glob("checkpoint-*")) and p.poll() is None and time.time() < end:
                time.sleep(0.002)
            time.sleep(0.03 * n)
            p.send_signal(signal.SIGKILL if n else signal.SIGINT)
            p.wait(timeout=60)
            self.simulate("--resume", *job, out=out)
            self.assertEqual(summary(out)["weights_sha256"], summary(self.tmp / "whole")["weights_sha256"])
            self.iso("audit", out)


class Faults(Case):
    def test_fault_seeds(self):
        """None lost, none doubled, none hung, whatever was drawn; exact policies keep the weights."""
        seeds = os.environ.get("ISO_SEEDS", "1..200")
        first, last = map(int, seeds.split(".."))
        for n, sync in enumerate(POLICIES):
            share = (last - first + 1 + len(POLICIES) - 1) // len(POLICIES)
            a = first + n * share
            if a > last:
                break
            with self.subTest(sync=sync, seeds=f"{a}..{min(a + share - 1, last)}"):
                r = self.simulate("--sync", sync, "--fault-seeds", f"{a}..{min(a + share - 1, last)}", "--quiet", "--force", out=f"s{n}")
                self.assertIn("all right", r.stdout)
        weights = set()
        for seed in (1, 2, 3):
            self.simulate("--fault-seed", seed, "--quiet", out=f"w{seed}")
            weights.add(summary(self.tmp / f"w{seed}")["weights_sha256"])
        self.assertEqual(len(weights), 1)

    def test_what_was_drawn_is_said_first(self):
        r = self.simulate("--fault-seed", 77)
        for word in ("seed 3, fault seed 77", "loss ", "/1000", "fault phase"):
            self.assertIn(word, r.stderr)
        self.assertLess(r.stderr.index("fault seed 77"), r.stderr.index("epoch 1/2"))

    def test_canaries_are_found(self):
        found = {"double-count": (10, "samples"), "bit-flip": (10, "replica"), "lost-wakeup": (11, "nothing that counts")}
        for canary, (code, words) in found.items():
            for sync in ("nns", "bsp", "lb-bsp:payload=int8", "hmdspt", "mixbp", "ssp", "asp"):
                with self.subTest(canary=canary, sync=sync):
                    r = self.simulate("--sync", sync, "--canary", canary, "--quiet", out=canary + sync, code=code)
                    self.assertIn(words, r.stderr)
                    self.assertFalse((self.tmp / (canary + sync) / "summary.json").exists())

    def test_a_cluster_that_dies_for_good_is_stuck(self):
        (self.tmp / "dead.yaml").write_text("nodes: [{name: a, speed: 100, events: [{at: 1s, crash: true}]}]")
        r = self.simulate("--quiet", cluster=self.tmp / "dead.yaml", code=11)
        self.assertIn("after round", r.stderr)

    def test_a_cluster_that_gets_slow_is_not_stuck(self):
        """What the file itself says of a machine is no reason to give up: work of hours is still work."""
        (self.tmp / "slow.yaml").write_text("nodes: [{name: a, speed: 1000, events: [{at: 50ms, speed: 1}]}]")
        (self.tmp / "late.yaml").write_text("nodes: [{name: a, speed: 1000, outliers: {rate: 1/3, factor: 1e5}}]")
        (self.tmp / "busy.yaml").write_text("nodes: [{speed: 1000, bursts: {every: 1us, length: 1us, factor: 1e-3}}]")
        for name in ("slow", "late", "busy"):
            self.simulate("--quiet", "--epochs", 1, out=name, cluster=self.tmp / f"{name}.yaml")
            self.iso("audit", self.tmp / name)

    def test_mistakes(self):
        (self.tmp / "bad.yaml").write_text("nodes: [{name: a, sped: 3}]")
        for args, words in ((["--cluster", "no.yaml"], ["no.yaml"]), (["--cluster", "bad.yaml"], ["bad.yaml:1:19:", "speed"]),
                            (["--cluster", self.calm, "--canary", "bitflip"], ["bit-flip"]),
                            (["--cluster", self.calm, "--fault-seed", "x"], ["fault-seed"]),
                            (["--cluster", self.calm, "--fault-seeds", "5..2"], ["5..2"]),
                            (["--cluster", self.calm, "--fault-seed", "1", "--fault-seeds", "1..2"], ["exclude"]), ([], ["--cluster"])):
            r = self.iso("simulate", self.job, "--out", self.tmp / "no", *args, code=2)
            for word in words:
                self.assertIn(word, r.stderr)
            self.assertFalse((self.tmp / "no").exists())


class Machines(Case):
    def test_a_thousand_machines(self):
        for sync in ("nns", "hmdspt", "asp"):
            self.simulate("--sync", sync, "--cost-model", "--quiet", "--unit", 16, cluster=CLUSTERS / "thousand.yaml", out=sync)
            s = summary(self.tmp / sync)
            self.assertEqual((s["samples"], len(s["nodes"]), s["test_accuracy"]), (2 * SAMPLES, 1000, None))
            self.assertFalse((self.tmp / sync / "model.safetensors").exists())

    def test_ten_thousand_machines(self):
        (self.tmp / "many.yaml").write_text("coordinator: {bandwidth: 40Gbit}\nnodes:\n" + "".join(
            f"  - {{name: {n}, count: 2500, speed: {speed}}}\n" for n, speed in (("a", 4000), ("b", 2000), ("c", 1000), ("d", 500))))
        self.simulate("--cost-model", "--quiet", "--epochs", 1, cluster=self.tmp / "many.yaml")
        self.assertEqual(len(summary(self.tmp / "run")["nodes"]), 10000)

    def test_shares_follow_speeds(self):
        self.simulate("--quiet", "--batch", 600, "--epochs", 20)
        share = {n["name"]: n["share"] for n in summary(self.tmp / "run")["nodes"]}
        for name, wanted in zip("abcd", (8 / 15, 4 / 15, 2 / 15, 1 / 15)):
            self.assertAlmostEqual(share[name], wanted, delta=0.05)

    def test_the_timeline_is_one(self):
        self.simulate("--trace", "--quiet")
        events = json.loads((self.tmp / "run" / "trace.json").read_text())["traceEvents"]
        names = {e["args"]["name"] for e in events if e["ph"] == "M"}
        self.assertTrue({"a", "b", "c", "d", "coordinator"} <= names)
        trained = [e for e in events if e["ph"] == "X" and e["name"] == "train"]
        self.assertEqual(sum(e["args"]["samples"] for e in trained), 2 * SAMPLES)
        for line in {e["tid"] for e in trained}:
            spans = sorted((e["ts"], e["dur"]) for e in trained if e["tid"] == line)
            self.assertTrue(all(a + d <= b + 1e-3 for (a, d), (b, _) in zip(spans, spans[1:])), "a machine did two things at once")


if __name__ == "__main__":
    unittest.main()
