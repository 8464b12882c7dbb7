# needs: pytest torch
"""whet of tensors: values and gradients against torch composed in float64, over awkward shapes, layouts and arguments."""

import itertools
import math
import pickle

import pytest
import torch
import whet
import whet.torch

NAMES = ("entropy", "entropy_after", "beta", "lse", "max", "argmax", "max_prob", "sink_share")


def generator(seed):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=1, scale=1.0, dtype=torch.float32):
    return (scale * torch.randn(shape, generator=generator(seed))).to(dtype)


def paper_beta(h):
    poly = (((-0.037 * h + 0.481) * h - 2.3) * h + 4.917) * h - 1.791
    return torch.where(h > 0.5, poly.clamp(min=1), torch.ones_like(h))


def entropy_of(e):
    p = torch.softmax(e, -1)
    return -(p * torch.log(p.clamp(min=1e-300))).sum(-1)


def sharpened(e, sink=None, beta=None, rule=paper_beta):
    """softmax(beta e), its entropy before and after, and lse, as anybody would write it."""
    whole = e if sink is None else torch.cat([e, sink[..., None].expand(*e.shape[:-1], 1)], -1)
    h = entropy_of(whole)
    b = rule(h) if beta is None else beta
    sharp = torch.where(torch.isinf(whole), whole, b[..., None] * torch.where(torch.isinf(whole), torch.zeros_like(whole), whole))
    return torch.softmax(sharp, -1)[..., :e.shape[-1]], h, entropy_of(sharp), torch.logsumexp(whole, -1)


def composed(q, k, v, causal=False, mask=None, sinks=None, bias=None, beta=None, scale=None, softcap=None, window=None, offset=0,
             rule=paper_beta):
    groups = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(groups, -3), v.repeat_interleave(groups, -3)
    e = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if softcap:
        e = softcap * torch.tanh(e / softcap)
    if bias is not None:
        e = e + bias[..., None, :]
    if mask is not None:
        e = e.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else e + mask
    i, j = torch.arange(e.shape[-2])[:, None] + offset, torch.arange(e.shape[-1])
    if causal:
        e = e.masked_fill(j > i, -math.inf)
    if window:
        e = e.masked_fill((i - j).abs() >= window, -math.inf)
    weights, *statistics = sharpened(e, None if sinks is None else sinks[:, None].expand(e.shape[:-1]), beta, rule)
    return weights @ v, statistics


def doubled(tensors):
    return [None if t is None else t.detach().double().requires_grad_(t.requires_grad) for t in tensors]


def close(ours, theirs, tolerance, what=""):
    assert ours.shape == theirs.shape, f"{what}: {ours.shape}, expected {theirs.shape}"
    error = ((ours.double() - theirs).abs() / theirs.abs().max().clamp(min=1)).max() if theirs.numel() else torch.zeros(())
    assert error <= tolerance, f"{what}: {error:.2g}"


CASES = {
    "one query": dict(shape=(1, 1, 1, 1, 5, 4, 4)),
    "one of everything": dict(shape=(1, 1, 1, 1, 1, 1, 1)),
    "odd sizes": dict(shape=(2, 3, 3, 7, 13, 5, 3)),
    "grouped": dict(shape=(2, 6, 2, 9, 11, 8, 8)),
    "one key head": dict(shape=(1, 4, 1, 5, 6, 3, 2)),
    "many queries": dict(shape=(1, 2, 2, 70, 50, 16, 16)),
    "causal": dict(shape=(2, 2, 2, 33, 33, 7, 7), causal=True),
    "decoding": dict(shape=(1, 4, 2, 1, 37, 8, 8), causal=True, offset=36),
    "window": dict(shape=(1, 2, 1, 20, 20, 4, 4), causal=True, window=5),
    "soft cap": dict(shape=(1, 2, 2, 6, 9, 4, 4), softcap=3.0, scale=0.9),
}


@pytest.mark.parametrize("case", CASES)
def test_attention_equals_composed_torch_forward_and_backward(case):
    options = dict(CASES[case])
    b, h, g, m, n, d, dv = options.pop("shape")
    q, k, v = (normal(*s, seed=i, scale=1.5).requires_grad_() for i, s in enumerate(((b, h, m, d), (b, g, n, d), (b, g, n, dv))))
    sinks, bias = normal(h, seed=4).requires_grad_(), normal(b, h, n, seed=5).requires_grad_()
    inputs = (q, k, v, sinks, bias)
    out, aux = whet.attention(q, k, v, is_causal=options.get("causal", False), enable_gqa=True, sinks=sinks, bias=bias,
                              scale=options.get("scale"), softcap=options.get("softcap"), window=options.get("window"),
                              offset=options.get("offset", 0), return_aux=NAMES)
    exact = doubled(inputs)
    expected, (entropy, after, lse) = composed(*exact[:3], sinks=exact[3], bias=exact[4], **options)
    close(out, expected, 5e-6, "output")
    for name, value in (("entropy", entropy), ("entropy_after", after), ("lse", lse), ("beta", paper_beta(entropy))):
        close(aux[name], value, 2e-5, name)
    weight = normal(*out.shape, seed=9)
    ours = (out * weight).sum() + aux.entropy.sum() - 0.5 * aux.entropy_after.sum() + (0.1 * aux.lse).sum()
    theirs = (expected * weight.double()).sum() + entropy.sum() - 0.5 * after.sum() + (0.1 * lse).sum()
    for name, a, e in zip(("q", "k", "v", "sinks", "bias"), torch.autograd.grad(ours, inputs), torch.autograd.grad(theirs, exact)):
        close(a, e, 5e-5, f"gradient of {name}")


