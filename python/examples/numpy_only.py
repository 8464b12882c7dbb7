#!/usr/bin/env python3
"""Sharp softmax of numpy arrays: policies, statistics, masks, memory.

    python3 numpy_only.py
"""

import numpy as np
import whet

random = np.random.default_rng(1)

# One head that looks for an item which stands out by 6 logits, among more and more others.
print("     n  softmax  adaptive   ssmax  entropy    beta")
for n in (16, 256, 4096, 65536):
    logits = random.standard_normal((100, n), dtype=np.float32)
    logits[:, 0] = 6
    plain = whet.softmax(logits, "softmax")
    sharp, aux = whet.softmax(logits, "adaptive", return_aux=["entropy", "beta"])
    scaled = whet.softmax(logits, "ssmax:0.36")  # 0.36 ln n, 1 at n = 16
    print(f"{n:6}  {plain[:, 0].mean():7.3f}  {sharp[:, 0].mean():8.3f}  {scaled[:, 0].mean():6.3f}"
          f"  {aux.entropy.mean():7.3f}  {aux.beta.mean():6.3f}")

# Any axis, a mask, in place: nothing is copied as long as the values of a row are contiguous.
grid = random.standard_normal((8, 64, 64), dtype=np.float32)
lower = np.tri(64, dtype=bool)
whet.softmax(grid, "adaptive", mask=lower, out=grid)
assert np.allclose(grid.sum(-1), 1, atol=1e-5) and (grid[:, ~lower] == 0).all()

# A policy of one's own, from points: the beta that makes the entropy of a row half of what it was.
rows = 3 * random.standard_normal((200, 64), dtype=np.float32) * random.random((200, 1), dtype=np.float32)
entropies = whet.entropy(rows)
betas = np.array([whet.softmax(row, f"target:{h / 2}", return_aux="beta")[1].beta for row, h in zip(rows, entropies)])
keep = betas < 8
fitted = whet.fit_polynomial(entropies[keep], betas[keep], degree=3)
after = whet.softmax(rows[keep], fitted, return_aux="entropy_after")[1].entropy_after
print(f"\nfitted {fitted}")
print(f"entropy {entropies[keep].mean():.2f} -> {after.mean():.2f} on average")
