#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training beside a busy neighbour: `workers: auto` beside a fixed number. neighbours.py BUILD-FOLDER [REPEAT] prints a table.

The neighbour is a loop that is stopped and continued. All of it runs in one real-time class when that is allowed (chrt -r), so
that whatever else the machine does is not measured. Sides take turns.
"""
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

FASHION = "/usr/share/datasets/fashion-mnist"
SIDES = {"auto": [], "2 workers": ["--workers", "2"], "1 worker": ["--workers", "1"]}
PATTERNS = {"no neighbour": (0, 0), "3 s on, 3 s off": (3, 3), "always": (1, 0)}
CLASS = ["chrt", "-r", "10"] if os.geteuid() == 0 and shutil.which("chrt") else []


class Neighbour:
    """A busy loop that works for `on` seconds and rests for `off`."""

    def __init__(self, on, off):
        self.over = threading.Event()
        self.process = subprocess.Popen([*CLASS, sys.executable, "-c", "while True: pass"])
        self.thread = threading.Thread(target=self.turn, args=(on, off))
        self.thread.start()

    def turn(self, on, off):
        while not self.over.is_set():
            for seconds, what in ((on, signal.SIGCONT), (off, signal.SIGSTOP)):
                if seconds:
                    self.process.send_signal(what)
                    self.over.wait(seconds)
            if not on:
                self.process.send_signal(signal.SIGSTOP)
                self.over.wait()

    def end(self):
        self.over.set()
        self.thread.join()
        self.process.kill()
        self.process.wait()


def speed(folder, words):
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "run"
        subprocess.run([*CLASS, str(folder / "isochron"), "train", "--data", FASHION, "--model", "lenet5", "--batch", "64",
                        "--epochs", "12", "--out", str(out), "--quiet", "--set", "checkpoint.every=0", *words], check=True)
        return json.loads((out / "summary.json").read_text())["samples_per_second"]


def main():
    folder, repeat = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print("| neighbour | " + " | ".join(SIDES) + " |\n|---|" + "---|" * len(SIDES))
    for pattern, times in PATTERNS.items():
        got = {side: [] for side in SIDES}
        neighbour = Neighbour(*times)
        try:
            for _ in range(repeat):
                for side, words in SIDES.items():
                    got[side].append(speed(folder, words))
        finally:
            neighbour.end()
        print(f"| {pattern} | " + " | ".join(f"{statistics.median(v):,.0f}" for v in got.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
