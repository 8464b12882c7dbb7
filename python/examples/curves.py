#!/usr/bin/env python3
"""Draws what β does to the entropy of a row, and which β the paper's polynomial chooses.

    python3 curves.py [sharpening.svg [polynomial.svg]]
"""

import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "whet", "font.size": 10})
import matplotlib.pyplot as plt
import numpy as np
import whet


def draw_sharpening(path):
    """The entropy of softmax(β e) of one row of each size, whose logits are normal but for one that stands out by 6."""
    betas = np.geomspace(0.25, 8, 80).astype(np.float32)
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for n in (16, 256, 4096, 65536):
        row = np.random.default_rng(n).standard_normal(n, dtype=np.float32)
        row[0] = 6
        _, aux = whet.softmax(np.broadcast_to(row, (betas.size, n)), "softmax", beta=betas, return_aux=["entropy_after"])
        axes.plot(betas, aux.entropy_after, label=f"{n:,} items")
    axes.axvline(1, color="gray", linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["1/4", "1/2", "1", "2", "4", "8"])
    axes.set(xlabel="β", ylabel="entropy of softmax(β e), nats")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


def draw_polynomial(path):
    """β of the paper's rule and of two others against the entropy, and the entropy that is left in rows of normal logits."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    entropies = np.linspace(0, 8, 401)
    rows = np.linspace(0.1, 12, 60, dtype=np.float32)[:, None] * np.random.default_rng(1).standard_normal((1, 4096), dtype=np.float32)
    for name in ("adaptive", "adaptive:hold", "exp:1.5"):
        policy = whet.Policy(name)
        left.plot(entropies, [policy.beta(entropy=h) for h in entropies], label=name)
        _, aux = whet.softmax(rows, policy, return_aux=["entropy", "entropy_after"])
        right.plot(aux.entropy, aux.entropy_after, label=name)
    right.plot([0, 8], [0, 8], color="gray", linestyle=":", label="unchanged")
    left.set(xlabel="entropy of the row, nats", title="β", ylim=(0.8, 4))
    right.set(xlabel="entropy of the row, nats", title="entropy after sharpening")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw_sharpening(sys.argv[1] if len(sys.argv) > 1 else "sharpening.svg")
    draw_polynomial(sys.argv[2] if len(sys.argv) > 2 else "polynomial.svg")
