#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents show is true: commands run, job files are accepted, links lead somewhere, targets of make exist.

Runs the command named by ISOCHRON (build/isochron unless given). Standard library only.
    tests/program/test_docs.py [-v] [Docs.test_name]
"""
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

from program import ISO, ROOT

FASHION = "/usr/share/datasets/fashion-mnist"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def blocks(language):
    """(document, text) of every fenced block of this language."""
    for path in DOCUMENTS:
        for text in re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.M | re.S):
            yield path, text


def run(words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=600, **more)


class Docs(unittest.TestCase):
    def test_commands_run(self):
        """Every line `build/isochron ...` of the shell blocks, in order, in one scratch folder; trainings for one epoch only."""
        lines = []
        for path, text in blocks("sh"):
            for line in text.splitlines():
                words = shlex.split(line, comments=True)
                if words and words[0] == "build/isochron":
                    lines.append((path.name, words))
        self.assertGreaterEqual(len(lines), 4, "the documents show no commands: has their form changed?")
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "examples").symlink_to(ROOT / "examples")
            for name, words in lines:
                short = ["--epochs", "1"] if words[1] == "train" and not {"help", "--help", "--resume"} & set(words) else []
                r = run([ISO, *words[1:], *short], cwd=folder)
                self.assertEqual(r.returncode, 0, f"{name}: {' '.join(words)}\n{r.stderr[-600:]}")

    def test_job_files_are_accepted(self):
        """`isochron check` takes every YAML block of the documents and every file of examples/, and every commented variant line; on
        Fashion-MNIST, wherever their data is."""
        texts = [(path.name, text) for path, text in blocks("yaml")]
        texts += [(p.name, p.read_text()) for p in sorted((ROOT / "examples").glob("*.yaml"))]
        self.assertGreaterEqual(len(texts), 3)
        with tempfile.TemporaryDirectory() as folder:
            for name, text in texts:
                job = pathlib.Path(folder) / "job.yaml"
                job.write_text(text)
                r = run([ISO, "check", str(job), "--data", FASHION])
                self.assertEqual(r.returncode, 0, f"{name}:\n{text}\n{r.stderr[-600:]}")
                for key, value in re.findall(r"^# (\w+): (.*)$", text, re.M):
                    job.write_text(re.sub(rf"^{key}:.*$", lambda m: f"{key}: {value}", text, flags=re.M))
                    r = run([ISO, "check", str(job), "--data", FASHION])
                    self.assertEqual(r.returncode, 0, f"{name}, variant {key}: {value}\n{r.stderr[-600:]}")

    def test_links_lead_somewhere(self):
        count = 0
        for path in DOCUMENTS:
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
                if "://" not in target:
                    count += 1
                    self.assertTrue((path.parent / target).exists(), f"{path.name}: no {target}")
        self.assertGreater(count, 4)

    def test_targets_of_make_exist(self):
        targets = set(re.findall(r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(), re.M))
        for path in DOCUMENTS:
            for target in re.findall(r"(?:^|`)make ([a-z0-9]+)", path.read_text(), re.M):
                self.assertIn(target, targets, f"{path.name}: make {target}")

    def test_named_paths_exist(self):
        """Words in backquotes that look like paths of the tree are in it."""
        for path in DOCUMENTS:
            for word in re.findall(r"`((?:src|include|tests|tools|bench|docs|examples|fuzz|cmake)/[\w./-]+)`", path.read_text()):
                if "NAME" not in word:
                    self.assertTrue((ROOT / word).exists(), f"{path.name}: {word}")


if __name__ == "__main__":
    unittest.main()
