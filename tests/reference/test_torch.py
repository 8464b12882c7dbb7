# needs: torch numpy
"""The library against PyTorch in float64: whet_softmax under `adaptive` against the listing of the paper's Figure 4, and
attention against the usual composition of matrix products and softmax, both forth and, by autograd, back.

The shared library (WHET_LIB) is loaded as any other program would load it, with the declarations of the Python package.
"""

import ctypes
import math
import os
import sys
from ctypes import byref, c_ssize_t

import torch
from check import check, main, skip, test

sys.path.insert(0, os.path.join(os.environ["WHET_SOURCE_DIR"], "python", "whet"))
from _declarations import (BF16, CAUSAL, F16, F32, FUNCTIONS, Attention, Gradients, KeyBias, KeyBiasOut, Mask, PolicyGradient, Rows,
                           RowsBackward, Stats, Tensor)

TYPES = {torch.float32: F32, torch.float16: F16, torch.bfloat16: BF16}

_library = None


def library():
    global _library
    if os.environ.get("WHET_INSTRUMENTED"):
        skip("a library built with sanitizers cannot be loaded into python")
    if _library is None:
        _library = ctypes.CDLL(os.environ["WHET_LIB"])
        for name, (result, parameters) in FUNCTIONS.items():
            function = getattr(_library, name)
            function.restype, function.argtypes = result, parameters
    return _library


def policy(name):
    result = ctypes.create_string_buffer(1024)
    status = library().whet_policy_parse(name.encode(), result, None, 0)
    check(status == 0, f"{name} does not parse")
    return result


def whet_softmax(logits, name):
    """Probabilities and statistics of [rows][n] logits."""
    rows, n = logits.shape
    out = torch.empty_like(logits)
    stats = (Stats * rows)()
    kind = TYPES[logits.dtype]
    request = Rows(size=ctypes.sizeof(Rows), rows=rows, n=n, in_=logits.data_ptr(), out=out.data_ptr(), stats=ctypes.addressof(stats),
                   in_type=kind, out_type=kind)
    status = library().whet_softmax(byref(request), policy(name), None)
    check(status == 0, f"whet_softmax: status {status}")
    return out, stats


def whet_softmax_backward(logits, grad_out, name):
    """Gradients of [rows][n] logits and of the policy's parameters."""
    rows, n = logits.shape
    grad_in = torch.empty(rows, n)
    numbers = PolicyGradient()
    request = RowsBackward(size=ctypes.sizeof(RowsBackward), rows=rows, n=n, in_=logits.data_ptr(),
                           grad_out=grad_out.data_ptr(), grad_in=grad_in.data_ptr(), policy_grad=ctypes.addressof(numbers),
                           in_type=TYPES[logits.dtype], grad_out_type=TYPES[grad_out.dtype], grad_in_type=F32)
    status = library().whet_softmax_backward(byref(request), policy(name), None)
    check(status == 0, f"whet_softmax_backward: status {status}")
    return grad_in, numbers


def address(tensor):
    return None if tensor is None else tensor.data_ptr()


def whet_row_extras(logits, name, grad_out, sink, beta, statistics):
    """Gradients of [rows][n] logits, of a sink and a beta for each row, where the loss has gradients of statistics, too."""
    rows, n = logits.shape
    grad_in, grad_sink, grad_beta = torch.empty(rows, n), torch.empty(rows), torch.empty(rows)
    request = RowsBackward(size=ctypes.sizeof(RowsBackward), rows=rows, n=n, in_=logits.data_ptr(),
                           grad_out=address(grad_out), grad_in=grad_in.data_ptr(), sink=address(sink), sink_stride=1,
                           grad_sink=address(None if sink is None else grad_sink), beta=address(beta),
                           grad_beta=grad_beta.data_ptr(), grad_logsumexp=address(statistics[0]),
                           grad_entropy=address(statistics[1]), grad_entropy_after=address(statistics[2]))
    status = library().whet_softmax_backward(byref(request), policy(name), None)
    check(status == 0, f"whet_softmax_backward: status {status}")
    return grad_in, grad_sink, grad_beta


def described(tensor):
    """A tensor of torch as it lies, whatever its strides."""
    size = tensor.element_size()
    strides = (c_ssize_t * 4)(*[stride * size for stride in tensor.stride()])
    return Tensor(data=tensor.data_ptr(), stride=strides, type=TYPES[tensor.dtype])


