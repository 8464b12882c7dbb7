"""The decoder of lab/lm in idiomatic PyTorch: the peer of `whet bench lm`, which embeds this file, and of
the tests of gradients and of training.

    steps               for every line "N" on standard input: train for N steps, print the seconds they took
    gradients IN OUT    read a model and a batch, write the loss and all gradients
    train IN OUT        read a model and batches, train, write the losses

IN begins with one line of JSON (the model's shape and the training's choices); what follows are floats: all weights in
the order of lab/lm/weights.h, then tokens, labels and weights of the targets, each [rows][length], for every step. OUT is
doubles.
"""
import json
import math
import struct
import sys
import time

import torch
from torch.nn.functional import cross_entropy, gelu, silu

try:
    from torch.nn.functional import scaled_dot_product_attention
except ImportError:  # before 2.0

    def scaled_dot_product_attention(q, k, v, is_causal):
        length = q.shape[-2]
        later = torch.full((length, length), float("-inf")).triu(1) if is_causal else 0.0
        return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + later, -1) @ v


def rmsnorm(x, gain, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * gain


def rotate(x, cosine, sine):
    """Rotates pairs of neighbours in the first elements of each head; x is [rows][heads][length][head_dim]."""
    dims = 2 * cosine.shape[-1]
    a, b = x[..., 0:dims:2], x[..., 1:dims:2]
    rotated = torch.stack([a * cosine - b * sine, a * sine + b * cosine], -1).flatten(-2)
    return torch.cat([rotated, x[..., dims:]], -1)


def polynomial(h, numbers):
    """Coefficients in h / 4, highest power first, [heads or 1][numbers]."""
    result = torch.zeros_like(h)
    for i in range(numbers.shape[-1]):
        result = result * (h / 4) + numbers[:, i].reshape(1, -1, 1, 1)
    return result


def sharpened(q, k, v, numbers):
    length = q.shape[-2]
    e = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    p = torch.softmax(e.masked_fill(later, float("-inf")), -1)
    h = -(p * torch.log(p + 1e-30)).sum(-1, keepdim=True)
    beta = torch.where(h > 0.5, torch.clamp(polynomial(h, numbers), min=1.0), torch.ones_like(h))
    return torch.softmax((beta * e).masked_fill(later, float("-inf")), -1) @ v


def hinged(q, k, v, numbers, n0):
    """beta = exp(a + h max(0, ln(n / n0))) over n keys; numbers are a and h, [heads or 1][2]."""
    length = q.shape[-2]
    e = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    excess = torch.log(torch.arange(1, length + 1, dtype=q.dtype) / n0).clamp(min=0).reshape(1, 1, -1, 1)
    a, h = (numbers[:, i].reshape(1, -1, 1, 1) for i in (0, 1))
    return torch.softmax((torch.exp(a + h * excess) * e).masked_fill(later, float("-inf")), -1) @ v


def scaled_rates(rates, shape):
    """Rotations a position, and the factor of queries and keys, under a scaling of positions."""
    scaling = shape.get("rope_scaling")
    if not scaling:
        return rates, 1.0
    factor = scaling["factor"]
    if scaling["kind"] == "linear":
        return rates / factor, scaling["attention"]
    dims, base = shape["rope_dims"], shape["rope_base"]

    def pair_with(rotations):  # the pair that makes so many rotations within the original context
        return dims * math.log(scaling["original"] / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low = max(0.0, math.floor(pair_with(scaling["fast"])))
    high = min(dims - 1.0, math.ceil(pair_with(scaling["slow"])))
    pairs = torch.arange(0, dims // 2, dtype=torch.float64)
    kept = 1 - ((pairs - low) / max(0.001, high - low)).clamp(0, 1)
    return rates * kept + rates / factor * (1 - kept), scaling["attention"] * (1 + 0.1 * math.log(factor))


class Decoder(torch.nn.Module):
    """`take(rows, columns)` gives the weights one after the other, in the order of lab/lm/weights.h."""

    def __init__(self, shape, take):
        super().__init__()
        self.shape = shape
        width, dim = shape["width"], shape["head_dim"]
        queries, keys = shape["heads"] * dim, shape["key_heads"] * dim

        def parameter(rows, columns):
            return torch.nn.Parameter(take(rows, columns))

        self.embedding = parameter(shape["vocabulary"], width)
        self.layers = torch.nn.ModuleList()
        for _ in range(shape["layers"]):
            layer = torch.nn.Module()
            layer.attention_norm = parameter(1, width)
            layer.q, layer.k, layer.v = parameter(queries, width), parameter(keys, width), parameter(keys, width)
            layer.output = parameter(width, queries)
            layer.mlp_norm = parameter(1, width)
            layer.gate, layer.up = parameter(shape["hidden"], width), parameter(shape["hidden"], width)
            layer.down = parameter(width, shape["hidden"])
            if shape["policy_rows"]:
                layer.policy = parameter(shape["policy_rows"], 2 if self.is_hinged() else 5)
            self.layers.append(layer)
        self.final_norm = parameter(1, width)
        self.head = self.embedding if shape["tied"] else parameter(shape["vocabulary"], width)
        if shape["policy"] == "adaptive":
            paper = torch.tensor([[-0.037, 0.481, -2.3, 4.917, -1.791]], dtype=torch.float64)
            self.paper = (paper * torch.tensor([256.0, 64.0, 16.0, 4.0, 1.0])).to(self.embedding.dtype)

    def is_hinged(self):
        return self.shape["policy"].startswith("hinge:")

    def angles(self, length, like):
        dims = self.shape["rope_dims"]
        rates = self.shape["rope_base"] ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
        rates, factor = scaled_rates(rates, self.shape)
        turns = torch.arange(length, dtype=torch.float64)[:, None] * rates
        return (factor * torch.cos(turns)).to(like.dtype), (factor * torch.sin(turns)).to(like.dtype)

    def attend(self, layer, x, angles):
        rows, length, _ = x.shape
        dim = self.shape["head_dim"]

        def heads(weight):
            return (x @ weight.T).reshape(rows, length, -1, dim).transpose(1, 2)

        q, k, v = heads(layer.q), heads(layer.k), heads(layer.v)
        if angles:
            q, k = rotate(q, *angles), rotate(k, *angles)
        share = q.shape[1] // k.shape[1]
        if share > 1:
            k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
        if self.shape["policy"] == "adaptive":
            mixed = sharpened(q, k, v, layer.policy if self.shape["policy_rows"] else self.paper)
        elif self.is_hinged():
            mixed = hinged(q, k, v, layer.policy, float(self.shape["policy"].split(":")[3]))
        else:
            mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(rows, length, -1) @ layer.output.T

    def forward(self, tokens):
        epsilon = self.shape["norm_epsilon"]
        x = self.embedding[tokens]
        angles = self.angles(tokens.shape[1], x) if self.shape["positions"] == "rope" else None
        for layer in self.layers:
            x = x + self.attend(layer, rmsnorm(x, layer.attention_norm, epsilon), angles)
            y = rmsnorm(x, layer.mlp_norm, epsilon)
            gate = y @ layer.gate.T
            gate = gelu(gate, approximate="tanh") if self.shape["gate"] == "geglu" else silu(gate)
            x = x + (gate * (y @ layer.up.T)) @ layer.down.T
        return rmsnorm(x, self.final_norm, epsilon) @ self.head.T

    def loss(self, tokens, labels, weights):
        losses = cross_entropy(self(tokens).flatten(0, 1), labels.flatten(), reduction="none")
        return (losses * weights.flatten()).sum()


def grouped(model):
    """Matrices decay, vectors do not."""
    parameters = [p for p in model.parameters()]
    policies = {id(layer.policy) for layer in model.layers if hasattr(layer, "policy")}
    decays = [p for p in parameters if p.shape[0] > 1 and id(p) not in policies]
    rest = [p for p in parameters if p.shape[0] == 1 or id(p) in policies]
    return decays, rest


class Input:
    def __init__(self, path, dtype):
        data = open(path, "rb").read()
        end = data.index(b"\n") + 1
        self.head = json.loads(data[:end])
        self.numbers = torch.frombuffer(bytearray(data[end:]), dtype=torch.float32).to(dtype)
        self.place = 0

    def take(self, *shape):
        count = 1
        for size in shape:
            count *= size
        piece = self.numbers[self.place : self.place + count].reshape(shape).clone()
        self.place += count
        return piece

    def batch(self):
        shape = self.take(2).long().tolist()
        return self.take(*shape).long(), self.take(*shape).long(), self.take(*shape)


def write(path, values):
    with open(path, "wb") as file:
        file.write(struct.pack(f"{len(values)}d", *values))


def gradients(source, target):
    given = Input(source, torch.float64)
    model = Decoder(given.head["shape"], given.take)
    loss = model.loss(*given.batch())
    loss.backward()
    # parameters() knows the order in which modules were registered, which is not that of the weights.
    order = [model.embedding]
    for layer in model.layers:
        order += [layer.attention_norm, layer.q, layer.k, layer.v, layer.output]
        order += [layer.mlp_norm, layer.gate, layer.up, layer.down]
        order += [layer.policy] if hasattr(layer, "policy") else []
    order += [model.final_norm] + ([] if model.head is model.embedding else [model.head])
    write(target, [loss.item()] + [value for p in order for value in p.grad.reshape(-1).tolist()])


def train(source, target):
    given = Input(source, torch.float32)
    model = Decoder(given.head["shape"], given.take)
    decays, rest = grouped(model)
    adam = torch.optim.AdamW(
        [{"params": decays, "weight_decay": given.head["decay"]}, {"params": rest, "weight_decay": 0.0}],
        betas=(given.head["beta1"], given.head["beta2"]),
    )
    losses = []
    for rate in given.head["rates"]:
        for group in adam.param_groups:
            group["lr"] = rate
        tokens, labels, weights = given.batch()
        adam.zero_grad(set_to_none=True)
        loss = model.loss(tokens, labels, weights) / weights.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), given.head["clip"])
        adam.step()
        losses.append(loss.item())
    write(target, losses)


def steps(options):
    options = json.loads(options)
    torch.set_num_threads(options["threads"])
    shape = options["shape"]

    def take(rows, columns):
        return torch.ones(rows, columns) if rows == 1 else torch.randn(rows, columns) * columns**-0.5

    model = Decoder(shape, take)
    decays, rest = grouped(model)
    adam = torch.optim.AdamW([{"params": decays, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-3)
    rows, length = options["rows"], options["length"]
    print("torch " + torch.__version__, flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            tokens = torch.randint(0, shape["vocabulary"], (rows, length + 1))
            adam.zero_grad(set_to_none=True)
            weights = torch.full((rows, length), 1.0 / (rows * length))
            model.loss(tokens[:, :-1], tokens[:, 1:], weights).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "steps":
        steps(sys.argv[2])
    elif sys.argv[1] == "train":
        train(sys.argv[2], sys.argv[3])
    else:
        gradients(sys.argv[2], sys.argv[3])
