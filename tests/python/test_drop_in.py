# needs: pytest torch
"""whet in the place of other attention: torch's function, Hugging Face's interface, an operator for torch.compile.

Debian has torch 1.13 and no transformers. torch's scaled_dot_product_attention, torch.library.custom_op and the two registries of
transformers are played by stand-ins with the signatures that their documentation gives.
"""

import inspect
import json
import sys
import types

import pytest
import torch
import torch.nn.functional as F
import whet
import whet.torch


def normal(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


Q, K, V = normal(2, 4, 6, 8, seed=1), normal(2, 2, 6, 8, seed=2), normal(2, 2, 6, 8, seed=3)


def plain(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """The documented composition."""
    groups = query.shape[-3] // key.shape[-3]
    key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    e = query @ key.transpose(-1, -2) * (scale or query.shape[-1] ** -0.5)
    if is_causal:
        e = e.masked_fill(torch.ones(e.shape[-2:], dtype=torch.bool).triu(1), -float("inf"))
    return torch.softmax(e if attn_mask is None else e + attn_mask, -1) @ value


@pytest.fixture
def torch2(monkeypatch):
    monkeypatch.setattr(F, "scaled_dot_product_attention", plain, raising=False)


class Layer(torch.nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, None, 0.0, True, enable_gqa=True)


def test_every_call_is_replaced_and_put_back(torch2):
    layer, expected = Layer(), whet.attention(Q, K, V, is_causal=True, enable_gqa=True, policy="fixed:2")
    before = layer(Q, K, V)
    assert torch.allclose(before, whet.attention(Q, K, V, is_causal=True, enable_gqa=True, policy="softmax"), atol=1e-5)
    with whet.torch.replace_attention(policy="fixed:2"):
        assert torch.equal(layer(Q, K, V), expected)
        with whet.torch.replace_attention(policy="fixed:3"):
            assert not torch.allclose(layer(Q, K, V), expected)
        assert torch.equal(layer(Q, K, V), expected)
    assert F.scaled_dot_product_attention is plain and torch.equal(layer(Q, K, V), before)
    with pytest.raises(LookupError), whet.torch.replace_attention():
        raise LookupError
    assert F.scaled_dot_product_attention is plain


def test_the_calls_of_one_module_are_replaced(torch2):
    one, other = Layer(), Layer()
    both = torch.nn.ModuleList([one, other])
    before = other(Q, K, V)
    with whet.torch.replace_attention(both[0], policy="fixed:2", window=3):
        assert torch.equal(one(Q, K, V), whet.attention(Q, K, V, is_causal=True, enable_gqa=True, policy="fixed:2", window=3))
        assert torch.equal(other(Q, K, V), before)
    assert torch.equal(one(Q, K, V), before) and "forward" not in vars(one)


def test_a_name_that_was_imported_is_replaced(torch2):
    model = types.ModuleType("model")
    model.scaled_dot_product_attention = plain
    with whet.torch.replace_attention(model, policy=["fixed:2", "softmax", "adaptive", "topk:2"]):
        out = model.scaled_dot_product_attention(Q, K, V, enable_gqa=True)
        assert F.scaled_dot_product_attention is plain
    assert torch.equal(out, whet.attention(Q, K, V, enable_gqa=True, policy=["fixed:2", "softmax", "adaptive", "topk:2"]))
    assert model.scaled_dot_product_attention is plain


def test_what_cannot_be_replaced_is_refused_on_entering(torch2):
    for arguments, kind, message in (
            (dict(where="layers"), TypeError, "where is a str"), (dict(policy="adaptve"), whet.PolicyError, "did you mean"),
            (dict(windw=3), TypeError, "unknown option 'windw'; there are window"),
            (dict(return_aux="entropy"), TypeError, "unknown option"), (dict(is_causal=True), TypeError, "unknown option"),
            (dict(where=types.ModuleType("empty")), AttributeError, "empty has no scaled_dot_product_attention")):
        with pytest.raises(kind, match=message), whet.torch.replace_attention(**arguments):
            pass
    assert torch.nn.functional.scaled_dot_product_attention is plain


def test_before_torch_2_the_function_exists_inside_the_block(monkeypatch):
    monkeypatch.delattr(F, "scaled_dot_product_attention", raising=False)
    with whet.torch.replace_attention(policy="softmax"):
        assert torch.allclose(Layer()(Q, K, V), plain(Q, K, V, is_causal=True), atol=1e-5)
    assert not hasattr(F, "scaled_dot_product_attention")


# ---- transformers ----


class Registry:
    """AttentionInterface and AttentionMaskInterface: a mapping with a class method."""

    functions: dict

    @classmethod
    def register(cls, key, value):
        cls.functions[key] = value


@pytest.fixture
def registries(monkeypatch):
    module, masks = types.ModuleType("transformers"), types.ModuleType("transformers.masking_utils")
    module.AttentionInterface = type("AttentionInterface", (Registry,), {"functions": {}})
    module.AttentionMaskInterface = type("AttentionMaskInterface", (Registry,), {"functions": {}})
    masks.sdpa_mask = lambda *a, **k: None
    monkeypatch.setitem(sys.modules, "transformers", module)
    monkeypatch.setitem(sys.modules, "transformers.masking_utils", masks)
    return module


class SelfAttention(torch.nn.Module):
    """What a model of transformers calls the function with."""

    def __init__(self, layer, functions, is_causal=True):
        super().__init__()
        self.layer_idx, self.is_causal, self.functions = layer, is_causal, functions

    def forward(self, q, k, v, mask=None, **options):
        return self.functions["whet"](self, q, k, v, mask, scaling=0.3, dropout=0.0, **options)


def test_registering_with_transformers(registries):
    whet.transformers.register(policy="fixed:2", layers="1-2,5", heads="0,3")
    assert "whet" in registries.AttentionMaskInterface.functions
    by_head = ["fixed:2", "softmax", "softmax", "fixed:2"]
    for layer, policy in ((0, "softmax"), (1, by_head), (2, by_head), (3, "softmax"), (5, by_head)):
        out, weights = SelfAttention(layer, registries.AttentionInterface.functions)(Q, K, V)
        expected = whet.attention(Q, K, V, is_causal=True, scale=0.3, enable_gqa=True, policy=policy)
        assert weights is None and out.shape == (2, 6, 4, 8)
        assert torch.equal(out, expected.transpose(1, 2)), layer


def test_masks_caches_windows_and_sinks_of_transformers(registries):
    whet.transformers.register("adaptive")
    layer = SelfAttention(0, registries.AttentionInterface.functions)
    mask = torch.rand(2, 1, 6, 9, generator=torch.Generator().manual_seed(5)) < 0.8
    mask[..., 0] = True
    common = dict(scale=0.3, enable_gqa=True)
    assert torch.equal(layer(Q, K, V, mask)[0], whet.attention(Q, K, V, mask[..., :6], **common).transpose(1, 2))
    one = Q[:, :, -1:]
    assert torch.equal(layer(one, K, V)[0], whet.attention(one, K, V, **common).transpose(1, 2))
    windowed = whet.attention(Q, K, V, is_causal=True, window=3, softcap=2.0, sinks=normal(4), **common)
    assert torch.equal(layer(Q, K, V, sliding_window=3, softcap=2.0, s_aux=normal(4))[0], windowed.transpose(1, 2))
    whole = SelfAttention(0, registries.AttentionInterface.functions, is_causal=False)
    assert torch.equal(whole(Q, K, V)[0], whet.attention(Q, K, V, **common).transpose(1, 2))


def test_a_settings_file_of_the_plug_in(registries, tmp_path):
    path = tmp_path / "whet.json"
    path.write_text(json.dumps({"policy": "length:4", "about": {"any": [1]}, "rules": [
        {"layers": "1", "policy": "adaptive", "strength": 0.5}, {"heads": "2-3", "policy": "topk:2", "about": "why"}]}))
    function = whet.transformers.register(config=path)
    for layer, others in ((0, "length:4"), (1, "adaptive:strength=0.5")):
        module = SelfAttention(layer, {"whet": function})
        expected = whet.attention(Q, K, V, is_causal=True, scale=0.3, enable_gqa=True, policy=[others, others, "topk:2", "topk:2"])
        assert torch.equal(module(Q, K, V)[0], expected.transpose(1, 2))
    for text, message in (('{"rule": []}', "unknown key"), ('{"rules": [{"layers": "3-1", "policy": "softmax"}]}', 'such as "0-3,7"'),
                          ('{"rules": [{"layers": "1"}]}', "rule without a policy"), ('{"strength": 2}', "strength without a policy"),
                          ('{"policy": "adaptve"}', "did you mean"), ("[", "whet.json"), ('{"policy": 3}', '"policy": 3 is not a name'),
                          ('{"rules": 3}', '"rules": 3 is not a list'), ('{"rules": ["a"]}', "not a JSON object"), ("[]", "not a JSON object"),
                          ('{"policy": "adaptive", "strength": "a"}', "number from 0 to 1"), ('{"policy": "exp:1", "policy": "exp:2"}', "duplicate"),
                          ('{"policy": "adaptive", "strength": 2}', "number from 0 to 1"),
                          ('{"policy": "adaptive:strength=0.5", "strength": 0.5}', "already has one")):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            whet.transformers.register(config=path)


def test_what_cannot_be_registered_is_refused_at_once(registries):
    for arguments, kind, message in (
            (dict(policy="adaptve"), whet.PolicyError, "did you mean"),
            (dict(policy=whet.torch.Policy("adaptive"), layers="1"), TypeError, "layers and heads go with the name of a policy"),
            (dict(policy=["adaptive"] * 4, heads="1"), TypeError, "not with a list"),
            (dict(config={"policy": "adaptive"}, layers="1"), ValueError, "pass one or the other"),
            (dict(config={"policy": "adaptive"}, policy="softmax"), ValueError, "pass one or the other")):
        with pytest.raises(kind, match=message):
            whet.transformers.register(**arguments)


def test_a_trained_policy_and_a_function_of_layers(registries):
    policy = whet.torch.Policy("adaptive", heads=4)
    function = whet.transformers.register(policy)
    out, _ = SelfAttention(0, {"whet": function})(Q, K, V)
    out.square().sum().backward()
    assert policy.weight.grad.abs().sum() > 0
    function = whet.transformers.register(lambda layer, heads: ["softmax", "adaptive"][layer])
    assert not torch.equal(*(SelfAttention(layer, {"whet": function})(Q, K, V)[0] for layer in (0, 1)))


# ---- torch.compile ----


class CustomOp:
    """torch.library.custom_op: annotations make the schema, and the gradient is an autograd function around the operator."""

    allowed = {torch.Tensor, "Optional", bool, int, float, str}

    def __init__(self, function):
        self.function, self.fake, self.gradient = function, None, None
        for name, parameter in inspect.signature(function).parameters.items():
            kind = parameter.annotation
            assert kind in self.allowed or kind == torch.Tensor or str(kind) == "typing.Optional[torch.Tensor]", f"{name}: {kind}"

    def register_fake(self, function):
        self.fake = function
        return function

    def register_autograd(self, backward, setup_context):
        self.gradient = backward, setup_context

    def __call__(self, *arguments):
        assert len(arguments) == len(inspect.signature(self.function).parameters)
        if self.gradient is None:
            return self.function(*arguments)
        backward, setup = self.gradient

        class Around(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                output = self.function(*inputs)
                setup(ctx, inputs, output)
                return output

            @staticmethod
            def backward(ctx, *gradients):
                return backward(ctx, *gradients)

        return Around.apply(*arguments)


def test_the_operator_for_torch_compile(monkeypatch):
    from whet.torch import _operator

    defined = {}

    def custom_op(name, mutates_args):
        assert name.startswith("whet::") and mutates_args == ()
        return lambda function: defined.setdefault(name, CustomOp(function))

    monkeypatch.setattr(_operator, "operators", _operator.define(custom_op))
    assert set(defined) == {"whet::attention", "whet::attention_backward"}
    compiler = types.SimpleNamespace(is_compiling=lambda: True)
    trained = whet.torch.Policy("adaptive", heads=4)
    for policy in ("adaptive", ["adaptive", "softmax", "topk:3", "exp:1"], trained):
        tensors = [t.clone().requires_grad_() for t in (Q, K, V, normal(4, seed=8), normal(4, 6, seed=9))]
        if policy is trained:
            tensors.append(trained.weight)
        results = []
        for compiling in (False, True):
            if compiling:
                monkeypatch.setattr(torch, "compiler", compiler, raising=False)
            else:
                monkeypatch.delattr(torch, "compiler", raising=False)
            out, aux = whet.attention(*tensors[:3], is_causal=True, enable_gqa=True, sinks=tensors[3], bias=tensors[4], policy=policy,
                                      return_aux=("entropy", "lse"))
            loss = out.square().sum() + aux.entropy.sum()
            results.append((out.detach(), aux.entropy.detach(), *torch.autograd.grad(loss, tensors)))
        assert all(torch.equal(a, b) for a, b in zip(*results))
    for policy in (lambda row: 1.0, whet.Policy(lambda row: 1.0) + "entmax15"):
        with pytest.raises(ValueError, match="cannot be compiled"):
            whet.attention(Q, K, V, enable_gqa=True, policy=policy)
    fake = defined["whet::attention"].fake(Q, K, V[..., :3], None, None, None, None, None, "adaptive", "", 1.0, 0.0, False, 0, 0)
    assert fake[0].shape == (2, 4, 6, 3) and fake[1].shape == (2, 4, 6, 16) and fake[1].dtype == torch.float64
    # As models have them: [batch][positions][heads][dim] in memory.
    q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (Q, K, V))
    tensors, numbers = (q, k, v, None, normal(4), normal(1, 6, 4).transpose(1, 2), None, None), ("adaptive", "", 1.0, 0.0, False, 0, 0, 0.0)
    results, gradients = defined["whet::attention"], defined["whet::attention_backward"]
    out, stats = results.function(*tensors, *numbers)
    of_backward = (*tensors, stats, out, None, *numbers)
    for ours, promised in ((results.function(*tensors, *numbers), results.fake(*tensors, *numbers)),
                           (gradients.function(*of_backward), gradients.fake(*of_backward))):
        assert [(t.shape, t.stride(), t.dtype) for t in ours] == [(t.shape, t.stride(), t.dtype) for t in promised]