def bias_of(bias, struct=KeyBias):
    """A bias [batch or 1][heads or 1][keys] as it lies; a size of one is repeated, or summed over."""
    if bias is None:
        return struct()
    strides = [0 if bias.shape[axis] == 1 else bias.stride(axis) * 4 for axis in range(2)]
    return struct(data=bias.data_ptr(), stride=(c_ssize_t * 3)(*strides, bias.stride(2) * 4))


def whet_attention(q, k, v, name, **options):
    out, stats, _ = forward(q, k, v, name, **options)
    return out, stats


def forward(q, k, v, name, causal=False, mask=None, offset=0, sinks=None, slopes=None, softcap=0, betas=None, bias=None):
    """Output, statistics, and the request with what it points to."""
    batch, heads, queries, head_dim = q.shape
    out = torch.empty(batch, heads, queries, v.shape[3], dtype=torch.float32)
    stats = (Stats * (batch * heads * queries))()
    chosen = policy(name)
    request = Attention(size=ctypes.sizeof(Attention), batch=batch, heads=heads, kv_heads=k.shape[1], queries=queries,
                        keys=k.shape[2], head_dim=head_dim, value_dim=v.shape[3], q=described(q), k=described(k),
                        v=described(v), flags=CAUSAL if causal else 0, offset=offset, stats=ctypes.addressof(stats),
                        softcap=softcap)
    request.out.data = out.data_ptr()
    request.policies = ctypes.addressof(chosen)
    request.sinks = None if sinks is None else sinks.data_ptr()
    request.alibi_slopes = None if slopes is None else slopes.data_ptr()
    request.betas = address(betas)
    request.bias = bias_of(bias)
    if mask is not None:
        size = mask.element_size()
        # a size of one is repeated by a stride of zero
        strides = [0 if mask.shape[axis] == 1 else mask.stride(axis) * size for axis in range(3)]
        request.mask = Mask(data=mask.data_ptr(), stride=(c_ssize_t * 4)(*strides, mask.stride(3) * size),
                             type=TYPES[mask.dtype])
    status = library().whet_attention_forward(byref(request), None, None)
    check(status == 0, f"whet_attention_forward: status {status}")
    return out, stats, (request, chosen)


def whet_backward(q, k, v, grad, name, sinks=None, slopes=None, **options):
    """Gradients of q, k, v, of the policy's parameters, of sinks and slopes."""
    _, stats, (request, chosen) = forward(q, k, v, name, sinks=sinks, slopes=slopes, **options)
    results = [torch.empty(tensor.shape, dtype=torch.float32) for tensor in (q, k, v)]
    numbers = torch.empty(16, dtype=torch.float64)
    heads = torch.zeros(2, q.shape[1])
    back = Gradients(size=ctypes.sizeof(Gradients), attention=request, out=described(grad), policies=numbers.data_ptr())
    for place, result in zip((back.q, back.k, back.v), results):
        place.data = result.data_ptr()
    back.sinks = None if sinks is None else heads[0].data_ptr()
    back.alibi_slopes = None if slopes is None else heads[1].data_ptr()
    status = library().whet_attention_backward(byref(back), None, None)
    check(status == 0, f"whet_attention_backward: status {status}")
    return (*results, numbers, heads[0], heads[1])


def whet_additions(q, k, v, grad, name, statistics, betas=None, bias=None, **options):
    """Gradients of q, k, v, betas and the bias, where the loss has gradients of statistics, too."""
    _, stats, (request, chosen) = forward(q, k, v, name, betas=betas, bias=bias, **options)
    results = [torch.empty(tensor.shape) for tensor in (q, k, v)]
    of_betas = torch.empty(*q.shape[:3])
    of_bias = None if bias is None else torch.empty(bias.shape)
    back = Gradients(size=ctypes.sizeof(Gradients), attention=request, betas=of_betas.data_ptr(), bias=bias_of(of_bias, KeyBiasOut),
                     logsumexp=address(statistics[0]), entropy=address(statistics[1]),
                     entropy_after=address(statistics[2]))
    if grad is not None:
        back.out = described(grad)
    for place, result in zip((back.q, back.k, back.v), results):
        place.data = result.data_ptr()
    status = library().whet_attention_backward(byref(back), None, None)
    check(status == 0, f"whet_attention_backward: status {status}")
    return (*results, of_betas, of_bias)