def test_ranks_and_broadcasting_of_torch():
    for shapes in (((5, 4), (7, 4), (7, 3)), ((3, 5, 4), (3, 7, 4), (3, 7, 3)), ((2, 3, 5, 4), (1, 3, 7, 4), (2, 3, 7, 3)),
                   ((2, 2, 3, 5, 4), (2, 1, 3, 7, 4), (1, 2, 3, 7, 3)), ((2, 3, 5, 4), (2, 1, 7, 4), (2, 1, 7, 3)),
                   ((2, 1, 5, 4), (2, 3, 7, 4), (2, 3, 7, 3)), ((1, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 3))):
        q, k, v = (normal(*shape, seed=i).requires_grad_() for i, shape in enumerate(shapes))
        exact = doubled((q, k, v))
        weights, *_ = sharpened(exact[0] @ exact[1].transpose(-1, -2) / 2)
        expected = weights @ exact[2]
        out = whet.attention(q, k, v)
        close(out, expected, 5e-6, str(shapes))
        gradients = torch.autograd.grad(out.square().sum(), (q, k, v)), torch.autograd.grad(expected.square().sum(), exact)
        for ours, theirs in zip(*gradients):
            close(ours, theirs, 5e-5, str(shapes))


def test_masks_of_every_shape_and_type():
    q, k, v = normal(2, 3, 5, 4, seed=1), normal(2, 3, 7, 4, seed=2), normal(2, 3, 7, 6, seed=3)
    for shape in ((5, 7), (1, 7), (5, 1), (3, 5, 7), (1, 5, 7), (2, 3, 5, 7), (2, 1, 1, 7), (2, 1, 5, 7), (7,)):
        keep = torch.rand(shape, generator=generator(3)) < 0.7
        keep[..., 0] = True
        added = normal(*shape, seed=4)
        for mask in (keep, added, added.half(), added.bfloat16(), added.expand(2, 3, 5, 7)):
            exact = mask if mask.dtype == torch.bool else mask.double()
            expected, _ = composed(*doubled((q, k, v)), mask=exact)
            close(whet.attention(q, k, v, attn_mask=mask), expected, 5e-6, f"{shape} {mask.dtype}")
    nothing = whet.attention(q, k, v, attn_mask=torch.zeros(5, 7, dtype=torch.bool))
    assert (nothing == 0).all()


def test_a_mask_s_gradient_takes_the_composed_path():
    q, k, v = normal(1, 2, 5, 4, seed=1), normal(1, 2, 7, 4, seed=2), normal(1, 2, 7, 4, seed=3)
    mask = normal(5, 7, seed=4).requires_grad_()
    exact = doubled((mask,))[0]
    ours, = torch.autograd.grad(whet.attention(q, k, v, attn_mask=mask).square().sum(), mask)
    theirs, = torch.autograd.grad(composed(*doubled((q, k, v)), mask=exact)[0].square().sum(), exact)
    close(ours, theirs, 5e-5)


def test_layouts_that_are_not_contiguous():
    whole = normal(2, 9, 3, 3, 8, seed=1)
    q, k, v = whole[..., 0, :].transpose(1, 2), whole[..., 1, :].transpose(1, 2), whole[..., 2, ::2].transpose(1, 2)
    close(whet.attention(q, k, v), composed(*doubled((q, k, v)))[0], 5e-6)
    repeated = k[:1, :1, :1].expand(2, 3, 9, 8)
    close(whet.attention(q, repeated, v), composed(*doubled((q, repeated, v)))[0], 5e-6)
    q = q.clone().requires_grad_()
    # The gradient of a sum is one number repeated, which has strides of zero.
    ours, = torch.autograd.grad(whet.attention(q, k, v).sum(), q)
    theirs, = torch.autograd.grad((whet.attention(q, k, v) * torch.ones(2, 3, 9, 4)).sum(), q)
    assert torch.equal(ours, theirs)


def test_a_window_without_end_is_none():
    q, k = normal(1, 2, 5, 4), normal(1, 2, 7, 4)
    for path in ("library", "composed"):
        with whet.torch.force_path(path):
            assert torch.equal(whet.attention(q, k, k, window=(1 << 64) + 1), whet.attention(q, k, k))
    with pytest.raises(TypeError, match="window is 2.5, which cannot be taken as an integer"):
        whet.attention(q, k, k, window=2.5)


