#!/usr/bin/env python3
"""Trains a tiny Transformer whose heads learn their own temperature, with a loss on their entropy.

    python3 train_transformer.py [--steps 300] [--entropy 0.01]

The task: name the class of the item with the largest priority. It is trained on 16 items and tested on more, with the learned
policies and, for comparison, with plain softmax in their place.
"""

import argparse

import torch
import whet
import whet.torch

CLASSES, WIDTH, HEADS = 8, 64, 4


class Layer(torch.nn.Module):
    """Attention and an MLP. Every head has its own policy, and the layer keeps the entropies of its last call."""

    def __init__(self):
        super().__init__()
        self.inputs = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.output = torch.nn.Linear(WIDTH, WIDTH)
        self.mlp = torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.GELU(),
                                       torch.nn.Linear(2 * WIDTH, WIDTH))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.policy = whet.torch.Policy("ssmax:0.36", heads=HEADS)  # beta = s ln n + b, about 1 for 16 items

    def forward(self, x, policy=None):
        q, k, v = self.inputs(self.norm(x)).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        out, aux = whet.attention(q, k, v, policy=policy or self.policy, return_aux=["entropy_after"])
        self.entropy = aux.entropy_after
        x = x + self.output(out.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Linear(1 + CLASSES, WIDTH)
        self.query = torch.nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.layers = torch.nn.ModuleList([Layer(), Layer()])
        self.answer = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, items, policy=None):
        x = torch.cat([self.query.expand(items.shape[0], 1, WIDTH), self.embed(items)], 1)
        for layer in self.layers:
            x = layer(x, policy)
        return self.answer(x[:, 0])


def sample(count, n, generator):
    """Items [count][n][priority and one-hot class], and the class of the largest."""
    priority = torch.rand(count, n, 1, generator=generator)
    classes = torch.randint(CLASSES, (count, n), generator=generator)
    label = classes.gather(1, priority[..., 0].argmax(1, keepdim=True))[:, 0]
    return torch.cat([priority, torch.nn.functional.one_hot(classes, CLASSES).float()], -1), label


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--entropy", type=float, default=0.01, help="weight of the entropy in the loss")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 64, 256])
    arguments = parser.parse_args()
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for step in range(1, arguments.steps + 1):
        items, label = sample(64, 16, generator)
        loss = torch.nn.functional.cross_entropy(model(items), label)
        entropy = torch.stack([layer.entropy[:, :, 0].mean() for layer in model.layers]).mean()  # of the query's position
        optimizer.zero_grad()
        (loss + arguments.entropy * entropy).backward()
        optimizer.step()
        if step % max(1, arguments.steps // 6) == 0:
            print(f"step {step:4}  loss {loss.item():.3f}  entropy {entropy.item():.3f}", flush=True)
    print("\npolicies of the last layer's heads: " + ", ".join(str(model.layers[-1].policy.policy(h)) for h in range(HEADS)))
    print("\nitems  learned  softmax   right answers of 500")
    with torch.no_grad():
        for n in arguments.sizes:
            items, label = sample(500, n, torch.Generator().manual_seed(n))
            learned, plain = ((model(items, policy).argmax(1) == label).float().mean().item() for policy in (None, "softmax"))
            print(f"{n:5}  {learned:7.3f}  {plain:7.3f}")


if __name__ == "__main__":
    main()
