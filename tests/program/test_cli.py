#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line from outside: arguments, output on terminals, pipes and broken pipes, signals, exit codes, JSON shapes.

Runs the command named by ISOCHRON (build/isochron unless given) on small synthetic data. Standard library only.
    tests/program/test_cli.py [-v] [Class.test_name]
"""
import csv
import fcntl
import io
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

import program
from program import ISO, ROOT, idx

COMMANDS = ("train", "evaluate", "predict", "check", "inspect", "audit", "compare", "help")


def make_data(folder, train=600, test=120, side=8, classes=4):
    """Images of `classes` easy kinds: a bright block whose place is the class, over a pattern that differs by sample."""
    folder.mkdir()
    for stem, count in (("train", train), ("t10k", test)):
        pixels, labels = bytearray(), bytearray()
        for n in range(count):
            label = (n * 7 + n // 5) % classes
            labels.append(label)
            for y in range(side):
                for x in range(side):
                    bright = (y * 2 // side) * 2 + x * 2 // side == label % 4
                    pixels.append(190 + (n * 13 + x * 7 + y * 3) % 60 if bright else (n * 31 + x * 17 + y * 11) % 90)
        program.idx_set(folder, stem, side, pixels, labels)
    return folder


def has_control_codes(text):
    return any(ord(c) < 32 and c not in "\n\t" for c in text) or "\x7f" in text


class Case(program.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = make_data(cls.base / "data")
        cls.job = cls.base / "j.yaml"
        cls.job.write_text(f"data: {cls.data}\nmodel: {{preset: mlp, hidden: [12]}}\nbatch: 32\nepochs: 3\n")

    def trained(self):
        """One run folder a class, trained once."""
        cls = type(self)
        if not hasattr(cls, "run_folder"):
            cls.run_folder = cls.base / "trained"
            self.iso("train", self.job, "--out", cls.run_folder, "--quiet")
        return cls.run_folder


class Arguments(Case):
    def test_every_command_has_help_on_standard_output(self):
        for name in COMMANDS:
            for args in ((name, "--help"), (name, "-h"), ("help", name)):
                r = self.iso(*args)
                self.assertIn(f"isochron {name}", r.stdout)
                self.assertIn("--help", r.stdout)
                self.assertEqual(r.stderr, "")
        overview = self.iso("help").stdout
        for name in COMMANDS:
            self.assertRegex(overview, rf"(?m)^  {name} ")
        self.assertEqual(self.iso("--help").stdout, overview)

    def test_help_lists_what_a_job_file_can_say(self):
        keys = self.iso("help", "job").stdout
        for key in ("data.path", "model.layers", "optimizer.learning_rate", "checkpoint.every", "sync", "seed"):
            self.assertIn(key, keys)
        self.assertIn("conv", self.iso("help", "layers").stdout)
        self.assertIn("idx", self.iso("help", "formats").stdout)
        policies = self.iso("help", "sync").stdout
        for policy in ("online cumulative bsp nns lb-bsp ssp asp local-sgd post-local adacomm fda diloco mixbp hmdspt").split():
            self.assertRegex(policies, rf"(?m)^{policy} +\S.*\n +from: \S")
        self.assertEqual(self.iso("train", "--sync", "help").stdout, policies)
        self.iso("help", "nothing", code=2)

    def test_version(self):
        self.assertRegex(self.iso("--version").stdout, r"^isochron \d+\.\d+\.\d+\n$")

    def test_mistakes_are_named_with_what_is_near(self):
        for args, words in (
                (["trian"], ["trian", "'train'"]),
                (["zzz"], ["zzz", "isochron help"]),
                (["train", "--epocs", "3"], ["--epocs", "--epochs"]),
                (["train", "--learning-rate", "1"], ["--learning-rate", "--set optimizer.learning_rate="]),
                (["train", "--nothing-like-it"], ["--nothing-like-it", "train --help"]),
                (["train", "--epochs"], ["--epochs", "value"]),
                (["train", "--epochs", "--quiet"], ["--epochs", "value"]),
                (["train", "--quiet=yes"], ["--quiet", "no value"]),
                (["train", "-q"], ["-q"]),
                (["train", "a.yaml", "b.yaml"], ["b.yaml"]),
                (["evaluate"], ["usage", "evaluate"]),
                (["predict", "x"], ["usage", "predict"]),
                (["train", self.job, "--epochs", "-1"], ["--epochs", "'-1'"]),
                (["train", self.job, "--epochs=1e3"], ["--epochs", "write 1000"]),
                (["train", self.job, "--isa", "sse"], ["sse", "avx2"]),
                (["train", self.job, "--throttle", "4:x"], ["--throttle", "4:x"]),
                (["train", self.job, "--throttle", "4:0"], ["--throttle"]),
                (["train", self.job, "--sync", "fast"], ["fast", "nns"]),
                (["train", self.job, "--set", "bath=3"], ["bath", "batch"]),
                (["train", self.job, "--resume", "--force"], ["--resume", "--force"]),
                (["train", self.job, "--resume"], ["--out"]),
                (["train", self.data], ["folder", "--resume"]),
                (["train", "--resume", "--out", "nowhere"], ["nowhere"]),
                (["train", "missing.yaml"], ["missing.yaml"]),
                (["train"], ["--data"]),
                (["train", "--data", self.data], ["--model"]),
                (["predict", self.trained(), self.data, "--format", "xml"], ["xml", "jsonl"]),
                (["predict", self.trained(), self.data, "--top", "0"], ["--top"])):
            r = self.iso(*args, code=2)
            for word in words:
                self.assertIn(word, r.stderr, args)
            self.assertEqual(r.stdout, "", args)
        self.assertEqual(list(self.tmp.iterdir()), [], "a wrong command wrote something")

    def test_no_command(self):
        self.assertIn("command", self.iso(code=2).stderr)

    def test_two_dashes_end_the_options(self):
        shutil.copy(self.job, self.tmp / "--odd.yaml")
        self.assertIn("parameters", self.iso("check", "--json", "--", "--odd.yaml").stdout)

    def test_options_go_over_the_file_in_their_order(self):
        def plan(*more):
            return json.loads(self.iso("check", self.job, "--json", *more).stdout)
        self.assertEqual(plan()["epochs"], 3)
        self.assertEqual(plan("--epochs", 5)["epochs"], 5)
        self.assertEqual(plan("--set", "epochs=6", "--epochs=7")["epochs"], 7)
        self.assertEqual(plan("--epochs=7", "--set", "epochs=6")["epochs"], 6)
        self.assertEqual(plan("--batch", 50)["rounds_per_epoch"], 12)
        self.assertNotEqual(plan("--set", "model={preset: mlp, hidden: [13]}")["parameters"], plan()["parameters"])


class JobFiles(Case):
    def test_messages_begin_with_the_place(self):
        bad = self.tmp / "bad.yaml"
        bad.write_text(f"data: {self.data}\nmodel: mlp\noptimizer: {{learning_rat: 0.1}}\n")
        for command in ("check", "train"):
            r = self.iso(command, "bad.yaml", code=2)
            self.assertTrue(r.stderr.startswith("bad.yaml:3:13: "), r.stderr)
            self.assertIn("'learning_rate'", r.stderr)
        self.assertEqual([p.name for p in self.tmp.iterdir()], ["bad.yaml"])

    def test_data_that_is_not_there_is_named(self):
        for path in (self.data / "nothing", self.base / "no" / "folder"):
            for command in ("check", "train"):
                self.assertIn(path.name, self.iso(command, "--data", path, "--model", "mlp", code=1).stderr)

    def test_a_network_that_does_not_fit_is_named_at_the_models_line(self):
        bad = self.tmp / "bad.yaml"
        bad.write_text(f"data: {self.data}\n\nmodel: {{layers: [conv: {{filters: 4, kernel: 40}}, flatten, dense: 4]}}\n")
        for command in ("check", "train"):
            r = self.iso(command, "bad.yaml", code=2)
            self.assertTrue(r.stderr.startswith("bad.yaml:3:1: "), r.stderr)
            for word in ("conv", "40", "8"):
                self.assertIn(word, r.stderr)
            self.iso(command, self.job, "--set", "model={layers: [conv: {filters: 4, kernel: 40}, flatten, dense: 4]}", code=2)

    def test_labels_of_every_set_are_held_against_the_model(self):
        more = make_data(self.tmp / "more", 20, 20, classes=6)
        for key in ("data.validation", "data.test"):
            for command in ("check", "train"):
                r = self.iso(command, self.job, "--set", f"{key}={more}", "--set", "model.classes=4", code=1)
                self.assertIn("the model has 4 classes", r.stderr)

    def test_a_job_file_from_standard_input(self):
        r = self.iso("check", "-", "--json", stdin=self.job.read_text())
        self.assertEqual(json.loads(r.stdout)["epochs"], 3)

    def test_the_examples_are_good(self):
        images = make_data(self.tmp / "images", 20, 10, side=28, classes=10)
        for path in sorted((ROOT / "examples").glob("*.yaml")):
            self.iso("check", path, "--data", images)


class Train(Case):
    def test_plain_lines_in_a_pipe(self):
        r = self.iso("train", self.job, "--out", "r", env={"TERM": "xterm-256color"})
        self.assertFalse(has_control_codes(r.stdout + r.stderr))
        self.assertRegex(r.stderr, r"epoch +1/3 .*loss \d")
        self.assertRegex(r.stdout, r"test accuracy +[01]\.\d{4}")
        self.assertIn("r", r.stdout)
        summary = json.loads((self.tmp / "r" / "summary.json").read_text())
        self.assertIn(summary["weights_sha256"], r.stdout)
        self.assertGreater(summary["test_accuracy"], 0.8)

    def test_json_lines(self):
        r = self.iso("train", self.job, "--out", "r", "--json")
        lines = [json.loads(line) for line in r.stdout.splitlines()]
        events = [line["event"] for line in lines]
        self.assertEqual((events[0], events[-1], events.count("epoch")), ("begin", "summary", 3))
        summary = json.loads((self.tmp / "r" / "summary.json").read_text())
        for key in ("weights_sha256", "test_accuracy", "samples", "rounds", "seed", "sync"):
            self.assertEqual(lines[-1][key], summary[key], key)
        self.assertNotIn("epoch ", r.stderr)

    def test_quiet_says_nothing(self):
        r = self.iso("train", self.job, "--out", "r", "--quiet", "--workers", "1")
        self.assertEqual((r.stdout, r.stderr), ("", ""))

    def test_run_folders_without_out_are_numbered(self):
        for name in ("j", "j-2", "j-3"):
            r = self.iso("train", self.job, "--epochs", 1)
            self.assertIn(f"runs/{name}\n", r.stdout)
            self.assertTrue((self.tmp / "runs" / name / "model.safetensors").exists())
        self.iso("train", "--model", "mlp", "--data", self.data, "--epochs", 1, "--quiet")
        self.assertTrue((self.tmp / "runs" / "mlp-data").exists())

    def test_a_run_is_not_written_over(self):
        self.iso("train", self.job, "--out", "r", "--quiet")
        before = (self.tmp / "r" / "model.safetensors").read_bytes()
        self.assertIn("--force", self.iso("train", self.job, "--out", "r", "--seed", 5, code=1).stderr)
        self.assertEqual((self.tmp / "r" / "model.safetensors").read_bytes(), before)
        self.iso("train", self.job, "--out", "r", "--seed", 5, "--force", "--quiet")
        self.assertNotEqual((self.tmp / "r" / "model.safetensors").read_bytes(), before)

    def test_resume_of_a_finished_run_says_so(self):
        self.iso("train", self.job, "--out", "r", "--quiet")
        for args in (["--out", "r"], ["r"], [self.job, "--out", "r", "--workers", 3]):
            r = self.iso("train", "--resume", *args)
            self.assertIn("finished", r.stderr)
        r = self.iso("train", self.job, "--resume", "--out", "r", "--batch", 33, code=1)
        for word in ("batch", "32", "33"):
            self.assertIn(word, r.stderr)

    def test_the_written_job_trains_the_same_weights(self):
        self.iso("train", self.job, "--out", "one", "--quiet", "--set", "optimizer=adam")
        self.iso("train", self.tmp / "one" / "job.yaml", "--out", "two", "--quiet")
        hashes = {json.loads((self.tmp / n / "summary.json").read_text())["weights_sha256"] for n in ("one", "two")}
        self.assertEqual(len(hashes), 1)


class Signals(Case):
    def start(self, out, *more, **popen):
        p = subprocess.Popen([ISO, "train", str(self.job), "--out", str(out), "--epochs", "100000", "--set", "checkpoint.every=20", *more],
                             stdout=popen.get("stdout", subprocess.DEVNULL), stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: p.poll() is None and p.kill())
        self.addCleanup(p.stderr.close)
        end = time.time() + 60
        while not list(out.glob("checkpoint-*.safetensors")) and time.time() < end and p.poll() is None:
            time.sleep(0.01)
        self.assertIsNone(p.poll(), "ended by itself")
        return p

    def test_a_signal_while_data_are_awaited_ends_the_run(self):
        pipe = self.tmp / "pipe"
        os.mkfifo(pipe)
        p = subprocess.Popen([ISO, "train", "--model", "mlp", "--data", pipe, "--out", "r"], stderr=subprocess.PIPE, text=True,
                             cwd=self.tmp)
        time.sleep(0.3)
        p.send_signal(signal.SIGTERM)
        self.assertIn("before the training began", p.communicate(timeout=20)[1])
        self.assertEqual(p.returncode, 128 + signal.SIGTERM)
        self.assertFalse((self.tmp / "r").exists())

    def test_a_limit_of_file_sizes_is_an_error_with_the_path(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        r = subprocess.run([ISO, "train", self.job, "--set", "model.hidden=[64]", "--out", "r"], capture_output=True, text=True,
                           cwd=self.tmp, timeout=60, preexec_fn=limit)
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertRegex(r.stderr, r"isochron: r/\S+: writing failed: File too large")
        self.assertFalse([f.name for f in (self.tmp / "r").iterdir() if f.name.endswith(".tmp")])

    def test_endless_data_are_refused(self):
        for command in (["inspect", "/dev/zero"], ["train", "--model", "mlp", "--data", "/dev/zero", "--out", "r"]):
            r = self.iso(*command, code=1)
            self.assertIn("/dev/zero: larger than", r.stderr)

    def test_a_signal_saves_and_ends_with_its_number(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            out = self.tmp / number.name
            p = self.start(out)
            p.send_signal(number)
            error = p.communicate(timeout=60)[1]
            self.assertEqual(p.returncode, 128 + number)
            self.assertIn("--resume", error)
            self.assertTrue(list(out.glob("checkpoint-*.safetensors")))
            self.assertEqual([f.name for f in out.iterdir() if "tmp" in f.name], [])

    def test_a_lost_reader_of_json_stops_the_run(self):
        out = self.tmp / "r"
        read, write = os.pipe()
        p = self.start(out, "--json", stdout=write)
        os.close(write)
        os.close(read)
        error = p.communicate(timeout=60)[1]
        self.assertEqual(p.returncode, 128 + signal.SIGPIPE)
        self.assertEqual(error, "")
        self.assertTrue(list(out.glob("checkpoint-*.safetensors")))


class Terminal(Case):
    def on_terminal(self, args, columns=80, env=None):
        """Runs with standard error on a terminal of so many columns; returns what it showed."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", **(env or {})}
        environment.pop("LC_ALL", None)
        for name in ("NO_COLOR",):
            if not (env and name in env):
                environment.pop(name, None)
        p = subprocess.Popen([ISO, *map(str, args)], stdout=subprocess.PIPE, stderr=slave, env=environment, cwd=self.tmp)
        os.close(slave)
        shown = b""
        while True:
            ready, _, _ = select.select([master], [], [], 60)
            try:
                more = os.read(master, 65536) if ready else b""
            except OSError:
                more = b""
            if not more:
                break
            shown += more
        os.close(master)
        out = p.stdout.read().decode()
        p.stdout.close()
        self.assertEqual(p.wait(timeout=60), 0, shown)
        self.assertFalse(has_control_codes(out), "control codes on standard output")
        return shown.decode()

    def train(self, **more):
        self.runs = getattr(self, "runs", 0) + 1
        return self.on_terminal(["train", self.job, "--epochs", 60, "--out", f"r{self.runs}"], **more)

    def test_a_bar_that_fits_and_goes_away(self):
        for columns in (20, 60, 80, 200):
            shown = self.train(columns=columns)
            self.assertIn("\r", shown.replace("\r\n", "\n"))
            bars = [part for part in re.split(r"[\r\n]", shown) if part.endswith("\x1b[K") and "%" in part]
            self.assertTrue(bars, "no bar was drawn")
            if columns >= 60:
                self.assertRegex(bars[-1], r"loss \d.*acc.* \d\.\d{4} .*/s .* left")
            for bar in bars:
                self.assertLess(len(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", bar)), columns, bar)
            self.assertFalse(shown.rstrip("\r\n").endswith("left\x1b[K"), "a bar was left")

    def test_colour_can_be_turned_off(self):
        self.assertIn("\x1b[32m", self.train())
        plain = self.train(env={"NO_COLOR": "1"})
        self.assertNotRegex(plain, r"\x1b\[[0-9;]*m")
        self.assertIn("\x1b[K", plain)

    def test_a_dumb_terminal_gets_plain_lines(self):
        shown = self.train(env={"TERM": "dumb"}).replace("\r\n", "\n")
        self.assertFalse(has_control_codes(shown))
        self.assertIn("epoch", shown)


class Evaluate(Case):
    def test_json_shape_and_sums(self):
        v = json.loads(self.iso("evaluate", self.trained(), "--data", self.data, "--json").stdout)
        summary = json.loads((self.trained() / "summary.json").read_text())
        self.assertEqual(v["accuracy"], summary["test_accuracy"])
        self.assertAlmostEqual(v["loss"], summary["test_loss"], places=12)
        matrix = v["confusion"]
        self.assertEqual(sum(map(sum, matrix)), 120)
        right = sum(matrix[k][k] for k in range(4))
        self.assertAlmostEqual(v["accuracy"], right / 120, places=12)
        for k, c in enumerate(v["classes"]):
            self.assertEqual(c["count"], sum(matrix[k]))
            self.assertAlmostEqual(c["recall"], matrix[k][k] / c["count"], places=12)
            said = sum(row[k] for row in matrix)
            self.assertTrue(c["precision"] is None if not said else abs(c["precision"] - matrix[k][k] / said) < 1e-12)

    def test_text(self):
        r = self.iso("evaluate", self.trained() / "model.safetensors", "--data", self.data)
        for word in ("accuracy", "loss", "precision", "recall", "predicted"):
            self.assertIn(word, r.stdout)

    def test_the_data_of_the_job_is_the_default(self):
        self.assertEqual(self.iso("evaluate", self.trained()).stdout, self.iso("evaluate", self.trained(), "--data", self.data).stdout)

    def test_it_says_which_model_and_which_set(self):
        run, train = self.trained(), self.data / "train-images-idx3-ubyte"
        for model, file in ((run, "model.safetensors"), (run / "model.safetensors", "model.safetensors")):
            for flags, kind, source in (([], "test", "t10k-images"), (["--data", train], "training", "train-images"),
                                        (["--data", self.data / "t10k-images-idx3-ubyte"], None, "t10k-images")):
                r = self.iso("evaluate", model, *flags, "--json")
                v = json.loads(r.stdout)
                self.assertEqual((v["model"], v["set"]), (str(run / file), kind))
                self.assertIn(source, v["source"])
                self.assertEqual(v["weights_sha256"], json.loads((run / "summary.json").read_text())["weights_sha256"])
                self.assertEqual("was trained on these samples" in r.stderr, kind == "training")
                text = self.iso("evaluate", model, *flags).stdout
                self.assertIn(f"model     {run / file} (sha256 {v['weights_sha256'][:12]})\n", text)
                self.assertRegex(text, rf"(?m)^data      {kind + ' set ' if kind else ''}\S*{source}")

    def test_the_training_set_is_known_by_its_content(self):
        alone = self.tmp / "moved"
        alone.mkdir()
        for name in ("images-idx3", "labels-idx1"): # as a folder without a test set: what is there is taken, and named
            shutil.copyfile(self.data / f"train-{name}-ubyte", alone / f"train-{name}-ubyte")
        r = self.iso("evaluate", self.trained(), "--data", alone, "--json")
        self.assertEqual(json.loads(r.stdout)["set"], "training")
        self.assertIn("was trained on these samples", r.stderr)
        self.assertIn("training set", self.iso("predict", self.trained(), alone).stderr)

    def test_a_checkpoint_in_place_of_the_model_is_named(self):
        run = self.tmp / "run"
        shutil.copytree(self.trained(), run)
        (run / "model.safetensors").unlink()
        newest = max(run.glob("checkpoint-*"), key=lambda f: int(f.stem.split("-")[1])).name
        for args in (("evaluate", run), ("predict", run, self.data / "t10k-images-idx3-ubyte")):
            self.assertIn(f"has no model.safetensors: {newest} is taken", self.iso(*args).stderr)

    def test_what_does_not_fit_is_an_error(self):
        other = make_data(self.tmp / "other", 10, 5, side=6)
        r = self.iso("evaluate", self.trained(), "--data", other, code=1)
        self.assertIn("8", r.stderr)
        self.assertIn("6", r.stderr)
        r = self.iso("evaluate", self.data / "train-images-idx3-ubyte", "--data", self.data, code=1)
        self.assertIn("train-images-idx3-ubyte", r.stderr)
        self.iso("evaluate", self.tmp / "nothing", "--data", self.data, code=1)


class Predict(Case):
    def images(self):
        return self.data / "t10k-images-idx3-ubyte"

    def test_the_three_forms_say_the_same(self):
        rows = list(csv.DictReader(io.StringIO(self.iso("predict", self.trained(), self.images(), "--top", 2).stdout)))
        whole = json.loads(self.iso("predict", self.trained(), self.images(), "--format", "json", "--top", 2).stdout)
        lines = self.iso("predict", self.trained(), self.images(), "--format", "jsonl", "--top", 2).stdout.splitlines()
        lines = [json.loads(line) for line in lines]
        self.assertEqual(whole, lines)
        self.assertEqual(len(rows), 120)
        for n, (row, item) in enumerate(zip(rows, whole)):
            self.assertEqual((int(row["index"]), item["index"]), (n, n))
            self.assertEqual((row["label"], row["label2"]), tuple(t["label"] for t in item["top"]))
            self.assertEqual(float(row["probability"]), item["probability"])
            self.assertGreaterEqual(item["top"][0]["probability"], item["top"][1]["probability"])

    def test_all_classes_sum_to_one(self):
        for item in json.loads(self.iso("predict", self.trained(), self.images(), "--format", "json", "--top", 99).stdout):
            self.assertEqual(len(item["top"]), 4)
            self.assertAlmostEqual(sum(t["probability"] for t in item["top"]), 1, places=5)

    def test_true_labels_give_the_accuracy_of_evaluate(self):
        labels = self.data / "t10k-labels-idx1-ubyte"
        rows = list(csv.DictReader(io.StringIO(self.iso("predict", self.trained(), self.images(), "--labels", labels).stdout)))
        v = json.loads(self.iso("evaluate", self.trained(), "--data", self.data, "--json").stdout)
        self.assertAlmostEqual(sum(r["true"] == r["label"] for r in rows) / 120, v["accuracy"], places=12)

    def test_standard_input(self):
        r = subprocess.run([ISO, "predict", str(self.trained()), "-"], input=self.images().read_bytes(), capture_output=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(r.stdout.decode(), self.iso("predict", self.trained(), self.images()).stdout)

    def test_a_reader_that_goes_ends_it_quietly(self):
        big = self.tmp / "many"
        idx(big, (60000, 8, 8), bytes(60000 * 64))
        p = subprocess.Popen([ISO, "predict", str(self.trained()), str(big)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdout.readline()
        p.stdout.close()
        error = p.stderr.read()
        p.stderr.close()
        self.assertEqual(p.wait(timeout=60), 128 + signal.SIGPIPE)
        self.assertEqual(error, b"")
        for command in (["help", "job"], ["inspect", self.trained() / "model.safetensors"], ["train", "--help"]):
            read, write = os.pipe()
            os.close(read)
            p = subprocess.Popen([ISO, *map(str, command)], stdout=write, stderr=subprocess.PIPE)
            os.close(write)
            self.assertEqual(p.communicate(timeout=60)[1], b"")
            self.assertEqual(p.returncode, 128 + signal.SIGPIPE)

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_a_full_disk_is_an_error(self):
        for args in (("predict", self.trained(), self.images()), ("evaluate", self.trained(), "--data", self.data, "--json"), ("help",)):
            with open("/dev/full", "w") as full:
                r = subprocess.run([ISO, *map(str, args)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(r.returncode, 1, args)
            self.assertIn("standard output", r.stderr)


class Look(Case):
    def test_check_counts_and_writes_nothing(self):
        plan = json.loads(self.iso("check", self.job, "--json").stdout)
        self.assertEqual(plan["parameters"], 64 * 12 + 12 + 12 * 4 + 4)
        self.assertEqual(sum(layer["parameters"] for layer in plan["layers"]), plan["parameters"])
        self.assertEqual((plan["rounds_per_epoch"], plan["rounds"]), (19, 57))
        self.assertEqual((plan["data"]["train"], plan["data"]["test"], plan["data"]["classes"]), (600, 120, 4))
        self.assertGreater(plan["memory"]["all"], 600 * 64)
        text = self.iso("check", self.job).stdout
        self.assertIn("832", text)
        self.assertEqual(list(self.tmp.iterdir()), [])

    def test_the_order_of_flags_does_not_matter(self):
        flags = [["--set", "model.hidden=[7]"], ["--model", "mlp"], ["--data", self.data], ["--set", "data.augment.shift=2"],
                 ["--set", "data.augment={flip: true}"], ["--set", "optimizer.learning_rate=0.5"], ["--set", "optimizer=adam"]]
        for order in (flags, flags[::-1]):
            out = self.tmp / f"r{order is flags}"
            self.iso("train", "--epochs", "1", "--out", out, *[word for flag in order for word in flag])
            job = (out / "job.yaml").read_text()
            for line in (r"hidden:\s*(\[7\]|- 7)", "shift: 2", "flip: true", "name: adam", "learning_rate: 0.5"):
                self.assertRegex(job, line)
        for flag in ("--out", "--init", "--data"):
            self.assertIn("has no value", self.iso("train", "--model", "mlp", "--data", self.data, flag, "", code=2).stderr)

    def test_check_warns_of_pixels_left_over(self):
        layers = "model={layers: [conv: {filters: 2, kernel: 3, stride: 2}, relu, flatten, dense: 4]}"
        r = self.iso("check", self.job, "--set", layers, "--json")
        self.assertIn("unused", r.stderr)
        self.assertEqual(len(json.loads(r.stdout)["warnings"]), 1)

    def test_what_does_not_fit_is_refused_with_numbers(self):
        large = ["--set", "model.hidden=[30000, 30000]", "--workers", "1024"]
        r = self.iso("check", self.job, *large)
        self.assertRegex(r.stderr, r"the run needs about [\d.]+ TiB of memory, [\d.]+ .iB are allowed here")
        r = self.iso("train", self.job, *large, "--out", "r", code=1)
        self.assertRegex(r.stderr, r"about \d+ MiB of memory, \d+ MiB are allowed here: weights \d+, optimizer \d+, 1024 workers \d+, "
                                   r"calibration \d+ MiB")
        self.assertFalse((self.tmp / "r").exists())

    def test_inspect(self):
        for path, kind in ((self.data, "folder"), (self.data / "train-images-idx3-ubyte", "data"), (self.trained(), "run"),
                           (self.data / "train-labels-idx1-ubyte", "data"), (self.trained() / "model.safetensors", "tensors")):
            self.assertEqual(json.loads(self.iso("inspect", path, "--json").stdout)["kind"], kind)
            self.assertTrue(self.iso("inspect", path).stdout)
        r = self.iso("inspect", self.base / "nothing", code=1)
        self.assertIn("nothing", r.stderr)

    def test_inspect_holds_weights_against_their_check_sums(self):
        run = self.tmp / "run"
        shutil.copytree(self.trained(), run)
        files = [run / "model.safetensors", *run.glob("checkpoint-*")]
        self.assertGreater(len(files), 1)
        for path in files:
            whole = path.read_bytes()
            self.assertIn("whole: its check sums fit", self.iso("inspect", path).stdout)
            self.assertIs(json.loads(self.iso("inspect", path, "--json").stdout)["whole"], True)
            self.assertEqual(json.loads(self.iso("inspect", run, "--json").stdout)["damaged"], [])
            for old, new in ((None, None), (b'"crc32c":', b'"crc32d":'), (b'"isochron":', b'"isochrom":'), (b'"seed":"1"', b'"seed":"7"')):
                changed = whole.replace(old, new) if old else whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:]
                self.assertNotEqual(changed, whole)
                path.write_bytes(changed)
                for shown in (path, run):
                    r = self.iso("inspect", shown, code=1)
                    self.assertIn("DAMAGED", r.stdout)
                    self.assertIn(path.name, r.stderr)
                self.assertIs(json.loads(self.iso("inspect", path, "--json", code=1).stdout)["whole"], False)
                self.assertEqual(json.loads(self.iso("inspect", run, "--json", code=1).stdout)["damaged"], [path.name])
            path.write_bytes(whole)
        foreign = self.tmp / "foreign.safetensors"
        header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  '
        foreign.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
        self.assertIn("no check sums in it", self.iso("inspect", foreign).stdout)
        self.assertIsNone(json.loads(self.iso("inspect", foreign, "--json").stdout)["whole"])


if __name__ == "__main__":
    if not os.access(ISO, os.X_OK):
        sys.exit(f"{ISO} is not there: build it, or name it by ISOCHRON")
    unittest.main()