def test_autocast_makes_types_the_same():
    q, k, v = normal(1, 2, 5, 4).requires_grad_(), normal(1, 2, 7, 4), normal(1, 2, 7, 4).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = whet.attention(q, k, v)
        assert whet.attention(q, k, k).dtype == torch.float32
    assert torch.equal(out, whet.attention(q.bfloat16(), k.bfloat16(), v))
    assert torch.autograd.grad(out.float().sum(), q)[0].dtype == torch.float32
    with pytest.raises(TypeError, match="value has dtype"):
        whet.attention(q, k, v)


def test_half_types_have_half_gradients():
    for dtype, tolerance in ((torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
        q, k, v = (normal(1, 2, 6, 8, seed=i, dtype=dtype).requires_grad_() for i in range(3))
        exact = doubled((q, k, v))
        out, expected = whet.attention(q, k, v), composed(*exact)[0]
        assert out.dtype == dtype
        close(out, expected, tolerance, str(dtype))
        for ours, theirs in zip(torch.autograd.grad(out.sum(), (q, k, v)), torch.autograd.grad(expected.sum(), exact)):
            assert ours.dtype == dtype
            close(ours, theirs, 2 * tolerance, str(dtype))


def test_given_betas_and_their_gradient():
    q, k, v = normal(2, 3, 5, 4, seed=1), normal(2, 3, 7, 4, seed=2), normal(2, 3, 7, 4, seed=3)
    for shape in ((), (5,), (3, 1), (3, 5), (2, 1, 5), (2, 3, 5)):
        beta = normal(*shape, seed=4).abs().add(0.5).requires_grad_()
        exact = doubled((beta,))[0]
        out = whet.attention(q, k, v, policy="softmax", beta=beta)
        expected, _ = composed(*doubled((q, k, v)), beta=exact.expand(2, 3, 5))
        close(out, expected, 5e-6, str(shape))
        ours, = torch.autograd.grad(out.square().sum(), beta)
        theirs, = torch.autograd.grad(expected.square().sum(), exact)
        close(ours, theirs, 5e-5, str(shape))


def differences(function, x, step):
    """Central differences of a scalar function, entry by entry."""
    result = torch.zeros_like(x, dtype=torch.float64)
    for i in range(x.numel()):
        ends = []
        for sign in (1, -1):
            moved = x.detach().clone()
            moved.view(-1)[i] += sign * step
            ends.append(function(moved).double())
        result.view(-1)[i] = (ends[0] - ends[1]) / (2 * step)
    return result


@pytest.mark.parametrize("policy", ["adaptive", "target:0.7", "exp:0.5+entmax15", "ssmax:0.6:0.3", "softmax1", "sigmoid"])
def test_gradients_agree_with_central_differences(policy):
    """gradcheck needs float64; in float32, steps of 1e-2 leave errors of about 1e-3."""
    q, k, v = normal(1, 2, 3, 4, seed=1, scale=1.3), normal(1, 2, 5, 4, seed=2), normal(1, 2, 5, 3, seed=3)
    weight = normal(1, 2, 3, 3, seed=4)
    for position, x in enumerate((q, k, v)):
        def loss(moved):
            inputs = [q, k, v]
            inputs[position] = moved
            return (whet.attention(*inputs, policy=policy).double() * weight).sum()

        moved = x.clone().requires_grad_()
        gradient, = torch.autograd.grad(loss(moved), moved)
        close(gradient, differences(loss, x, 1e-2), 4e-3, f"{policy}, input {position}")


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_equals_composed_torch(axis):
    for x in (normal(3, 4, 5, scale=2), normal(5, 4, 3, scale=2).transpose(0, 2), normal(3, 4, 10, scale=2)[..., ::2]):
        x = x.requires_grad_()
        exact = doubled((x,))[0]
        rows = exact.movedim(axis, -1)
        lead = rows.shape[:-1]
        sink, mask = normal(*lead, seed=2).requires_grad_(), normal(x.shape[-1], seed=3)
        sink64 = doubled((sink,))[0]
        result, aux = whet.softmax(x, axis=axis, sink=sink, mask=mask, return_aux=NAMES)
        expected, entropy, after, lse = sharpened((exact + mask.double()).movedim(axis, -1), sink64)
        close(result, expected.movedim(-1, axis), 5e-6)
        close(aux.entropy, entropy, 1e-5)
        weight = normal(*x.shape, seed=5)
        ours = (result * weight).sum() + aux.entropy.sum() + aux.entropy_after.sum() - aux.lse.sum()
        theirs = (expected.movedim(-1, axis) * weight.double()).sum() + entropy.sum() + after.sum() - lse.sum()
        for a, e in zip(torch.autograd.grad(ours, (x, sink)), torch.autograd.grad(theirs, (exact, sink64))):
            close(a, e, 5e-5)
        close(whet.entropy(x.detach(), axis=axis), entropy_of(rows).detach(), 1e-5)
        only, = torch.autograd.grad(whet.entropy(x, axis=axis).sum(), x)
        close(only, torch.autograd.grad(entropy_of(rows).sum(), exact)[0], 5e-5)


def test_softmax_agrees_with_numpy_and_writes_to_out():
    pytest.importorskip("numpy")
    x = normal(6, 4, 9)
    expected = torch.from_numpy(whet.softmax(x.numpy()))
    assert torch.equal(whet.softmax(x), expected)
    for out in (torch.empty(6, 4, 9), torch.empty(9, 4, 6).transpose(0, 2), torch.empty(6, 4, 18)[..., ::2]):
        assert whet.softmax(x, out=out) is out and torch.equal(out, expected)
    assert torch.equal(whet.softmax(x.clone().requires_grad_()).detach(), expected)
    with pytest.raises(ValueError, match="out does not go with gradients"):
        whet.softmax(x.clone().requires_grad_(), out=torch.empty(6, 4, 9))


@pytest.mark.parametrize("heads", [None, 3])
def test_a_policy_s_parameters_are_trained(heads):
    policy = whet.torch.Policy("adaptive", heads=heads)
    assert policy.weight.shape == (heads or 1, 5) and policy.names == ("c4", "c3", "c2", "c1", "c0")
    assert policy.policy(heads - 1 if heads else 0).parameters["c1"] == pytest.approx(4.917, rel=1e-6)
    q, k, v = normal(2, 3, 6, 4, seed=1), normal(2, 3, 9, 4, seed=2), normal(2, 3, 9, 4, seed=3)
    coefficients = policy.values().detach().clone().requires_grad_()

    def rule(h):
        # One head's coefficients lie along axis 1 of [batch][head][query].
        c = [coefficients[:, i].view(-1, 1) for i in range(5)]
        poly = (((c[0] * h + c[1]) * h + c[2]) * h + c[3]) * h + c[4]
        return torch.where(h > 0.5, poly.clamp(min=1), torch.ones_like(h))

    expected, _ = composed(*doubled((q, k, v)), rule=rule)
    out = whet.attention(q, k, v, policy=policy)
    close(out, expected, 5e-6)
    values = policy.values()
    out = whet.torch.attention(q, k, v, policy=whet.torch.choose(policy, 3)._replace(values=values))
    ours, = torch.autograd.grad(out.square().sum(), values, retain_graph=True)
    theirs, = torch.autograd.grad(expected.square().sum(), coefficients)
    close(ours, theirs, 5e-5)
    optimizer = torch.optim.SGD(policy.parameters(), 0.05)
    first = None
    for _ in range(8):
        loss = whet.attention(q, k, v, policy=policy, return_aux="entropy_after")[1].entropy_after.mean()
        first = loss.item() if first is None else first
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < first
    again = pickle.loads(pickle.dumps(policy))
    assert torch.equal(again.weight, policy.weight) and again.policy() == policy.policy()


def test_policies_by_head_and_of_one_s_own():
    q, k, v = normal(1, 3, 6, 4, seed=1), normal(1, 3, 9, 4, seed=2), normal(1, 3, 9, 4, seed=3)
    names = ["adaptive", whet.Policy("topk:2"), lambda row: 1 + row.entropy]
    out = whet.attention(q, k, v, policy=names)
    for head, name in enumerate(names):
        alone = whet.attention(q[:, head:head + 1], k[:, head:head + 1], v[:, head:head + 1], policy=name)
        close(out[:, head:head + 1], alone.double(), 2e-6, str(name))
    with pytest.raises(ValueError, match="2 policies for 3 heads"):
        whet.attention(q, k, v, policy=["adaptive", "softmax"])
    with pytest.raises(ValueError, match="4 sets of parameters.*this call has 3 heads"):
        whet.attention(q, k, v, policy=whet.torch.Policy("ssmax:0.4", heads=4))
    with pytest.raises(ValueError, match="no trainable parameter 'threshold'"):
        whet.torch.Policy("adaptive", learn=["threshold"])
    with pytest.raises(ValueError, match="no parameters to train"):
        whet.torch.Policy("softmax1", learn=[])
    with pytest.raises(ValueError, match=r"length:16 has no parameters to train by default; learn=\['n0'\]"):
        whet.torch.Policy("length:16")
    with pytest.raises(ValueError, match="heads is 0"):
        whet.torch.Policy("adaptive", heads=0)
    with pytest.raises(TypeError, match="whet.torch.Policy is passed"):
        whet.attention(q, k, v, policy=[whet.torch.Policy("adaptive")] * 3)
    steep = whet.torch.Policy("poly:1e-5/0/0/0/0/0/0/1/1")
    assert torch.allclose(steep.half().values(), torch.tensor([[1e-5, 0, 0, 0, 0, 0, 0, 1, 1]], dtype=torch.float64), rtol=1e-3)

    def broken(row):
        raise LookupError("nothing")

    with pytest.raises(LookupError, match="nothing"):
        whet.attention(q, k, v, policy=broken)


@pytest.mark.parametrize("arguments, message", [
    (dict(skip=1), "skip is 1, not 0 to below 1"),
    (dict(scale=0.0), "scale is 0"),
    (dict(attn_mask=torch.ones(5, 7, dtype=torch.bool), is_causal=True), "cannot be combined"),
    (dict(attn_mask=torch.ones(5, 6)), r"attn_mask has shape \(5, 6\), which does not broadcast"),
    (dict(bias=torch.ones(4, 7)), "bias has shape"),
    (dict(return_aux="entropie"), "unknown statistic"),
    (dict(policy="adaptve"), "did you mean"),
    (dict(policy="adaptive", beta=2.0), "use softmax or a map"),
    (dict(window=-1), "window is -1"),
    (dict(offset=1 << 70), "offset is 1180591620717411303424, beyond 2147483647"),
    (dict(sinks=torch.ones(4)), r"sinks has shape \(4,\); it holds one logit for each query head, \(3,\)"),
    (dict(sinks=torch.ones(2, 3)), "sinks has shape"),
    (dict(policy="entmax15", dropout_p=0.1), "temperatures such as adaptive only, not with entmax15"),
    (dict(policy="entmax15", attn_mask=torch.ones(5, 7, requires_grad=True)), "attn_mask needs a gradient"),
])
def test_refusals_say_what_is_wrong(arguments, message):
    q, k, v = normal(2, 3, 5, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 4)
    with pytest.raises(ValueError, match=message):
        whet.attention(q, k, v, **arguments)


def test_shapes_and_types_that_do_not_fit():
    q, k, v = normal(2, 3, 5, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 4)
    with pytest.raises(TypeError, match=r"pass query\.float\(\)"):
        whet.attention(q.double(), k.double(), v.double())
    with pytest.raises(TypeError, match="attention takes tensors of torch"):
        whet.attention([[1.0]], k, v)
    with pytest.raises(TypeError, match="key has dtype"):
        whet.attention(q, k.half(), v)
    with pytest.raises(ValueError, match="enable_gqa=True"):
        whet.attention(normal(2, 4, 5, 4), normal(2, 2, 7, 4), normal(2, 2, 7, 4))
    with pytest.raises(ValueError, match="same positions"):
        whet.attention(q, k, v[:, :, :6])
    with pytest.raises(ValueError, match="do not broadcast"):
        whet.attention(q, normal(3, 3, 7, 4), v)
    with pytest.raises(TypeError, match=r"pass x\.float\(\)"):
        whet.softmax(q.double())
    with pytest.raises(ValueError, match="head_dim"):
        whet.attention(normal(1, 1, 2, 577), normal(1, 1, 2, 577), v[:1, :1, :2])
    with pytest.raises(ValueError, match="head_dim is 0"):
        whet.attention(q[..., :0], k[..., :0], v)
    with pytest.raises(ValueError, match="vectors are empty"):
        whet.attention(q, k, v[..., :0], return_aux=NAMES)
    with pytest.raises(TypeError, match="key is a ndarray"):
        whet.attention(q, k.numpy(), v)
    with pytest.raises(TypeError, match="attn_mask is a ndarray"):
        whet.attention(q, k, v, attn_mask=k.numpy())
    # As torch's function takes them by position, with dropout_p fifth.
    for arguments in ((None, 0.0, True), (None, 0, True), (None, 0.1)):
        with pytest.raises(TypeError, match="pass dropout_p, is_causal and scale by name"):
            whet.attention(q, k, v, *arguments)
    for axis in (None, 1.5):
        with pytest.raises(TypeError, match="axis is .* as an integer"):
            whet.softmax(q, axis=axis)
    for sparse in (lambda: whet.softmax(q.to_sparse()), lambda: whet.attention(q, k.to_sparse(), v)):
        with pytest.raises(ValueError, match=r"(x|key) is sparse: pass \1\.to_dense\(\)"):
            sparse()
    with pytest.raises(TypeError, match=r"pass attn_mask\.float\(\)"):
        whet.attention(q, k, v, attn_mask=torch.zeros(5, 7, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"pass mask\.bool\(\)"):
        whet.softmax(q, mask=torch.zeros(4, dtype=torch.int64))


def test_skip_leaves_out_values_within_its_promise():
    q, k, v = (normal(1, 2, n, 16, seed=seed).requires_grad_() for seed, n in enumerate((3, 700, 700)))
    exact = whet.attention(q, 3 * k, v, policy="softmax")
    out, aux = whet.attention(q, 3 * k, v, policy="softmax", skip=0.05, return_aux=["skipped_weight", "skipped_share"])
    assert 0 < aux.skipped_weight.max() <= 0.05
    assert 0 < aux.skipped_share.max() < 1
    assert 0 < (out - exact).abs().max() <= 2 * 0.05 * v.abs().max()
    out.sum().backward()
    assert (v.grad.abs().sum(-1) == 0).any()


def test_nothing_is_kept_without_gradients():
    q, k, v = (normal(1, 2, 5, 4, seed=i).requires_grad_() for i in range(3))
    with torch.no_grad():
        assert whet.attention(q, k, v).grad_fn is None
    out, aux = whet.attention(q, k, v, return_aux=NAMES)
    assert out.grad_fn is not None and aux.entropy.requires_grad and not aux.beta.requires_grad and not aux.argmax.requires_grad
    # Also where the gradient of the output is constant: a penalty on gradients must not be ignored.
    for x, loss in ((q, out.square().sum()), (q, out.sum()), (q, aux.entropy.sum()), (k, whet.softmax(k).sum())):
        first, = torch.autograd.grad(loss, x, create_graph=True)
        with pytest.raises(RuntimeError, match="no second derivatives"):
            (first.square().sum() + x.sum()).backward()


def test_empty_batches_heads_and_queries():
    assert whet.attention(normal(6, 0, 4), normal(3, 5, 4), normal(3, 5, 2), enable_gqa=True).shape == (6, 0, 2)
    assert whet.attention(normal(0, 2, 3, 4), normal(2, 0, 1, 5, 4), normal(2, 5, 4), bias=normal(2, 0, 1, 5)).shape == (2, 0, 2, 3, 4)
    for shape in ((0, 2, 3, 4), (1, 2, 0, 4), (1, 0, 3, 4)):
        q = normal(*shape).requires_grad_()
        k = normal(*shape[:2], 5, 4)
        assert whet.attention(q, k, k, sinks=torch.zeros(shape[1])).shape == shape
        out = whet.attention(q, k, k)
        assert out.shape == shape
        assert torch.autograd.grad(out.sum(), q)[0].shape == shape


@pytest.mark.parametrize("path", ["composed", "cpu", "two calls"])
def test_other_devices_paths_give_the_same_numbers(path):
    """Forced on the CPU. The fused attention of the two calls is played by one that is written out."""
    def fused(q, k, v, is_causal, scale):
        e = q @ k.transpose(-1, -2) * scale
        if is_causal:
            e = e.masked_fill(torch.ones(e.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        return torch.softmax(e, -1) @ v, torch.logsumexp(e, -1)

    whet.torch.use_fused(fused, "cpu", lse_has_gradient=True)
    trained = whet.torch.Policy("adaptive", heads=4)
    policies = ("softmax", "fixed:1.7", "adaptive", "adaptive:hold", "exp:0.7:strength=0.5", "ssmax:0.4:0.3:1.5", "length:4", "linear:6",
                "hinge:0.1:0.2:4", "llama4:0.3:2", ["adaptive", "exp:0.5", "length:3", "softmax"], trained,
                whet.torch.Policy("ssmax:0.4:0.3"))
    try:
        for policy, causal, with_sinks in itertools.product(policies, (False, True), (False, True)):
            q, k, v = (normal(2, h, n, 8, seed=n, scale=1.4).requires_grad_() for h, n in ((4, 9), (2, 10), (2, 10)))
            sinks = normal(4, seed=7).requires_grad_() if with_sinks else None
            inputs = [t for t in (q, k, v, sinks, *([policy.weight] if isinstance(policy, whet.torch.Policy) else [])) if t is not None]
            results = []
            for forced in ("library", path):
                with whet.torch.force_path(forced):
                    out, aux = whet.attention(q, k, v, is_causal=causal, enable_gqa=True, policy=policy, sinks=sinks,
                                              return_aux=("entropy", "beta", "lse"))
                loss = out.square().sum() + aux.entropy.sum() + aux.lse.sum()
                results.append((out, aux, torch.autograd.grad(loss, inputs, allow_unused=True)))
            (out, aux, gradients), (other, other_aux, other_gradients) = results
            close(other, out.double(), 2e-5, f"{policy} output")
            for name in aux:
                close(other_aux[name], aux[name].double(), 3e-5, f"{policy} {name}")
            for a, b in zip(gradients, other_gradients):
                close(torch.zeros_like(a) if b is None else b, a.double(), 2e-4, f"{policy} gradient")
    finally:
        whet.torch.use_fused(None, "cpu")


@pytest.mark.parametrize("path", ["composed", "cpu"])
def test_other_devices_paths_take_everything_else(path):
    q, k, v = normal(2, 4, 9, 8, seed=1), normal(2, 2, 11, 8, seed=2), normal(2, 2, 11, 6, seed=3)
    keep = torch.rand(2, 1, 9, 11, generator=generator(5)) < 0.7
    keep[0, 0, 3] = False
    options = dict(enable_gqa=True, attn_mask=keep, softcap=2.5, window=6, bias=normal(4, 11, seed=4), sinks=None, return_aux=NAMES)
    for more in (dict(), dict(policy="softmax", beta=normal(4, 9, seed=6).abs())):
        out, aux = whet.attention(q, k, v, **options, **more)
        x = normal(5, 6, 7, scale=2)
        row, row_aux = whet.softmax(x, axis=1, sink=0.3, mask=normal(7), return_aux=NAMES)
        with whet.torch.force_path(path):
            other, other_aux = whet.attention(q, k, v, **options, **more)
            other_row, other_row_aux = whet.softmax(x, axis=1, sink=0.3, mask=normal(7), return_aux=NAMES)
            assert torch.allclose(whet.entropy(x), whet.entropy(x.clone()), atol=1e-5)
        close(other, out.double(), 1e-5)
        close(other_row, row.double(), 1e-5)
        for ours, theirs in ((other_aux, aux), (other_row_aux, row_aux)):
            for name in NAMES:
                same = torch.isclose(ours[name].double(), theirs[name].double(), atol=3e-5) | (ours[name] == theirs[name])
                assert same.all(), f"{name}: {ours[name][~same][:4]} {theirs[name][~same][:4]}"


@pytest.mark.parametrize("policy, arguments", [
    ("softmax", {}), ("adaptive", {}), ("exp:1", dict(sink=0.5)), ("adaptive", dict(sink=-math.inf)), ("softmax", dict(sink=math.inf)),
    ("adaptive", dict(mask=torch.tensor([True, False, True]))), ("softmax", dict(mask=torch.zeros(3, dtype=torch.bool), sink=0.5)),
    ("adaptive", dict(mask=torch.tensor([math.nan, 0, 0]))), *(("softmax", dict(beta=beta)) for beta in (2.0, 0.0, -1.0, math.inf, math.nan))])
def test_rows_that_are_not_finite_are_the_same_on_all_paths(policy, arguments):
    inf, nan = math.inf, math.nan
    x = torch.tensor([[1, 2, 3], [1, inf, 2], [-inf, -inf, -inf], [nan, 1, 2], [-inf, 2, -inf], [3e38, -3e38, 1], [inf, inf, 1],
                      [-inf, inf, 0], [1e30, 1e30, 1e30], [88, -88, 1000], [nan, -inf, -inf]])
    expected, aux = whet.softmax(x, policy, return_aux=NAMES, **arguments)
    with whet.torch.force_path("composed"):
        other, other_aux = whet.softmax(x, policy, return_aux=NAMES, **arguments)
    for name, ours, theirs in (("result", other, expected), *((name, other_aux[name], aux[name]) for name in NAMES)):
        assert torch.allclose(ours.double(), theirs.double(), rtol=1e-5, atol=1e-5, equal_nan=True), f"{name}: {ours} {theirs}"


def test_composed_paths_keep_the_digits_that_large_logits_share():
    x, weight = (normal(4, 130, seed=2, scale=30) + 2000).requires_grad_(), normal(4, 130, seed=3)
    beta, exact = torch.full((4,), 1.3, requires_grad=True), doubled((x,))[0]
    wide = torch.full((4,), 1.3, dtype=torch.float64, requires_grad=True)
    with whet.torch.force_path("composed"):
        out, aux = whet.softmax(x, "softmax", beta=beta, return_aux=("entropy", "entropy_after"))
    expected, entropy, after, _ = sharpened(exact, beta=wide)
    close(aux.entropy, entropy, 2e-6)
    close(aux.entropy_after, after, 2e-6)
    ours = torch.autograd.grad((out * weight).sum() + aux.entropy_after.sum(), (x, beta))
    theirs = torch.autograd.grad((expected * weight.double()).sum() + after.sum(), (exact, wide))
    for a, e in zip(ours, theirs):
        close(a, e, 2e-6)


def test_which_path_runs_where():
    from whet.torch._attention import Inputs, Options
    from whet.torch._composed import choose_path

    class Elsewhere:
        device, shape = torch.device("cuda"), (1, 1, 5, 1)

    class Nothing(Elsewhere):
        shape = (1, 1, 0, 1)

    here, there = Inputs(normal(1, 1, 1, 1), *2 * (normal(1, 1, 1, 1),)), Inputs(Elsewhere, Elsewhere, Elsewhere)
    options, adaptive = Options(1.0), whet.torch.choose("adaptive")
    assert choose_path(here, adaptive, options, (), True) == "library"
    try:
        whet.torch.use_fused(None)
        assert choose_path(there, adaptive, options, (), False) == "composed"
        whet.torch.use_fused(lambda *a: None)
        assert choose_path(there, adaptive, options, ("entropy",), False) == "two calls"
        assert choose_path(there._replace(k=Nothing), adaptive, options, (), False) == "composed"
        assert choose_path(there, adaptive, options, ("max",), False) == "composed"
        assert choose_path(there, adaptive, options, (), True) == "composed"
        assert choose_path(there, adaptive, options._replace(window=3), (), False) == "composed"
        assert choose_path(there, whet.torch.choose("topk:3"), options, (), False) == "cpu"
        assert choose_path(there, whet.torch.choose("target:1"), options, (), False) == "cpu"
        whet.torch.use_fused(lambda *a: None, lse_has_gradient=True)
        assert choose_path(there, adaptive, options, (), True) == "two calls"
    finally:
        whet.torch.use_fused(None)
    with pytest.raises(ValueError, match="unknown path"), whet.torch.force_path("elsewhere"):
        pass


def test_the_fused_attention_of_torch_gets_vectors_of_a_multiple_of_eight(monkeypatch):
    """torch's operator for GPUs, played by one that is as particular as it is."""
    from whet.torch import _composed

    def operator(q, k, v, bias, wants_lse, dropout, is_causal, scale):
        assert not any(t.shape[-1] % 8 for t in (q, k, v)) and bias is None and wants_lse and not dropout and not is_causal
        e = q @ k.transpose(-1, -2) * scale
        return torch.softmax(e, -1) @ v, torch.nn.functional.pad(torch.logsumexp(e, -1), (0, -e.shape[-2] % 32)), 0, 0

    monkeypatch.setattr(torch.ops.aten, "_scaled_dot_product_efficient_attention", operator, raising=False)
    whet.torch.use_fused(_composed._efficient, "cpu")
    try:
        q, k, v = normal(2, 4, 5, 12), normal(2, 2, 7, 12), normal(2, 2, 7, 3)
        out, aux = whet.attention(q, k, v, enable_gqa=True, return_aux=_composed.TWO_CALL_STATISTICS)
        with whet.torch.force_path("two calls"):
            other, other_aux = whet.attention(q, k, v, enable_gqa=True, return_aux=_composed.TWO_CALL_STATISTICS)
        close(other, out.double(), 1e-5)
        for name in aux:
            close(other_aux[name], aux[name].double(), 3e-5, name)
    finally:
        whet.torch.use_fused(None, "cpu")


def test_paths_refuse_what_they_would_ignore():
    q, k = normal(1, 2, 3, 4), normal(1, 2, 5, 4)
    with whet.torch.force_path("two calls"), pytest.raises(ValueError, match="no fused attention is known for cpu"):
        whet.attention(q, k, k)
    whet.torch.use_fused(lambda *arguments: None, "cpu")
    try:
        for arguments in (dict(window=2), dict(attn_mask=torch.ones(3, 5)), dict(softcap=1.0), dict(bias=torch.ones(5)),
                          dict(return_aux="max"), dict(policy="softmax", beta=2.0)):
            with whet.torch.force_path("two calls"), pytest.raises(ValueError, match="take another path"):
                whet.attention(q, k, k, **arguments)
    finally:
        whet.torch.use_fused(None, "cpu")
    with whet.torch.force_path("composed"):
        for arguments, message in ((dict(beta=2.0), "use softmax or a map"), (dict(mask=torch.ones(7, 3, 4)), "mask has shape"),
                                   (dict(sink=torch.ones(7)), "sink has shape"), (dict(axis=3), "axis 3 is out of range")):
            with pytest.raises(ValueError, match=message):
                whet.softmax(q[0, 0], **arguments)
        assert whet.softmax(torch.zeros(3, 0)).shape == (3, 0)
        out, aux = whet.attention(q, k[:, :, :0], k[:, :, :0], return_aux=NAMES)
        assert not out.any() and (aux.argmax == -1).all()


@pytest.mark.parametrize("path", ["library", "composed"])
def test_keys_that_nobody_sees_may_hold_anything(path):
    q, k, v = (normal(1, 2, n, 4, seed=n).requires_grad_() for n in (3, 5, 6))
    mask = torch.tensor([True, True, False, True, False])
    bad = torch.zeros(5, 1).masked_fill(~mask[:, None], math.nan)
    with whet.torch.force_path(path):
        clean = whet.attention(q, k, v[:, :, :5], attn_mask=mask)
        out = whet.attention(q, k + bad, v[:, :, :5] + bad, attn_mask=mask)
        assert torch.allclose(out, clean, atol=1e-6)
        assert torch.isfinite(torch.autograd.grad(out.sum(), q)[0]).all()


def test_views_that_torch_negates_when_it_reads_them():
    q, k, v = (normal(1, 2, 5, 4, seed=i) for i in range(3))
    assert torch.equal(whet.attention(torch._neg_view(q), torch._neg_view(k), torch._neg_view(v)), whet.attention(-q, -k, -v))
    assert torch.equal(whet.softmax(torch._neg_view(q)), whet.softmax(-q))
    assert torch.equal(whet.softmax(q, mask=torch._neg_view(k), sink=torch._neg_view(k[..., 0])), whet.softmax(q, mask=-k, sink=-k[..., 0]))


def test_out_is_checked_and_counted():
    memory = normal(9, 8)
    expected = whet.softmax(memory[:8].clone())
    assert torch.equal(whet.softmax(memory[:8], out=memory[1:]), expected)
    x, weight = normal(3, 4), normal(3, 4).requires_grad_()
    product = (x * weight).sum()
    whet.softmax(x, out=x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    with pytest.raises(ValueError, match="no_grad"):
        whet.softmax(x, out=weight)
    for out in (x[:2], x.numpy(), torch.zeros(3, 4, device="meta")):
        with pytest.raises(ValueError, match="out must be a tensor"):
            whet.softmax(x, out=out)


def test_dropout_drops_weights():
    q, k = normal(1, 1, 4, 8), normal(1, 1, 50, 8)
    torch.manual_seed(1)
    out = whet.attention(q.requires_grad_(), k, torch.ones(1, 1, 50, 1), dropout_p=0.5)
    assert not torch.allclose(out, torch.ones_like(out), atol=1e-3)
    with torch.no_grad():
        # As torch's function, which leaves it to the caller whether this is training.
        out = whet.attention(q, k, torch.ones(1, 1, 50, 1), dropout_p=0.5)
    assert not torch.allclose(out, torch.ones_like(out), atol=1e-3)
