"""Attention and softmax composed of torch's operations, for tensors that are not on the CPU.

    path       when                                                              memory
    library    on the CPU                                                        linear in the keys
    two calls  elsewhere, for a temperature, where a fused attention that        as that attention's
               returns the log-sum-exp is known (`use_fused`), without mask,
               bias, soft cap, window, offset and given beta, and for no
               statistics but entropy, beta and lse; with gradients only if
               its log-sum-exp has one
    composed   elsewhere, for a temperature, otherwise                           quadratic
    cpu        elsewhere, for maps, target and functions of your own: tensors    linear, and a copy
               go through the CPU

Two calls: attention(q, k, k) is the mean of the keys under the weights, so that the entropy is
H = lse - scale q . attention(q, k, k); then attention(beta q, k, v) is the result.
"""

import contextlib
import math
import threading
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple

import torch

from .. import _declarations as c
from .._rows import Aux
from ._attention import Inputs, Options
from ._policy import Chosen
from ._temperature import betas, is_composable
from ._tensors import additive

TWO_CALL_STATISTICS = ("entropy", "beta", "lse")
PATHS = ("library", "two calls", "composed", "cpu")
_forced = threading.local()


@contextlib.contextmanager
def force_path(path: str) -> Iterator[None]:
    """Makes calls of this thread take a path, "library", "two calls", "composed" or "cpu", whatever the device: for tests and
    comparisons."""
    if path not in PATHS:
        raise ValueError(f"unknown path {path!r}; there are {', '.join(PATHS)}")
    before = getattr(_forced, "path", None)
    _forced.path = path
    try:
        yield
    finally:
        _forced.path = before


def is_forced() -> bool:
    return getattr(_forced, "path", None) not in (None, "library")


class Fused(NamedTuple):
    """A fused attention that returns the log-sum-exp of its rows."""

    function: Callable[..., Tuple[torch.Tensor, torch.Tensor]]
    lse_has_gradient: bool


_fused: Dict[str, Fused] = {}


def use_fused(function: Optional[Callable[..., Tuple[torch.Tensor, torch.Tensor]]], device: str = "cuda",
              lse_has_gradient: bool = False) -> None:
    """Declares a fused attention for a type of device; None removes it.

    function(q, k, v, is_causal, scale) takes [batch][heads][positions][dim] and returns the output and the log-sum-exp,
    [batch][heads][queries], in nats. `lse_has_gradient`: whether autograd goes through the latter.
    """
    if function is None:
        _fused.pop(device, None)
    else:
        _fused[device] = Fused(function, lse_has_gradient)


def _efficient(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool, scale: float) -> Tuple[torch.Tensor, torch.Tensor]:
    """torch's memory-efficient attention, which wants vectors of a multiple of eight; its rows of statistics are padded."""
    padded = (torch.nn.functional.pad(t, (0, -t.shape[-1] % 8)) if t.shape[-1] % 8 else t for t in (q, k, v))
    out, lse, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(*padded, None, True, 0.0, is_causal, scale=scale)
    return out[..., :v.shape[-1]], lse[..., :q.shape[2]]


if hasattr(torch.ops.aten, "_scaled_dot_product_efficient_attention"):
    use_fused(_efficient)


def choose_path(inputs: Inputs, chosen: Chosen, options: Options, names: Tuple[str, ...], wants_gradient: bool) -> str:
    forced = getattr(_forced, "path", None)
    if forced is not None:
        return str(forced)
    device = inputs.q.device.type
    if device == "cpu":
        return "library"
    if not is_composable(chosen):
        return "cpu"
    fused = _fused.get(device)
    if fused and _is_plain(inputs, options, names) and (fused.lse_has_gradient or not wants_gradient):
        return "two calls"
    return "composed"


def _is_plain(inputs: Inputs, options: Options, names: Tuple[str, ...]) -> bool:
    """Whether a call asks for nothing that a fused attention lacks."""
    plain = inputs.mask is None and inputs.bias is None and inputs.beta is None and not options.softcap and not options.window
    return plain and options.offset == 0 and inputs.k.shape[2] > 0 and set(names) <= set(TWO_CALL_STATISTICS)


def attention(path: str, inputs: Inputs, chosen: Chosen, options: Options, names: Tuple[str, ...] = (),
              dropout: float = 0.0) -> Tuple[torch.Tensor, Aux]:
    """The output and all statistics, by "two calls" or "composed"."""
    if not is_composable(chosen):
        raise ValueError(f"{chosen.policies[0]} is not a temperature that {path} computes")
    refuse_two_temperatures(chosen, inputs.beta)
    if path == "two calls" and inputs.q.device.type not in _fused:
        raise ValueError(f"two calls: no fused attention is known for {inputs.q.device.type}; whet.torch.use_fused declares one")
    if path == "two calls" and not _is_plain(inputs, options, names):
        raise ValueError("two calls: mask, bias, soft cap, window, offset, beta and statistics other than "
                         f"{', '.join(TWO_CALL_STATISTICS)} take another path")
    groups = inputs.q.shape[1] // inputs.k.shape[1]
    k, v = (t.repeat_interleave(groups, 1) if groups > 1 else t for t in (inputs.k, inputs.v))
    inputs = inputs._replace(k=k, v=v)
    return _two_calls(inputs, chosen, options) if path == "two calls" else _composed(inputs, chosen, options, dropout)


