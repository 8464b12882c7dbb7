"""whet for PyTorch: softmax, attention and policies with gradients.

`whet.softmax`, `whet.entropy` and `whet.attention` come here with tensors. On the CPU the library computes, with as many
threads as torch uses. On other devices the same numbers are composed of torch's operations:

    path       when                                                    gradients                     memory
    library    CPU                                                     all                           linear
    two calls  elsewhere, a temperature, with a fused attention that   if that attention's           as that attention's
               returns the log-sum-exp (`use_fused`)                   log-sum-exp has one
    composed   elsewhere, a temperature                                all                           quadratic
    cpu        elsewhere, maps, target, functions of your own          all                           linear, and copies

Only the CPU is at hand where this is developed: the other paths are tested on the CPU by forcing them (`force_path`).
"""

from typing import Any, Optional, Sequence, Union

import torch

from .._rows import Aux, integer, requested
from . import _composed, _operator
from ._attention import Attention, Inputs, Options, forward
from ._composed import force_path, use_fused
from ._policy import AnyPolicy, Chosen, Policy, choose
from ._replace import replace_attention
from ._rows import entropy, softmax
from ._shapes import fit
from ._temperature import is_composable
from ._tensors import kind_of, needs_gradient, statistics

__all__ = ["Policy", "attention", "entropy", "force_path", "replace_attention", "softmax", "use_fused"]


# What the library takes as an offset.
_FARTHEST = (1 << 31) - 1


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Optional[torch.Tensor] = None,
              is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False, *, policy: AnyPolicy = "adaptive",
              window: Optional[int] = None, softcap: Optional[float] = None, sinks: Any = None, bias: Any = None, beta: Any = None,
              skip: float = 0, offset: int = 0, dropout_p: float = 0.0, return_aux: Union[str, Sequence[str]] = ()) -> Any:
    """See `whet.attention`."""
    names = requested(return_aux)
    if isinstance(is_causal, float) or isinstance(scale, bool):
        # torch's function has dropout_p before them.
        raise TypeError(f"is_causal is {is_causal} and scale is {scale}: pass dropout_p, is_causal and scale by name")
    if attn_mask is not None and is_causal:
        raise ValueError("attn_mask and is_causal cannot be combined: mask the future in attn_mask")
    if not 0 <= skip < 1:
        raise ValueError(f"skip is {skip}, not 0 to below 1")
    if window is not None and integer("window", window) < 0:
        raise ValueError(f"window is {window}; it is a number of keys, or None for all of them")
    if not -_FARTHEST <= integer("offset", offset) <= _FARTHEST:
        raise ValueError(f"offset is {offset}, beyond {_FARTHEST} in size")
    if torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled():
        query, key, value = _of_one_type(query, key, value)
    inputs, shape = fit(query, key, value, attn_mask, sinks, bias, beta, enable_gqa)
    chosen = choose(policy, inputs.q.shape[1])
    options = Options(_scale(scale, query.shape[-1]), softcap or 0.0, is_causal, offset, min(window or 0, _FARTHEST), skip)
    wants_gradient = needs_gradient(*inputs, chosen.values)
    path = _composed.choose_path(inputs, chosen, options, names, wants_gradient)
    if path != "composed" and (dropout_p or needs_gradient(inputs.mask)):
        # The library has neither a gradient of masks nor dropout.
        what = f"dropout_p is {dropout_p}" if dropout_p else "attn_mask needs a gradient"
        if not is_composable(chosen):
            raise ValueError(f"{what}, which works with temperatures such as adaptive only, not with {chosen.policies[0]}")
        path = "composed"
    if path in ("two calls", "composed"):
        out, found = _composed.attention(path, inputs, chosen, options, names, dropout_p)
        aux = Aux((name, found[name] if name in found else torch.zeros_like(found["entropy"])) for name in names)
    else:
        out, aux = _by_library(inputs, chosen, options, names, wants_gradient)
    if query.dim() != 4 or out.shape[0] != shape[0]:
        out = out.reshape(*shape, out.shape[-1])
    return (out, Aux((name, tensor.reshape(shape)) for name, tensor in aux.items())) if names else out


def _of_one_type(*tensors: Any) -> Any:
    """Under autocast, tensors of several types in autocast's, as torch's function has them: rotary embeddings leave q and k in
    float32 and v in bfloat16."""
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors) or len({tensor.dtype for tensor in tensors}) == 1:
        return tensors
    if tensors[0].device.type == "cpu":
        return [tensor.to(torch.get_autocast_cpu_dtype()) if torch.is_autocast_cpu_enabled() else tensor for tensor in tensors]
    return [tensor.to(torch.get_autocast_gpu_dtype()) if torch.is_autocast_enabled() else tensor for tensor in tensors]


def _scale(scale: Optional[float], dim: int) -> float:
    if scale == 0:
        raise ValueError("scale is 0: every key would get the same weight")
    return float(max(dim, 1)) ** -0.5 if scale is None else float(scale)


def _by_library(inputs: Inputs, chosen: Chosen, options: Options, names: Sequence[str], wants_gradient: bool) -> Any:
    """On the CPU; tensors of another device go there and back."""
    stats: Any
    device = inputs.q.device
    if device.type != "cpu":
        inputs = Inputs(*(None if tensor is None else tensor.cpu() for tensor in inputs))  # type: ignore[arg-type]
    kind_of("query", inputs.q)
    if _operator.is_compiling():
        out, stats = _operator.call(inputs, chosen, options)
    elif wants_gradient:
        out, stats = Attention.apply(*inputs, chosen.values, chosen, options)
    else:
        out, stats = forward(inputs, chosen, options, bool(names))
    aux = statistics(stats, tuple(names)) if names else Aux()
    if device.type != "cpu":
        out, aux = out.to(device), Aux((name, tensor.to(device)) for name, tensor in aux.items())
    return out, aux
