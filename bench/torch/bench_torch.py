#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training speed of PyTorch on the CPU, for the nets that bench/ compares: samples a second, as JSON on standard output.

Place: run by bench/run.py speed, or by hand: bench_torch.py --net lenet5 --batch 64 --mode eager.
What is measured: whole training steps (forward, loss, backward, update) in fp32. The inputs are normalised float tensors that stand
in memory already shuffled, a batch is a view of them: no reader, no loader, no copy is on PyTorch's bill. Warm-up (and with it the
compilation) is left out. Each variant (optimiser fused or not, channels last or not) is tried and reported; the caller takes the best.
"""
import argparse
import json
import platform
import time

import torch
from torch import nn


def lenet5():
    """The modern LeNet-5: ReLU and max pooling, 61,706 parameters on 28x28."""
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def mlp():
    """784-256-128-10 with ReLU, 235,146 parameters."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


NETS = {"lenet5": (lenet5, 61706, True), "mlp": (mlp, 235146, False)}  # maker, parameters, has convolutions
SAMPLES = 16384  # in memory; the steps go round and round through them


def step_of(net, batch, mode, fused, channels_last):
    """(step, parameters): one call of step() is one training step on the next batch."""
    torch.manual_seed(1)
    make, parameters, _ = NETS[net]
    model = make()
    assert sum(p.numel() for p in model.parameters()) == parameters
    x, y = torch.randn(SAMPLES, 1, 28, 28), torch.randint(0, 10, (SAMPLES,))
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    loss_of = nn.CrossEntropyLoss()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=fused)
    forward = lambda a, b: loss_of(model(a), b)
    if mode == "compiled":
        forward = torch.compile(forward)
    batches = [(x[i:i + batch], y[i:i + batch]) for i in range(0, SAMPLES - batch + 1, batch)]
    at = 0

    def step():
        nonlocal at
        a, b = batches[at]
        at = (at + 1) % len(batches)
        optimiser.zero_grad(set_to_none=True)
        forward(a, b).backward()
        optimiser.step()
    return step


def measure(step, batch, seconds):
    """Samples a second over about `seconds`."""
    done, start = 0, time.perf_counter()
    while True:
        for _ in range(10):
            step()
        done += 10 * batch
        spent = time.perf_counter() - start
        if spent >= seconds:
            return done / spent


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--net", choices=NETS, required=True)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--mode", choices=("eager", "compiled"), default="eager")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=3.0, help="of one measurement")
    p.add_argument("--repeat", type=int, default=1, help="measurements of each variant")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.set_flush_denormal(True)
    tried = {}
    for fused in (False, True):
        for channels_last in ((False, True) if NETS[a.net][2] else (False,)):
            name = ("fused" if fused else "foreach") + ("+channels_last" if channels_last else "")
            torch._dynamo.reset()
            step = step_of(a.net, a.batch, a.mode, fused, channels_last)
            measure(step, a.batch, 1.0)
            tried[name] = [measure(step, a.batch, a.seconds) for _ in range(a.repeat)]
    best = max(tried, key=lambda k: max(tried[k]))
    print(json.dumps({"net": a.net, "batch": a.batch, "mode": a.mode, "threads": a.threads, "torch": torch.__version__,
                      "python": platform.python_version(), "variant": best, "samples_per_second": max(tried[best]), "tried": tried}))


if __name__ == "__main__":
    main()