# ---- the paper's Figure 4, line by line, in torch ----


def polyval(coefficients, x):
    """As jax.numpy.polyval: the highest power first."""
    result = torch.zeros_like(x)
    for coefficient in coefficients:
        result = result * x + coefficient
    return result


POLY_FIT = [-0.037, 0.481, -2.3, 4.917, -1.791]


def listing(logits, poly_fit=POLY_FIT):
    original_probs = torch.softmax(logits, dim=-1)
    entropy = torch.sum(-original_probs * torch.log(original_probs + 1e-9), dim=-1, keepdim=True)
    beta = torch.where(entropy > 0.5, torch.clamp(polyval(poly_fit, entropy), min=1.0), torch.ones_like(entropy))
    return torch.softmax(logits * beta, dim=-1), entropy.squeeze(-1), beta.squeeze(-1)


def composed(q, k, v, sharpen, causal=False, mask=None, offset=0):
    """Attention as everybody writes it, in float64."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        logits = logits + mask.double()
    if causal:
        i = torch.arange(q.shape[2]).unsqueeze(1) + offset
        logits = logits.masked_fill(torch.arange(k.shape[2]).unsqueeze(0) > i, -math.inf)
    return sharpen(logits) @ v


def softmax(logits):
    return torch.softmax(logits, dim=-1)


def adaptive(logits):
    return listing(logits)[0]


# ---- rows ----


STEEPEST = 2.6  # |d beta / d H| of the polynomial where it is above 1


def compare_rows(logits):
    ours, stats = whet_softmax(logits, "adaptive")
    exact = logits.double()
    theirs, entropy, beta = listing(exact)
    n = logits.shape[1]
    guard = n * 1e-9  # what the 1e-9 inside the listing's logarithm does to H
    worst = 0
    for row, own in enumerate(stats):
        h, b = entropy[row].item(), beta[row].item()
        check(abs(own.entropy - h) <= guard + 2e-6 * max(1, h), f"n = {n}: entropy {own.entropy} for {h}")
        slack = STEEPEST * guard + 1e-5
        check(abs(own.beta - b) <= slack, f"n = {n}: beta {own.beta} for {b}")
        # at the beta that was reported
        right = torch.softmax(exact[row] * own.beta, dim=-1)
        error = (ours[row].double() - right).abs()
        limit = torch.clamp(4e-6 * right, min=1e-9)
        check(bool((error <= limit).all()), f"n = {n}: probabilities off by {error.max().item()}")
        # and as the listing has it, a little off in beta
        mean = (theirs[row] * exact[row]).sum()
        moved = slack * theirs[row] * (exact[row] - mean).abs()
        error = (ours[row].double() - theirs[row]).abs()
        check(bool((error <= limit + 1.1 * moved).all()), f"n = {n}: {error.max().item()} from the listing")
        worst = max(worst, error.max().item())
    return worst


@test
def adaptive_rows_are_those_of_the_papers_listing():
    torch.manual_seed(1)
    worst = 0
    for n in (1, 2, 3, 16, 17, 100, 127, 1000, 4097):
        for deviation in (0.1, 1, 3, 10):
            worst = max(worst, compare_rows(torch.randn(8, n) * deviation))
    print(f"     worst probability: {worst:.2g} absolute")


@test
def adaptive_rows_of_any_sharpness_are_those_of_the_papers_listing():
    torch.manual_seed(2)
    # rows from uniform to one-hot, so that the entropy passes through everything the polynomial sharpens
    scale = torch.logspace(-2, 1.5, 200).unsqueeze(1)
    compare_rows(torch.randn(200, 64) * scale)
    compare_rows(torch.randn(200, 512) * scale)


@test
def long_rows_are_those_of_the_papers_listing():
    torch.manual_seed(3)
    compare_rows(torch.randn(1, 131072) * 3)
    compare_rows(torch.randn(1, 1048576) * 4)


@test
def half_precision_rows_are_rounded_as_torch_rounds():
    torch.manual_seed(4)
    for dtype in (torch.float16, torch.bfloat16):
        logits = (torch.randn(5, 999) * 2).to(dtype)
        ours, _ = whet_softmax(logits, "adaptive")
        wide, _ = whet_softmax(logits.float(), "adaptive")
        check(bool((ours == wide.to(dtype)).all()), f"{dtype}")


# ---- the backward pass of rows ----


def entropy_of(logits):
    """In the plain way, without the listing's 1e-9."""
    log_p = torch.log_softmax(logits, dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1, keepdim=True)


