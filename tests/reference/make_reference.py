#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/reference/*.txt with PyTorch: outputs, gradients and ten losses of small trainings.

    python3 tests/reference/make_reference.py tests/reference      (needs torch and numpy; the tests themselves do not)

Weights and samples are not stored: both sides draw them from one formula, value(stream, i). Each file has lines KEY VALUES...:
`outputs` (8 samples x 10), per tensor `gradient NAME` (16 values spread over it, then sum and sum of squares), `losses` (10 steps,
mean over the batch before each step), `last NAME` (the same numbers of the weights after the steps).
"""
import pathlib
import sys

import numpy as np
import torch
from torch import nn

BATCH, STEPS, CLASSES = 8, 10, 10


def values(stream, count):
    """Uniform in [-1, 1), exact in float32: a multiplicative hash of the index."""
    i = np.arange(count, dtype=np.uint64) + np.uint64(stream) * np.uint64(1000003)
    h = (i * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(48)
    return (h.astype(np.float32) - 32768) / 32768


def lenet5():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, CLASSES))


def mlp_tanh():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.Tanh(), nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, CLASSES))


def numbers(tensor):
    flat = tensor.detach().numpy().astype(np.float64).ravel()
    at = [k * flat.size // 16 for k in range(16)]
    return [*flat[at], flat.sum(), (flat * flat).sum()]


def line(key, numbers):
    return key + " " + " ".join(f"{float(v):.9g}" for v in numbers) + "\n"


def make(net, optimizer):
    names = []
    for stream, (name, p) in enumerate(net.named_parameters(), 1):
        fan = p.numel() // p.shape[0] if p.dim() > 1 else 100
        p.data = torch.tensor(values(stream, p.numel()).reshape(p.shape) * np.float32(1 / 2 ** round(np.log2(fan) / 2)))
        names.append(name)
    x = torch.tensor(values(100, BATCH * 784).reshape(BATCH, 1, 28, 28))
    y = torch.arange(BATCH) * 3 % CLASSES
    step = optimizer(net.parameters())
    text = line("outputs", net(x).detach().numpy().ravel())
    losses = []
    for number in range(STEPS):
        step.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        if number == 0:
            text += "".join(line(f"gradient {n}", numbers(p.grad)) for n, (_, p) in enumerate(net.named_parameters()))
        losses.append(loss.item())
        step.step()
    text += line("losses", losses)
    return text + "".join(line(f"last {n}", numbers(p)) for n, (_, p) in enumerate(net.named_parameters()))


CASES = {
    "lenet5-momentum": (lenet5, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
    "lenet5-decay": (lenet5, lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.01)),
    "mlp-nesterov": (mlp, lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True)),
    "mlp-tanh-adam": (mlp_tanh, lambda p: torch.optim.Adam(p, lr=0.001)),
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for name, (net, optimizer) in CASES.items():
        head = f"# torch {torch.__version__}: tests/reference/make_reference.py\n"
        (pathlib.Path(sys.argv[1]) / f"{name}.txt").write_text(head + make(net(), optimizer))


if __name__ == "__main__":
    main()
