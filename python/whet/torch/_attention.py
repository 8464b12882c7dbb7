"""Attention of tensors on the CPU: the library's forward and backward pass, and the autograd function around them.

Everything here takes q, k and v of four axes and masks, biases and betas that fit them; _shapes.py makes them so.
"""


from ctypes import byref, c_ssize_t, sizeof
from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch

from .. import _declarations as c
from .._library import library
from .._policy import call
from .._pool import executor
from ._policy import GRADIENT_DOUBLES, Chosen, parameter_gradients, structs
from ._tensors import KINDS, STATS_DOUBLES, empty, once_differentiable, statistic_gradients

_Maybe = Optional[torch.Tensor]
_Strides = c_ssize_t * 4
_Strides3 = c_ssize_t * 3
_SIZE = sizeof(c.Attention)
_GRADIENTS_SIZE = sizeof(c.Gradients)
# With less to multiply, waking other threads takes longer than it saves.
SMALL_WORK = 1 << 21


class Options(NamedTuple):
    """What a call asks for besides tensors, in the units of the library."""

    scale: float
    softcap: float = 0.0
    is_causal: bool = False
    offset: int = 0
    window: int = 0
    skip: float = 0.0


class Inputs(NamedTuple):
    """q [batch][heads][queries][dim], k and v [batch][kv heads][keys][...], mask [batch or 1][heads or 1][queries or 1][keys],
    sinks [heads], bias [batch or 1][heads or 1][keys], beta [batch][heads][queries]."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: _Maybe = None
    sinks: _Maybe = None
    bias: _Maybe = None
    beta: _Maybe = None


def usable(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or a copy where it repeats heads, positions or elements, which the library reads differently, or where
    torch negates it when it is read."""
    if tensor.is_neg():
        return tensor.resolve_neg()
    strides: Tuple[int, ...] = tensor.stride()
    if 0 in strides and any(stride == 0 and size > 1 for size, stride in zip(tensor.shape[1:], strides[1:])):
        return tensor.contiguous()
    return tensor


def _strides(tensor: torch.Tensor) -> Any:
    size = tensor.element_size()
    s: Tuple[int, ...] = tensor.stride()
    return _Strides(s[0] * size, s[1] * size, s[2] * size, s[3] * size)


def _operand(tensor: torch.Tensor) -> c.Tensor:
    return c.Tensor(tensor.data_ptr(), _strides(tensor), None, None, KINDS[tensor.dtype])


def _result(tensor: torch.Tensor) -> c.TensorOut:
    return c.TensorOut(tensor.data_ptr(), _strides(tensor), KINDS[tensor.dtype])


def _repeated(tensor: torch.Tensor) -> Any:
    """Strides in bytes, 0 where the tensor is repeated."""
    size = tensor.element_size()
    return [0 if count == 1 else stride * size for count, stride in zip(tensor.shape, tensor.stride())]


def describe(inputs: Inputs, policies: int, count: int, options: Options, out: _Maybe, stats: _Maybe) -> c.Attention:
    q, k, v, mask, sinks, bias, beta = inputs
    batch, heads, queries, dim = q.shape
    request = c.Attention(_SIZE, batch, heads, k.shape[1], queries, k.shape[2], dim, v.shape[3], _operand(q), _operand(k), _operand(v))
    if out is not None:
        request.out = _result(out)
    request.scale, request.softcap, request.offset = options.scale, options.softcap, options.offset
    request.flags, request.window, request.skip = c.CAUSAL if options.is_causal else 0, options.window, options.skip
    request.policies, request.policy_count = policies, count
    if mask is not None:
        request.mask = c.Mask(mask.data_ptr(), _Strides(*_repeated(mask)), KINDS[mask.dtype])
    if sinks is not None:
        request.sinks = sinks.data_ptr()
    if bias is not None:
        request.bias = c.KeyBias(bias.data_ptr(), _Strides3(*_repeated(bias)))
    if beta is not None:
        request.betas = beta.data_ptr()
    if stats is not None:
        request.stats = stats.data_ptr()
    return request