ADAPTIVE = [-0.037, 0.481, -2.3, 4.917, -1.791]


def adaptive_of(logits, coefficients, strength):
    h = entropy_of(logits)
    beta = torch.where(h > 0.5, torch.clamp(polyval(coefficients, h), min=1.0), torch.ones_like(h))
    return torch.softmax(logits * (1 + strength * (beta - 1)), dim=-1)


def sparsemax_of(logits):
    """By sorting, as it was first written down."""
    z, _ = torch.sort(logits, dim=-1, descending=True)
    k = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype)
    total = z.cumsum(dim=-1) - 1
    size = (k * z > total).sum(dim=-1, keepdim=True)
    return torch.clamp(logits - total.gather(-1, size - 1) / size, min=0)


def stick_breaking_of(logits):
    later = torch.nn.functional.logsigmoid(-logits).flip(-1).cumsum(-1).flip(-1)
    after = torch.cat([later[:, 1:], torch.zeros_like(later[:, :1])], dim=-1)
    return torch.exp(torch.nn.functional.logsigmoid(logits) + after)


def softmax1_of(logits):
    zero = torch.zeros_like(logits[:, :1])
    return torch.softmax(torch.cat([logits, zero], dim=-1), dim=-1)[:, :-1]


def autograd(sharpen, logits, grad_out, numbers=()):
    exact = logits.double().requires_grad_()
    (sharpen(exact) * grad_out.double()).sum().backward()
    return exact.grad, [number.grad.item() for number in numbers]


def compare_gradients(name, sharpen, logits, grad_out, numbers=()):
    """The library's numbers, and the worst error of a gradient by its row's largest."""
    ours, ours_numbers = whet_softmax_backward(logits, grad_out, name)
    theirs, their_numbers = autograd(sharpen, logits, grad_out, numbers)
    error = ((ours.double() - theirs).abs() / theirs.abs().max(dim=-1, keepdim=True).values.clamp(min=1e-20)).max().item()
    # two parts of a gradient may cancel in a row as a whole
    check(error <= 1e-5, f"{name}, {tuple(logits.shape)}: gradient off by {error:.3g} of its row's largest")
    return ours_numbers, their_numbers, error


@test
def gradients_of_adaptive_rows_are_autograds():
    torch.manual_seed(10)
    worst = 0
    for n in (2, 3, 16, 17, 100, 127, 1000, 4097):
        for deviation in (0.1, 1, 3):
            for strength in (1.0, 0.4):
                logits, grad_out = torch.randn(8, n) * deviation, torch.randn(8, n)
                coefficients = [torch.tensor(c, dtype=torch.float64, requires_grad=True) for c in ADAPTIVE]
                weakened = torch.tensor(strength, dtype=torch.float64, requires_grad=True)
                ours, theirs, error = compare_gradients(
                    f"adaptive:strength={strength}", lambda e: adaptive_of(e, coefficients, weakened), logits, grad_out,
                    [*coefficients, weakened])
                worst = max(worst, error)
                for own, other in zip([*ours.value[:5], ours.strength], theirs):
                    check(abs(own - other) <= 2e-5 * max(1, abs(other)), f"n = {n}: number {own} for {other}")
    print(f"     worst gradient: {worst:.2g} of its row's largest")


@test
def gradients_of_other_rows_are_autograds():
    torch.manual_seed(11)
    for n in (1, 2, 17, 100, 1000):
        logits, grad_out = torch.randn(8, n), torch.randn(8, n)
        ours, theirs, _ = compare_gradients("softmax", softmax, logits, grad_out)
        for name, sharpen in (("softmax1", softmax1_of), ("sparsemax", sparsemax_of),
                              ("stick-breaking", stick_breaking_of),
                              ("sigmoid", lambda e: torch.sigmoid(e - math.log(n)))):
            compare_gradients(name, sharpen, logits, grad_out)
        b = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
        ours, theirs, _ = compare_gradients("sigmoid:0.5", lambda e: torch.sigmoid(e - b), logits, grad_out, [b])
        check(abs(ours.map_value[0] - theirs[0]) <= 1e-9 * n, f"n = {n}: b {ours.map_value[0]} for {theirs[0]}")
        h0 = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        ours, theirs, _ = compare_gradients(
            "exp:1", lambda e: torch.softmax(e * torch.clamp(torch.exp(entropy_of(e) - h0), min=1.0), dim=-1),
            logits[:, :100].contiguous(), grad_out[:, :100].contiguous(), [h0])
        check(abs(ours.value[0] - theirs[0]) <= 2e-5 * max(1, abs(theirs[0])), f"h0 {ours.value[0]} for {theirs[0]}")