def refuse_two_temperatures(chosen: Chosen, beta: Any) -> None:
    """As the library does."""
    if beta is not None and any(policy.struct.temperature != c.POLICY_SOFTMAX for policy in chosen.policies):
        raise ValueError("beta is given, but the policy has a temperature of its own: use softmax or a map")


def _sees(inputs: Inputs, options: Options) -> Optional[torch.Tensor]:
    """[queries][keys]: whether causality and window leave a key to a query; None: all of them."""
    device = inputs.q.device
    i = torch.arange(inputs.q.shape[2], device=device)[:, None] + options.offset
    j = torch.arange(inputs.k.shape[2], device=device)
    sees = None
    if options.is_causal:
        sees = j <= i
    if options.window:
        inside = (i - j).abs() < options.window
        sees = inside if sees is None else sees & inside
    return sees


def _positions(inputs: Inputs, options: Options) -> torch.Tensor:
    return torch.arange(inputs.q.shape[2], device=inputs.q.device) + options.offset


def _two_calls(inputs: Inputs, chosen: Chosen, options: Options) -> Tuple[torch.Tensor, Aux]:
    q, k, v = inputs.q, inputs.k, inputs.v
    fused = _fused[q.device.type].function
    keys = k.shape[2]
    mean_key, lse = fused(q, k, k, options.is_causal, options.scale)
    mean = options.scale * (q.float() * mean_key.float()).sum(-1)
    n = torch.full(q.shape[2:3], keys, device=q.device)
    if options.is_causal:
        n = (_positions(inputs, options) + 1).clamp(max=keys)
    lse = lse.float()
    if inputs.sinks is not None:
        lse, mean = _add_sink(lse, mean, inputs.sinks[:, None])
    entropy = lse - mean
    beta = betas(chosen, entropy, n.to(entropy).expand_as(entropy), _positions(inputs, options).to(entropy).expand_as(entropy))
    out, sharp = fused((q * beta[..., None]).to(q.dtype), k, v, options.is_causal, options.scale)
    if inputs.sinks is not None:
        share = torch.sigmoid(sharp.float() - beta * inputs.sinks[:, None])
        out = (out * share[..., None]).to(out.dtype)
    return out, Aux(entropy=entropy, beta=beta.detach(), lse=lse)


