"""The max-retrieval model in idiomatic PyTorch: the peer of `whet bench retrieval`, which
embeds this file, and of the test of gradients.

    steps               for every line "N" on standard input: train for N steps, print the seconds they took
    gradients IN OUT    read parameters and a batch, write the loss and the gradients
"""
import struct
import sys
import time

import torch
from torch.nn.functional import cross_entropy, gelu, one_hot

torch.set_num_threads(1)


def adaptive(e):
    p = torch.softmax(e, -1)
    h = -(p * torch.log(p + 1e-9)).sum(-1, keepdim=True)
    poly = (((-0.037 * h + 0.481) * h - 2.3) * h + 4.917) * h - 1.791
    beta = torch.where(h > 0.5, torch.clamp(poly, min=1.0), torch.ones_like(h))
    return torch.softmax(beta * e, -1)


def rounded(x):
    """Rounds to bfloat16; gradients pass through unchanged."""
    return x + (x.bfloat16().to(x.dtype) - x).detach()


def rounded_product(a, b):
    return rounded(a) @ rounded(b)


def mlp(x, layers, product):
    """A first layer that knows one number has a vector for its matrix."""
    if x.shape[-1] == 1:
        weight, bias = layers[0]
        return mlp(gelu(x @ weight + bias, approximate="tanh"), layers[1:], product)
    for weight, bias in layers[:-1]:
        x = gelu(product(x, weight) + bias, approximate="tanh")
    weight, bias = layers[-1]
    return product(x, weight) + bias


class Model:
    """psi_x, psi_q and phi are lists of (weight [in][out], bias)."""

    def __init__(self, psi_x, psi_q, phi, w_q, w_k, w_v, scale, policy=0, product=torch.matmul):
        self.psi_x, self.psi_q, self.phi = psi_x, psi_q, phi
        self.w_q, self.w_k, self.w_v, self.scale, self.policy = w_q, w_k, w_v, scale, policy
        self.product = product

    def loss(self, priority, class_of, query, label):
        classes = self.psi_x[0][0].shape[0] - 1
        x = torch.cat([priority.unsqueeze(-1), one_hot(class_of, classes).to(priority.dtype)], -1)
        product = self.product
        h = mlp(x, self.psi_x, product)
        q = product(mlp(query.unsqueeze(-1), self.psi_q, product), self.w_q)
        k, v = product(h, self.w_k), product(h, self.w_v)
        e = self.scale * (k @ q.unsqueeze(-1)).squeeze(-1) / self.w_q.shape[0] ** 0.5
        a = adaptive(e) if self.policy else torch.softmax(e, -1)
        y = mlp((a.unsqueeze(1) @ v).squeeze(1), self.phi, product)
        return cross_entropy(y, label, reduction="mean")


def steps():
    width, classes, batch = 128, 10, 128

    def weight(rows, columns):
        w = torch.empty(rows, columns)
        torch.nn.init.trunc_normal_(w, std=rows**-0.5)
        return w.requires_grad_()

    def layer(rows, columns):
        return weight(rows, columns), torch.zeros(columns, requires_grad=True)

    psi_x = [layer(classes + 1, width), layer(width, width)]
    psi_q = [layer(1, width), layer(width, width)]
    phi = [layer(width, width), layer(width, classes)]
    square = [weight(width, width) for _ in range(3)]
    model = Model(psi_x, psi_q, phi, *square, 1.0)
    parameters = [p for layers in (psi_x, psi_q, phi) for pair in layers for p in pair] + square
    adam = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-3)
    print("torch " + torch.__version__, flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            n = int(torch.randint(5, 17, ()))
            priority = torch.rand(batch, n)
            class_of = torch.randint(0, classes, (batch, n))
            label = class_of.gather(1, priority.argmax(1, keepdim=True)).squeeze(1)
            adam.zero_grad(set_to_none=True)
            model.loss(priority, class_of, torch.rand(batch), label).backward()
            adam.step()
        print(time.perf_counter() - start, flush=True)


def gradients(source, target):
    data = open(source, "rb").read()
    depth, width, classes, sets, n, policy, rounds = struct.unpack_from("7i", data)
    numbers = torch.frombuffer(bytearray(data[28:]), dtype=torch.float32).double()
    place = 0
    parameters = []

    def take(*shape):
        nonlocal place
        count = 1
        for size in shape:
            count *= size
        piece = numbers[place : place + count].reshape(shape).clone()
        place += count
        return piece

    def parameter(*shape):
        parameters.append(take(*shape).requires_grad_())
        return parameters[-1]

    def layers(first, last):
        widths = [first] + [width] * depth + [last]
        return [(parameter(a, b), parameter(b)) for a, b in zip(widths, widths[1:])]

    psi_x, psi_q = layers(classes + 1, width), layers(1, width)
    phi = layers(width, classes)
    square = [parameter(width, width) for _ in range(3)]
    scale = parameter(1)
    priority, class_of = take(sets, n), take(sets, n).long()
    query, label = take(sets), take(sets).long()
    product = rounded_product if rounds else torch.matmul
    model = Model(psi_x, psi_q, phi, *square, scale, policy, product)
    loss = model.loss(priority, class_of, query, label)
    loss.backward()
    with open(target, "wb") as file:
        for values in [loss.detach().reshape(1)] + [p.grad.reshape(-1) for p in parameters]:
            file.write(struct.pack(f"{values.numel()}d", *values.tolist()))


if __name__ == "__main__":
    if sys.argv[1] == "steps":
        steps()
    else:
        gradients(sys.argv[2], sys.argv[3])