@test
def gradients_of_half_precision_rows_are_autograds():
    torch.manual_seed(12)
    for dtype in (torch.float16, torch.bfloat16):
        logits, grad_out = torch.randn(5, 999).to(dtype), torch.randn(5, 999).to(dtype)
        compare_gradients("adaptive", lambda e: adaptive_of(e, ADAPTIVE, 1.0), logits, grad_out)


def described_row(logits, sink, beta, name):
    """Probabilities without the sink's, logsumexp, entropy, entropy of the result and beta, all differentiable."""
    e = logits if sink is None else torch.cat([logits, sink.unsqueeze(-1)], dim=-1)
    h = entropy_of(e)
    if beta is None:
        beta = torch.ones_like(h) if name == "softmax" else torch.where(
            h > 0.5, torch.clamp(polyval(ADAPTIVE, h), min=1.0), torch.ones_like(h))
    else:
        beta = beta.unsqueeze(-1)
    if beta.requires_grad:
        beta.retain_grad()
    p = torch.softmax(e * beta, dim=-1)
    after = entropy_of(e * beta)
    kept = p if sink is None else p[..., :-1]
    return kept, torch.logsumexp(e, dim=-1), h.squeeze(-1), after.squeeze(-1), beta


def loss_of(parts, gradients):
    return sum((part * gradient.double()).sum() for part, gradient in zip(parts, gradients) if gradient is not None)


def close(what, own, right, limit=1e-5, least=1e-3):
    error = (own.double() - right).abs().max().item() / max(right.abs().max().item(), least)
    check(error <= limit, f"{what}: off by {error:.3g} of the largest")
    return error


def choices():
    """Which of sink, beta and the gradients of result, logsumexp, entropy and entropy_after there are."""
    return [(sink, beta, arriving) for sink in (False, True) for beta in (False, True)
            for arriving in ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (1, 1, 1, 1))]


@test
def gradients_of_sinks_betas_and_statistics_of_rows_are_autograds():
    torch.manual_seed(13)
    worst = 0
    for n in (2, 17, 1000):
        for has_sink, has_beta, arriving in choices():
            for name in ("softmax",) if has_beta else ("softmax", "adaptive"):
                logits = torch.randn(8, n) * 1.5
                sink = torch.randn(8) if has_sink else None
                beta = torch.rand(8) * 2 + 0.5 if has_beta else None
                given = [torch.randn(8, n), torch.randn(8), torch.randn(8), torch.randn(8)]
                given = [gradient if wanted else None for gradient, wanted in zip(given, arriving)]
                ours = whet_row_extras(logits, name, given[0], sink, beta, given[1:])
                leaves = [None if leaf is None else leaf.double().requires_grad_() for leaf in (logits, sink, beta)]
                *parts, used = described_row(*leaves, name)
                loss_of(parts, given).backward()
                what = f"{name}, n = {n}, {has_sink}, {has_beta}, {arriving}"
                worst = max(worst, close(f"{what}: logits", ours[0], leaves[0].grad))
                if has_sink:
                    close(f"{what}: sink", ours[1], leaves[1].grad)
                if used.grad is not None:
                    close(f"{what}: beta", ours[2], used.grad.squeeze(-1))
                elif has_beta and leaves[2].grad is not None:
                    close(f"{what}: given beta", ours[2], leaves[2].grad)
    print(f"     worst gradient: {worst:.2g} of the largest")


# ---- attention ----


def compare_attention(q, k, v, **options):
    worst = 0
    size = v.double().abs().max().item()
    for name, sharpen in (("softmax", softmax), ("adaptive", adaptive)):
        ours, _ = whet_attention(q, k, v, name, **options)
        theirs = composed(q, k, v, sharpen, **options)
        error = (ours.double() - theirs).abs().max().item() / size
        # the listing's 1e-9 moves beta, which moves outputs by no more than that times a few logits
        limit = 2e-6 + (0 if name == "softmax" else 5 * STEEPEST * k.shape[2] * 1e-9)
        check(error <= limit, f"{name}, {tuple(q.shape)} by {tuple(k.shape)}: {error:.3g} of max|V|")
        worst = max(worst, error)
    return worst