def _add_sink(lse: torch.Tensor, mean: torch.Tensor, sink: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """Log-sum-exp and mean logit of rows with one more logit."""
    whole = torch.logaddexp(lse, sink.expand_as(lse))
    share = torch.exp(sink - whole)
    return whole, (1 - share) * mean + share * sink


def _composed(inputs: Inputs, chosen: Chosen, options: Options, dropout: float) -> Tuple[torch.Tensor, Aux]:
    q, k, v, mask, sinks, bias, given = inputs
    sees = _sees(inputs, options)
    if mask is not None:
        sees = mask > -math.inf if sees is None else sees & (mask > -math.inf)
    if sees is not None:
        # Keys and values that nobody sees may hold anything.
        hidden = ~sees.any(-2)[..., None]
        k, v = k.masked_fill(hidden, 0), v.masked_fill(hidden, 0)
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    e = (q.to(wide) * options.scale) @ k.to(wide).transpose(-1, -2)
    if options.softcap:
        e = options.softcap * torch.tanh(e / options.softcap)
    if bias is not None:
        e = e + bias[:, :, None, :]
    if mask is not None:
        e = e + mask.to(wide)
    if sees is not None:
        e = e.masked_fill(~sees, -math.inf)
    position = _positions(inputs, options).to(wide).expand(e.shape[:-1])
    weights, aux = normalise(e, chosen, position, None if sinks is None else sinks.to(wide)[:, None].expand(e.shape[:-1]), given)
    if dropout:
        weights = torch.nn.functional.dropout(weights, dropout)
    return (weights @ v.to(wide)).to(q.dtype), aux


# Logits that far below the largest one have a weight of zero, which times -inf would be NaN.
_LEAST = -1e30


def _entropy(e: torch.Tensor, gone: torch.Tensor) -> torch.Tensor:
    """Of rows of logits relative to the largest one: in float32, lse - mean of large logits would lose the digits that they share.
    Those that are gone are 0, and count nothing."""
    e = e.clamp(min=_LEAST)
    lse = torch.logsumexp(e.masked_fill(gone, -math.inf), -1)
    return lse - (torch.exp(e - lse[..., None]).masked_fill(gone, 0) * e).sum(-1)


def normalise(e: torch.Tensor, chosen: Chosen, position: torch.Tensor, sink: Optional[torch.Tensor],
              given: Optional[torch.Tensor]) -> Tuple[torch.Tensor, Aux]:
    """softmax(beta e) of [..., n] rows and all of their statistics."""
    n = e.shape[-1]
    if n == 0:
        # One entry that is masked, which is removed at the end.
        e = e.new_full((*e.shape[:-1], 1), -math.inf)
    count = (e != -math.inf).sum(-1)
    whole = e if sink is None else torch.cat([e, sink[..., None].to(e)], -1)
    # A row with NaN or +inf is NaN throughout.
    is_bad = (torch.isnan(whole) | (whole == math.inf)).any(-1)
    if given is not None:
        is_bad = is_bad | torch.isnan(given) & (count > 0)
    whole = whole.masked_fill(is_bad[..., None], math.nan)
    gone = whole == -math.inf
    # A row without entries: any finite logits, whose weights are removed at the end.
    is_empty = gone.all(-1)
    whole, gone = whole.masked_fill(is_empty[..., None], 0), gone & ~is_empty[..., None]
    largest = whole.detach().amax(-1, keepdim=True)
    centred = torch.where(gone, torch.zeros_like(whole), (whole - largest).clamp(min=torch.finfo(e.dtype).min))
    entropy = _entropy(centred, gone).masked_fill((is_empty | (count == 0)) & ~is_bad, 0)
    beta = betas(chosen, entropy, count.to(e), position) if given is None else given.to(e).clamp(0, 1e30)
    beta = beta.masked_fill(count == 0, 1).masked_fill(is_bad, math.nan)
    sharp = beta.clamp(min=1e-30)[..., None] * centred
    all_weights = torch.softmax(sharp.masked_fill(gone, -math.inf), -1).masked_fill(is_empty[..., None], 0)
    weights = all_weights[..., :e.shape[-1]]
    lse = torch.logsumexp(centred.masked_fill(gone, -math.inf), -1) + largest[..., 0]
    aux = Aux(entropy=entropy, beta=beta.detach(), lse=lse.masked_fill(is_empty, -math.inf),
              entropy_after=_entropy(sharp, gone).masked_fill(is_empty, 0),
              max=largest[..., 0].masked_fill(is_empty, -math.inf),
              argmax=e.argmax(-1).masked_fill((count == 0) | is_bad, -1), max_prob=all_weights.amax(-1).detach(),
              sink_share=weights[..., 0].detach())
    return weights[..., :n], aux


def whole_mask(mask: Any, x: torch.Tensor, axis: int) -> torch.Tensor:
    """A mask to add to x, of its shape, with the rows' axis last."""
    mask = additive("mask", torch.as_tensor(mask, device=x.device))
    try:
        return mask.expand(x.shape).movedim(axis, -1)
    except RuntimeError:
        raise ValueError(f"mask has shape {tuple(mask.shape)}, which does not broadcast to that of x, {tuple(x.shape)}") from None


def for_each_row(name: str, values: Any, rows_of: torch.Tensor) -> torch.Tensor:
    """One float for each row of [..., n]."""
    wide = torch.float64 if rows_of.dtype == torch.float64 else torch.float32
    tensor = torch.as_tensor(values, dtype=wide, device=rows_of.device).resolve_neg()
    shape = tuple(rows_of.shape[:-1])
    try:
        return tensor.expand(shape)
    except RuntimeError:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, which does not broadcast to one value for each row, {shape}") from None


def rows(x: torch.Tensor, chosen: Chosen, axis: int, mask: Any, sink: Any, beta: Any, names: Tuple[str, ...],
         on_cpu: Callable[..., Any]) -> Tuple[torch.Tensor, Aux]:
    """whet.softmax of a tensor that is not on the CPU."""
    if not is_composable(chosen) or getattr(_forced, "path", None) == "cpu":
        return _rows_on_cpu(x, chosen, axis, mask, sink, beta, names, on_cpu)
    refuse_two_temperatures(chosen, beta)
    e = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32).movedim(axis, -1)
    if mask is not None:
        added = whole_mask(mask, x, axis).to(e)
        # Masked logits may hold anything.
        e = (e + added).masked_fill(added == -math.inf, -math.inf)
    per_row = [None if given is None else for_each_row(name, given, e) for name, given in (("sink", sink), ("beta", beta))]
    weights, aux = normalise(e, chosen, e.new_zeros(e.shape[:-1]), *per_row)
    return weights.to(x.dtype).movedim(-1, axis), Aux((name, aux[name]) for name in names)


def _rows_on_cpu(x: torch.Tensor, chosen: Chosen, axis: int, mask: Any, sink: Any, beta: Any, names: Tuple[str, ...],
                 on_cpu: Callable[..., Any]) -> Tuple[torch.Tensor, Aux]:
    from ._tensors import statistics

    moved = [t.cpu() if isinstance(t, torch.Tensor) else t for t in (mask, sink, beta)]
    result, stats = on_cpu(x.cpu(), chosen, axis, *moved, names, False)
    aux = Aux((name, tensor.to(x.device)) for name, tensor in statistics(stats, names).items()) if names else Aux()
    return result.to(x.device), aux
