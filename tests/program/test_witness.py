#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""isochron audit: whatever is changed in the files of a run is found, told as missing, or harmless for a reason that stands here.

Finished runs of several kinds (of threads, with a validation set, resumed, simulated) are changed in every file: removed, cut at each
line, lines lost, doubled, swapped, each field edited, bits turned, files of another run put in their place.
Runs the command named by ISOCHRON (build/isochron unless given) on small synthetic data. Standard library only.
    tests/program/test_witness.py [-v] [Class.test_name]
"""
import json
import random
import re
import shutil
import subprocess
import time
import unittest

import program
from program import ISO

FOUND, MISSING, HARMLESS = 1, 3, 0
SAMPLES = 180
ROUNDS = 6 # two epochs of three
CLUSTER = "nodes: [{name: a, speed: 2000}, {name: b, speed: 1000}]\n"


def lines_of(path):
    return path.read_text().splitlines(keepends=True)


def put(path, lines):
    path.write_text("".join(lines))


def is_counted(line):
    return '"counted"' in line


def edited(value):
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return ("b" if value[:1] == "a" else "a") + value[1:]
    return 1 if value is None else value[1:] if isinstance(value, list) else {}


def fields(line):
    """(name, the same line with that field edited, the same without it), for each field; the digits are those of the line."""
    pairs = json.loads(line)
    for key in pairs:
        old = f'"{key}":{json.dumps(pairs[key], separators=(",", ":"))}'
        if old not in line: # a number that Python spells otherwise
            old = re.search(rf'"{key}":(?:\[.*\]|[^,}}]*)', line)[0]
        yield key, line.replace(old, f'"{key}":{json.dumps(edited(pairs[key]), separators=(",", ":"))}', 1), \
            (line.replace(old + ",", "", 1) if old + "," in line else line.replace("," + old, "", 1))


class Case(program.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random.seed(5)
        cls.data = cls.base / "data"
        cls.data.mkdir()
        for stem, count in (("train", SAMPLES), ("t10k", 50)):
            program.idx_set(cls.data, stem, 4, random.randbytes(16 * count), bytes(i % 3 for i in range(count)))
        cls.job = cls.base / "j.yaml"
        cls.job.write_text(f"data: {cls.data}\nmodel: {{preset: mlp, hidden: [6]}}\nbatch: 60\nunit: 16\nepochs: 2\nname: one\n"
                           "checkpoint: {every: 2, seconds: 0, keep: 100}\n")
        (cls.base / "c.yaml").write_text(CLUSTER)
        cls.runs = {}

    @classmethod
    def make(cls, out, *flags, command="train"):
        cluster = ["--cluster", str(cls.base / "c.yaml")] if command == "simulate" else []
        subprocess.run([ISO, command, str(cls.job), *cluster, "--quiet", "--out", str(out), *map(str, flags)], check=True, timeout=120,
                       stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return out

    @classmethod
    def run_of(cls, name, *flags, command="train"):
        """Made once a class."""
        if name not in cls.runs:
            cls.runs[name] = cls.make(cls.base / name, *flags, command=command)
        return cls.runs[name]

    def audit(self, folder, code=None):
        r = self.iso("audit", folder, "--json", code=code)
        return r.returncode, json.loads(r.stdout) if r.stdout else {"faults": [r.stderr], "missing": [], "verdict": "faults"}

    def table(self, run, tries):
        """tries: (what, change of a copy of the folder, what it is). Every one is tried."""
        tried = 0
        self.assertEqual(self.audit(run, code=0)[1]["verdict"], "whole")
        for what, change, wanted in tries:
            tried += 1
            with self.subTest(what=what):
                folder = self.tmp / f"try-{tried}"
                shutil.copytree(run, folder)
                change(folder)
                code, report = self.audit(folder)
                shutil.rmtree(folder)
                self.assertEqual(code, wanted, f"{what}: {report['faults']} {report['missing']}")
                self.assertEqual(report["verdict"], {FOUND: "faults", MISSING: "unproven", HARMLESS: "whole"}[wanted], what)
                self.assertEqual(bool(report["faults"]), wanted == FOUND)
                self.assertTrue(wanted != MISSING or report["missing"])
        return tried


# ---- changes -------------------------------------------------------------------------------------------------------------------

def change_lines(name, change):
    def apply(folder):
        lines = lines_of(folder / name)
        put(folder / name, change(lines))
    return apply


def replace_line(name, i, line):
    return change_lines(name, lambda t: t[:i] + [line] + t[i + 1:])


def journal_tries(run, name):
    """Lines of a journal cut, lost, doubled, swapped."""
    lines = lines_of(run / name)
    last_counted = max((i for i, line in enumerate(lines) if is_counted(line)), default=-1)
    for i in range(len(lines)):
        # rounds without their metrics are told; a log that lacks counts is wrong, one that lacks only words behind them is short
        short = MISSING if name == "metrics.jsonl" or i > last_counted else FOUND
        last = i == len(lines) - 1
        yield f"{name} cut before line {i + 1}", change_lines(name, lambda t, i=i: t[:i]), short
        yield f"{name} cut in line {i + 1}", change_lines(name, lambda t, i=i: t[:i] + [t[i][:-9]]), FOUND
        yield f"{name} without line {i + 1}", change_lines(name, lambda t, i=i: t[:i] + t[i + 1:]), MISSING if last else FOUND
        yield f"{name} with line {i + 1} twice", change_lines(name, lambda t, i=i: t[:i + 1] + t[i:]), FOUND
        if not last:
            yield f"{name} with lines {i + 1} and {i + 2} swapped", \
                change_lines(name, lambda t, i=i: t[:i] + [t[i + 1], t[i]] + t[i + 2:]), FOUND
    yield f"{name} with a line of a text editor", change_lines(name, lambda t: t + ["\n"]), FOUND


def field_tries(run, name):
    """Each field of the first line of each kind edited, and removed."""
    seen = set()
    for i, line in enumerate(lines_of(run / name)):
        kind = json.loads(line).get("event")
        if kind in seen:
            continue
        seen.add(kind)
        for key, other, without in fields(line.rstrip("\n")):
            for word, text in (("another", other), ("no", without)):
                yield f"{name}: {kind} with {word} {key}", replace_line(name, i, text + "\n"), FOUND


def summary_tries(run):
    pairs = json.loads((run / "summary.json").read_text())
    for key in pairs:
        def edit(folder, key=key):
            (folder / "summary.json").write_text(json.dumps({**pairs, key: edited(pairs[key])}, indent=2) + "\n")

        def remove(folder, key=key):
            (folder / "summary.json").write_text(json.dumps({k: v for k, v in pairs.items() if k != key}, indent=2) + "\n")
        yield f"summary.json with another {key}", edit, FOUND
        yield f"summary.json without {key}", remove, FOUND
    yield "summary.json cut", lambda folder: put(folder / "summary.json", lines_of(run / "summary.json")[:-2]), FOUND


def job_tries():
    for old, new, wanted in (("seed: 1\n", "seed: 2\n", FOUND), ("batch: 60\n", "batch: 50\n", FOUND),
                             ("epochs: 2\n", "epochs: 3\n", FOUND),
                             ("learning_rate: ", "learning_rate: 1", FOUND), ("hidden: [6]", "hidden: [7]", FOUND),
                             ("normalize: standard", "normalize: unit", FOUND), ("loss: cross-entropy", "loss: mse", FOUND),
                             ("sync: nns\n", "sync: bsp\n", FOUND), ("unit: 16\n", "unit: 32\n", FOUND), ("seed: 1\n", "sed: 1\n", FOUND),
                             ("shift: 0", "shift: 1", FOUND),
                             # these do not touch the numbers: a resume may change them, and writes the file anew
                             ("keep: 100", "keep: 2", HARMLESS), ("every: 2", "every: 4", HARMLESS)):
        def edit(folder, old=old, new=new):
            text = (folder / "job.yaml").read_text()
            assert old in text, (old, text)
            (folder / "job.yaml").write_text(text.replace(old, new, 1))
        yield f"job.yaml with {new.strip()}", edit, wanted


def removal_tries(run):
    newest = max((int(f.name.split("-")[1].split(".")[0]) for f in run.glob("checkpoint-*")), default=0)
    wanted = {"job.yaml": MISSING, "metrics.jsonl": MISSING, "events.jsonl": FOUND, "summary.json": MISSING, "model.safetensors": MISSING,
              "best.safetensors": MISSING, f"checkpoint-{newest}.safetensors": MISSING, "latest": HARMLESS, "trace.json": HARMLESS}
    for path in sorted(run.iterdir()):
        # an older checkpoint holds nothing that the newest does not; `latest` is for people: a resume looks for itself
        yield f"no {path.name}", lambda folder, n=path.name: (folder / n).unlink(), wanted.get(path.name, HARMLESS)
    for name in sorted(wanted):
        if (run / name).exists() and name not in ("latest", "trace.json"):
            yield f"{name} empty", lambda folder, n=name: (folder / n).write_bytes(b""), MISSING if name == "metrics.jsonl" else FOUND


def bit_tries(run):
    for path in sorted(run.glob("*.safetensors")):
        size = path.stat().st_size
        for at in (0, 9, size // 5, size // 2, size - 2):
            def flip(folder, name=path.name, at=at):
                data = bytearray((folder / name).read_bytes())
                data[at] ^= 4
                (folder / name).write_bytes(data)
            yield f"bit of byte {at} of {path.name}", flip, FOUND
        yield f"{path.name} cut", lambda folder, n=path.name: (folder / n).write_bytes((run / n).read_bytes()[:-4]), FOUND


def foreign_tries(run, other, same_job):
    """Each file from another run in its place."""
    for path in sorted(run.iterdir()):
        if path.name == "latest" or not (other / path.name).exists():
            continue
        harmless = path.name == "job.yaml" and same_job # it says the same
        yield f"{path.name} of {other.name}", lambda folder, n=path.name: shutil.copyfile(other / n, folder / n), \
            HARMLESS if harmless else FOUND
    for name in ("events.jsonl", "metrics.jsonl"):
        for i in (0, 3, len(lines_of(run / name)) - 1):
            theirs = lines_of(other / name)
            if i < len(theirs) and theirs[i] != lines_of(run / name)[i] and not is_counted(theirs[i]):
                yield f"line {i + 1} of {name} of {other.name}", replace_line(name, i, theirs[i]), FOUND


def all_tries(run):
    for name in ("events.jsonl", "metrics.jsonl"):
        yield from journal_tries(run, name)
        yield from field_tries(run, name)
    yield from summary_tries(run)
    yield from removal_tries(run)
    yield from bit_tries(run)


class Finished(Case):
    def test_of_threads(self):
        run = self.run_of("plain")
        self.assertEqual(len(lines_of(run / "metrics.jsonl")), ROUNDS)
        tries = [*all_tries(run), *job_tries()]
        for name, flags in (("again", []), ("other-seed", ["--seed", 2]), ("other-batch", ["--batch", 50]),
                            ("other-policy", ["--sync", "bsp"])):
            tries += foreign_tries(run, self.run_of(name, *flags), same_job=name == "again")
        tries.append(("a checkpoint under another number",
                      lambda f: (f / f"checkpoint-{ROUNDS}.safetensors").rename(f / "checkpoint-12.safetensors"), FOUND))
        tries.append(("the model of an earlier checkpoint's weights", self.model_of_epoch_one, FOUND))
        self.assertGreater(self.table(run, tries), 78)

    def model_of_epoch_one(self, folder):
        shutil.copyfile(self.run_of("validated", "--set", "data.validation=0.2") / "best.safetensors", folder / "model.safetensors")

    def test_with_a_validation_set(self):
        run = self.run_of("validated", "--set", "data.validation=0.2")
        tries = [t for t in all_tries(run) if "best" in t[0]]
        self.assertGreater(len(tries), 8)
        tries += foreign_tries(run, self.run_of("validated-2", "--set", "data.validation=0.2", "--seed", 3), same_job=False)
        self.table(run, tries)

    def test_resumed(self):
        run = self.base / "resumed"
        simulated = self.run_of("simulated", command="simulate")
        killed(simulated, run, after(simulated, "checkpoint-4") + 3)
        self.make(run, "--resume", command="simulate")
        self.assertIn('"resume"', (run / "events.jsonl").read_text())
        self.table(run, [t for t in all_tries(run) if "safetensors" not in t[0]])

    def test_simulated(self):
        run = self.run_of("simulated", command="simulate")
        tries = [t for t in all_tries(run) if "checkpoint" not in t[0]]
        tries += foreign_tries(run, self.run_of("simulated-2", "--seed", 2, command="simulate"), same_job=False)
        self.table(run, tries)

    def test_simulations_of_the_same_seeds_are_the_same_run(self):
        run, again = self.run_of("simulated", command="simulate"), self.run_of("simulated-again", command="simulate")
        self.assertEqual((run / "metrics.jsonl").read_bytes(), (again / "metrics.jsonl").read_bytes())
        self.table(run, [(t[0], t[1], HARMLESS) for t in foreign_tries(run, again, same_job=True)
                         if t[0].split()[0] in ("job.yaml", "metrics.jsonl", "model.safetensors")])

    def test_two_runs_of_a_job_have_two_marks(self):
        marks = {json.loads(lines_of(self.run_of(n) / "events.jsonl")[0])["mark"] for n in ("plain", "again")}
        self.assertEqual(len(marks), 2)


# ---- runs that are not finished --------------------------------------------------------------------------------------------------

def killed(run, folder, lines, part=""):
    """What a kill would have left of `run` when `lines` lines of the log, and a part of one, were on the disk."""
    shutil.copytree(run, folder)
    log = lines_of(folder / "events.jsonl")
    put(folder / "events.jsonl", log[:lines] + [log[lines][:9] if part else ""])
    rounds = [json.loads(line)["round"] for line in log[:lines] if is_counted(line)]
    over = lines and not is_counted(log[lines - 1]) # the last round of them: it has its line then
    put(folder / "metrics.jsonl", lines_of(folder / "metrics.jsonl")[:max(rounds) - (not over) if rounds else 0])
    for name in ("summary.json", "model.safetensors", "best.safetensors", "latest"):
        (folder / name).unlink(missing_ok=True)
    written = {json.loads(line)["file"] for line in log[:lines] if '"checkpoint"' in line}
    for path in folder.glob("checkpoint-*"):
        if path.name not in written:
            path.unlink()
    return folder


def after(run, words):
    """So many lines of the log that the last one holds the words."""
    return 1 + next(i for i, line in enumerate(lines_of(run / "events.jsonl")) if words in line)


class Unfinished(Case):
    def simulated(self):
        """Its checkpoints lie where the job says; those of threads, where there was time."""
        return self.run_of("simulated", command="simulate")

    def test_a_run_killed_at_any_line_is_in_order(self):
        run = self.simulated()
        for count in range(len(lines_of(run / "events.jsonl"))):
            for part in ("", "part"):
                with self.subTest(lines=count, part=part):
                    folder = killed(run, self.tmp / f"killed-{count}{part}", count, part)
                    report = self.audit(folder, code=0)[1]
                    self.assertEqual(report["verdict"], "incomplete")
                    shutil.rmtree(folder)

    def test_what_a_killed_run_lost_is_told(self):
        run = self.simulated()
        count = after(run, "checkpoint-4") + 1
        for what, change, wanted in (
                ("no metrics", lambda f: (f / "metrics.jsonl").unlink(), MISSING),
                ("metrics cut", change_lines("metrics.jsonl", lambda t: t[:2]), MISSING),
                ("no job", lambda f: (f / "job.yaml").unlink(), MISSING),
                ("no checkpoint", lambda f: (f / "checkpoint-4.safetensors").unlink(), MISSING),
                ("no log", lambda f: (f / "events.jsonl").unlink(), FOUND),
                ("a log without counts", change_lines("events.jsonl", lambda t: t[:1]), FOUND),
                ("a log cut before its checkpoint", change_lines("events.jsonl", lambda t: t[:8]), FOUND),
                ("metrics without line 2", change_lines("metrics.jsonl", lambda t: t[:1] + t[2:]), FOUND),
                ("a damaged checkpoint", lambda f: (f / "checkpoint-4.safetensors").write_bytes(b"x"), FOUND)):
            with self.subTest(what=what):
                folder = killed(run, self.tmp / what.replace(" ", "-"), count)
                change(folder)
                code, report = self.audit(folder)
                self.assertEqual(code, wanted, f"{what}: {report}")
                shutil.rmtree(folder)

    def test_a_run_that_had_no_round_is_no_fault(self):
        folder = self.tmp / "young"
        killed(self.simulated(), folder, 1)
        for last in ("start", "empty log", "no log", "no metrics"):
            if last == "empty log":
                (folder / "events.jsonl").write_text("")
            if last in ("no log", "no metrics"):
                (folder / ("events.jsonl" if last == "no log" else "metrics.jsonl")).unlink()
            self.assertEqual(self.audit(folder, code=0)[1]["verdict"], "incomplete", last)
            self.assertIn("has not finished its first round", self.iso("audit", folder).stdout)
        (folder / "job.yaml").unlink()
        self.assertIn("holds no run", self.iso("audit", folder, code=1).stderr)

    def test_a_run_killed_in_its_first_milliseconds(self):
        looked = 0
        for n in range(12):
            out = self.tmp / f"killed-{n}"
            p = subprocess.Popen([ISO, "train", str(self.job), "--epochs", "5000", "--quiet", "--out", str(out)], stderr=subprocess.DEVNULL)
            while not (out / "job.yaml").exists() and p.poll() is None:
                time.sleep(0.0005)
            time.sleep(0.002 * n)
            p.kill()
            p.wait()
            report = self.audit(out, code=0)[1]
            self.assertEqual(report["verdict"], "incomplete")
            looked += not report["lines"] if "lines" in report else 0
        self.assertGreater(looked, 0, "no run was killed before its first round: nothing was tried")

    def test_a_run_stopped_before_its_first_checkpoint_keeps_its_mark(self):
        run = self.run_of("plain")
        mark = json.loads(lines_of(run / "events.jsonl")[0])["mark"]
        folder = killed(run, self.tmp / "killed", 5)
        self.assertFalse(list(folder.glob("checkpoint-*")))
        self.make(folder, "--resume")
        self.assertEqual(self.audit(folder, code=0)[1]["mark"], mark)
        self.assertEqual(json.loads((folder / "summary.json").read_text())["mark"], mark)


if __name__ == "__main__":
    unittest.main()