SHAPES = [  # batch, heads, kv_heads, queries, keys, head_dim, value_dim
    (1, 1, 1, 1, 1, 1, 1),
    (2, 4, 4, 33, 47, 64, 64),
    (1, 8, 2, 1, 1000, 128, 128),
    (2, 6, 3, 7, 129, 40, 56),
    (1, 2, 1, 200, 200, 80, 80),
    (1, 1, 1, 300, 1000, 576, 512),
]


def tensors(batch, heads, kv_heads, queries, keys, head_dim, value_dim, dtype=torch.float32):
    return (torch.randn(batch, heads, queries, head_dim), torch.randn(batch, kv_heads, keys, head_dim).to(dtype),
            torch.randn(batch, kv_heads, keys, value_dim).to(dtype))


@test
def attention_agrees_with_the_composition():
    torch.manual_seed(5)
    worst = max(compare_attention(*tensors(*shape)) for shape in SHAPES)
    print(f"     worst output: {worst:.2g} of max|V|")


@test
def causal_attention_agrees_with_the_composition():
    torch.manual_seed(6)
    for shape in SHAPES:
        q, k, v = tensors(*shape)
        compare_attention(q, k, v, causal=True, offset=k.shape[2] - q.shape[2])


@test
def masked_attention_agrees_with_the_composition():
    torch.manual_seed(7)
    for shape in SHAPES[1:]:
        q, k, v = tensors(*shape)
        for masks in ((1, 1), (q.shape[0], q.shape[1])):
            for dtype in (torch.float32, torch.float16):
                mask = torch.randn(*masks, q.shape[2], k.shape[2]).to(dtype)
                mask[..., 1:].masked_fill_(torch.rand_like(mask[..., 1:], dtype=torch.float32) < 0.3, -math.inf)
                compare_attention(q, k, v, mask=mask)


@test
def half_precision_caches_agree_with_the_composition():
    torch.manual_seed(8)
    for dtype in (torch.float16, torch.bfloat16):
        for shape in SHAPES:
            compare_attention(*tensors(*shape, dtype=dtype))


@test
def transposed_tensors_are_read_where_they_lie():
    torch.manual_seed(9)
    # [batch][position][head][dim], as projections leave them
    q = torch.randn(2, 21, 4, 64).transpose(1, 2)
    k = torch.randn(2, 75, 2, 64).transpose(1, 2)
    v = torch.randn(2, 75, 2, 64).transpose(1, 2)
    check(not q.is_contiguous(), "the test tests nothing")
    compare_attention(q, k, v)
    compare_attention(q[:, :, 3:5], k[:, :, 10:70], v[:, :, 10:70])


# ---- the backward pass ----

FAR = -1e4  # masked, but times beta still a number: autograd makes NaN of -inf


def compose_back(q, k, v, grad, name, causal=False, offset=0, sinks=None, slopes=None, softcap=0):
    """The same gradients by autograd, in float64, through beta and all."""
    leaves = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    numbers = torch.tensor(POLY_FIT, dtype=torch.float64, requires_grad=True)
    sinks = torch.full((q.shape[1],), FAR) if sinks is None else sinks
    slopes = torch.zeros(q.shape[1]) if slopes is None else slopes
    heads = [tensor.double().requires_grad_() for tensor in (sinks, slopes)]
    group = q.shape[1] // k.shape[1]
    keys, values = (tensor.repeat_interleave(group, 1) for tensor in leaves[1:])
    logits = leaves[0] @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    i = torch.arange(q.shape[2]).unsqueeze(1) + offset
    j = torch.arange(k.shape[2]).unsqueeze(0)
    logits = logits - heads[1].view(1, -1, 1, 1) * (i - j).abs()
    if causal:
        logits = logits.masked_fill(j > i, FAR)
    sink = heads[0].view(1, -1, 1, 1).expand(*logits.shape[:3], 1)
    logits = torch.cat([logits, sink], dim=-1)
    weights = torch.softmax(logits, dim=-1) if name == "softmax" else listing(logits, numbers)[0]
    (weights[..., :-1] @ values).backward(grad.double())
    if numbers.grad is None:
        numbers.grad = torch.zeros(5, dtype=torch.float64)
    return (*[leaf.grad for leaf in leaves], numbers.grad, *[leaf.grad for leaf in heads])