def _executor(inputs: Inputs) -> Any:
    q, k = inputs.q, inputs.k
    if q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] * q.shape[3] < SMALL_WORK:
        return None
    return executor(torch.get_num_threads())


def forward(inputs: Inputs, chosen: Chosen, options: Options, wants_stats: bool) -> Tuple[torch.Tensor, _Maybe]:
    """The output, [batch][heads][queries][value dim], and the statistics, [batch][heads][queries][STATS_DOUBLES]."""
    q, v = inputs.q, inputs.v
    shape = q.shape[:3]
    out = empty((*shape, v.shape[3]), q.dtype)
    stats = empty((*shape, STATS_DOUBLES), torch.float64) if wants_stats else None
    if 0 in shape:
        return out, stats
    if v.shape[3] == 0:
        raise ValueError(f"value has shape {tuple(v.shape)}: its vectors are empty")
    address, count, keep = structs(chosen)
    request = describe(inputs, address, count, options, out, stats)
    call(chosen.policies, library.whet_attention_forward, byref(request), _executor(inputs), None)
    del keep
    return out, stats


def backward(inputs: Inputs, chosen: Chosen, options: Options, stats: torch.Tensor, grad_out: _Maybe, grad_stats: _Maybe,
             wanted: Dict[str, bool]) -> Dict[str, _Maybe]:
    """Gradients of the wanted ones among q, k, v, sinks, bias, beta and values."""
    of_stats = dict(statistic_gradients(grad_stats))
    results: Dict[str, _Maybe] = {}
    for name in ("q", "k", "v", "sinks", "bias", "beta"):
        tensor = getattr(inputs, name)
        if wanted.get(name):
            results[name] = empty(tensor.shape, tensor.dtype)
    values = torch.zeros(chosen.values.shape[0] if chosen.values is not None else 1, GRADIENT_DOUBLES, dtype=torch.float64)
    if stats.numel() and (grad_out is not None or of_stats):
        address, count, keep = structs(chosen)
        request = c.Gradients(size=_GRADIENTS_SIZE, attention=describe(inputs, address, count, options, None, stats))
        if grad_out is not None:
            grad_out = usable(grad_out)
            request.out = _operand(grad_out)
        for name in ("q", "k", "v"):
            if name in results:
                setattr(request, name, _result(results[name]))  # type: ignore[arg-type]
        if "sinks" in results:
            request.sinks = results["sinks"].data_ptr()  # type: ignore[union-attr]
        if "bias" in results:
            bias = results["bias"]
            assert bias is not None
            request.bias = c.KeyBiasOut(bias.data_ptr(), _Strides3(*_repeated(bias)))
        if "beta" in results:
            request.betas = results["beta"].data_ptr()  # type: ignore[union-attr]
        if wanted.get("values"):
            request.policies = values.data_ptr()
        for member, gradient in of_stats.items():
            setattr(request, member, gradient.data_ptr())
        call(chosen.policies, library.whet_attention_backward, byref(request), _executor(inputs), None)
        del keep
    else:
        for result in results.values():
            result.zero_()  # type: ignore[union-attr]
    if wanted.get("values"):
        results["values"] = parameter_gradients(chosen, values)
    return results


class Attention(torch.autograd.Function):
    """(output, statistics)."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any, **_: Any) -> Any:
        """The inputs, the values of trained parameters, the policies and the options."""
        *tensors, values, chosen, options = arguments
        ctx.set_materialize_grads(False)
        out, stats = forward(Inputs(*tensors), chosen, options, True)
        ctx.save_for_backward(*tensors, values, stats)
        ctx.chosen, ctx.options = chosen._replace(values=None), options
        return out, stats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Any, grad_stats: Any) -> Any:
        *tensors, values, stats = ctx.saved_tensors
        names = ("q", "k", "v", "mask", "sinks", "bias", "beta", "values")
        wanted = dict(zip(names, ctx.needs_input_grad))
        found = backward(Inputs(*tensors), ctx.chosen._replace(values=values), ctx.options, stats, grad_out, grad_stats, wanted)
        return (*(found.get(name) for name in names), None, None)
