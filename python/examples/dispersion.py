#!/usr/bin/env python3
"""Draws how softmax disperses, and what policies do about it.

    python3 dispersion.py [dispersion.svg]
"""

import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "whet", "font.size": 10})
import matplotlib.pyplot as plt
import numpy as np
import whet

POLICIES = ("softmax", "adaptive", "adaptive:hold", "ssmax:0.36", "target:0.5")
SIZES = [1 << power for power in range(4, 17)]


def measure(policy):
    """Weight on the item that stands out by 6 logits, and the entropy, for each size: mean of 64 rows."""
    weight, entropy = [], []
    for n in SIZES:
        rows = np.random.default_rng(n).standard_normal((64, n), dtype=np.float32)
        rows[:, 0] = 6
        result, aux = whet.softmax(rows, policy, return_aux=["entropy_after"])
        weight.append(result[:, 0].mean())
        entropy.append(aux.entropy_after.mean())
    return weight, entropy


def main():
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for policy in POLICIES:
        weight, entropy = measure(policy)
        left.plot(SIZES, weight, marker=".", label=policy)
        right.plot(SIZES, entropy, marker=".", label=policy)
    right.plot(SIZES, np.log(SIZES), color="gray", linestyle=":", label="ln n")
    for axes, title in ((left, "weight on the largest"), (right, "entropy in nats")):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("items")
        axes.set_title(title)
        axes.grid(alpha=0.3)
    left.legend()
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "dispersion.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