def compare_back(q, k, v, **options):
    grad = torch.randn(q.shape[0], q.shape[1], q.shape[2], v.shape[3])
    names = ("q", "k", "v", "numbers", "sinks", "slopes")
    worst = 0
    for name in ("softmax", "adaptive"):
        ours = whet_backward(q, k, v, grad, name, **options)
        theirs = compose_back(q, k, v, grad, name, **options)
        for what, own, right in zip(names, ours, theirs):
            if what in ("sinks", "slopes") and what not in options:
                continue
            own = own[:5] if what == "numbers" else own
            size = max(right.abs().max().item(), 1e-3 if what in names[:3] else q.shape[2])
            error = (own.double() - right).abs().max().item() / size
            # the listing's 1e-9 moves beta and its slope
            limit = 1e-5 + (0 if name == "softmax" else 50 * k.shape[2] * 1e-9)
            check(error <= limit, f"{name}, {what}, {tuple(q.shape)} by {tuple(k.shape)}: {error:.3g} of the largest")
            worst = max(worst, error)
    return worst


@test
def gradients_agree_with_autograd_through_beta():
    torch.manual_seed(10)
    worst = max(compare_back(*tensors(*shape)) for shape in SHAPES)
    print(f"     worst gradient: {worst:.2g} of the largest")


@test
def gradients_with_every_feature_agree_with_autograd():
    torch.manual_seed(11)
    for shape in SHAPES:
        q, k, v = tensors(*shape)
        compare_back(2 * q, k, v, causal=True, offset=k.shape[2] - q.shape[2], softcap=5,
                     sinks=torch.randn(q.shape[1]), slopes=torch.rand(q.shape[1]) / 16)


def compose_additions(q, k, v, grad, name, statistics, sinks=None, betas=None, bias=None):
    """The same as whet_additions by autograd, in float64."""
    leaves = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    group = q.shape[1] // k.shape[1]
    keys, values = (tensor.repeat_interleave(group, 1) for tensor in leaves[1:])
    logits = leaves[0] @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1])
    own_bias = None if bias is None else bias.double().requires_grad_()
    if bias is not None:
        logits = logits + own_bias.unsqueeze(2)
    own_betas = None if betas is None else betas.double().requires_grad_()
    sink = None if sinks is None else sinks.double().view(1, -1, 1).expand(*logits.shape[:3])
    p, *stats, used = described_row(logits, sink, own_betas, name)
    loss_of([p @ values, *stats], [grad, *statistics]).backward()
    by_beta = own_betas.grad if betas is not None else None if used.grad is None else used.grad.squeeze(-1)
    of_v = torch.zeros_like(leaves[2]) if leaves[2].grad is None else leaves[2].grad
    return leaves[0].grad, leaves[1].grad, of_v, by_beta, None if bias is None else own_bias.grad


@test
def gradients_of_betas_biases_and_statistics_agree_with_autograd():
    torch.manual_seed(14)
    worst = 0
    for shape in SHAPES[1:5]:
        for has_sink, has_beta, arriving in choices():
            q, k, v = tensors(*shape)
            rows = q.shape[:3]
            given = [torch.randn(*rows, v.shape[3]), torch.randn(rows), torch.randn(rows), torch.randn(rows)]
            given = [gradient if wanted else None for gradient, wanted in zip(given, arriving)]
            bias = torch.randn(q.shape[0] if has_sink else 1, q.shape[1] if has_beta else 1, k.shape[2])
            extras = {"bias": bias, "sinks": torch.randn(q.shape[1]) if has_sink else None,
                      "betas": torch.rand(rows) * 2 + 0.5 if has_beta else None}
            for name in ("softmax",) if has_beta else ("softmax", "adaptive"):
                ours = whet_additions(q, k, v, given[0], name, given[1:], **extras)
                theirs = compose_additions(q, k, v, given[0], name, given[1:], **extras)
                for what, own, right in zip(("q", "k", "v", "betas", "bias"), ours, theirs):
                    if right is not None:
                        worst = max(worst, close(f"{name}, {shape}, {has_sink}, {has_beta}, {arriving}: {what}", own, right))
    print(f"     worst gradient: {worst:.2g} of the largest")


main()
