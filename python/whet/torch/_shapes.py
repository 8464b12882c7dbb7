"""Makes tensors of the shapes that scaled_dot_product_attention takes into those of the library."""

import math
from typing import Any, Optional, Tuple

import torch

from .._library import DtypeError
from ._attention import Inputs, usable
from ._tensors import additive


def _flat(tensor: torch.Tensor, batch: Tuple[int, ...]) -> torch.Tensor:
    """[batch axes ...][a][b][c] with the batch axes repeated to `batch` and merged into one."""
    if tensor.dim() == 4 and len(batch) == 1:
        return tensor if tensor.shape[0] == batch[0] else tensor.expand(*batch, *tensor.shape[1:])
    return tensor.expand(*batch, *tensor.shape[-3:]).reshape(math.prod(batch), *tensor.shape[-3:])


def _fitted(name: str, tensor: torch.Tensor, batch: Tuple[int, ...], wanted: Tuple[int, ...]) -> torch.Tensor:
    """A tensor that broadcasts to [batch ...][wanted ...], as [batch or 1][...] of as many axes as `wanted` and one; other axes of
    size one are left, the last is not."""
    own, given = len(wanted), tuple(tensor.shape)
    while tensor.dim() < own + len(batch):
        tensor = tensor[None]
    if tensor.dim() > own + len(batch) or any(size not in (1, full) for size, full in zip(tensor.shape, (*batch, *wanted))):
        raise ValueError(f"{name} has shape {given}, which does not broadcast to {(*batch, *wanted)}")
    lead = tensor.shape[:len(batch)]
    if all(size == 1 for size in lead):
        tensor = tensor.reshape(1, *tensor.shape[len(batch):])
    else:
        tensor = tensor.expand(*batch, *tensor.shape[len(batch):]).reshape(math.prod(batch), *tensor.shape[len(batch):])
    if tensor.shape[-1] != wanted[-1]:
        tensor = tensor.expand(*tensor.shape[:-1], wanted[-1])
    return tensor if tensor.stride(-1) or wanted[-1] == 1 else tensor.contiguous()


def _heads(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, enable_gqa: bool) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query heads, and one number of heads for keys and values that divides it."""
    heads, of_k, of_v = q.shape[1], k.shape[1], v.shape[1]
    if heads == 1 and max(of_k, of_v) > 1 and not enable_gqa:
        heads = max(of_k, of_v)
        q = q.expand(-1, heads, -1, -1)
    if any(own != heads and (own == 0 or heads % own or (own != 1 and not enable_gqa)) for own in (of_k, of_v)):
        hint = "" if enable_gqa else "; enable_gqa=True lets query heads share keys"
        raise ValueError(f"query has {heads} heads, key {of_k} and value {of_v}{hint}")
    if of_k != of_v:
        common = math.lcm(of_k, of_v)
        k, v = k.repeat_interleave(common // of_k, 1), v.repeat_interleave(common // of_v, 1)
    return q, k, v


def _common_batch(of_q: Tuple[int, ...], of_k: Tuple[int, ...], of_v: Tuple[int, ...]) -> Tuple[int, ...]:
    if of_q == of_k == of_v:
        return of_q
    try:
        return tuple(torch.broadcast_shapes(of_q, of_k, of_v))  # type: ignore[no-untyped-call, unused-ignore]
    except RuntimeError:
        raise ValueError(f"query, key and value have batches {of_q}, {of_k} and {of_v}, which do not broadcast") from None


def fit(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any, sinks: Any, bias: Any, beta: Any,
        enable_gqa: bool) -> Tuple[Inputs, Tuple[int, ...]]:
    """The inputs of the library, and the shape of the output without its last axis."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}; attention takes tensors of torch")
        if tensor.dim() < 2:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it is [..., heads, positions, dim]")
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is sparse: pass {name}.to_dense()")
        if tensor.dtype != query.dtype:
            raise DtypeError(f"{name} has dtype {tensor.dtype}, query has {query.dtype}")
        if tensor.device != query.device:
            raise ValueError(f"{name} is on {tensor.device}, query is on {query.device}")
    q, k, v = query.shape, key.shape, value.shape
    if (len(q) == len(k) == len(v) == 4 and q[0] == k[0] == v[0] and q[1] == k[1] == v[1] and q[3] == k[3] and k[2] == v[2]
            and attn_mask is None and sinks is None and bias is None and beta is None):
        # The common case; what follows would change nothing.
        return Inputs(usable(query), usable(key), usable(value)), tuple(q[:3])
    return _fit_any(query, key, value, attn_mask, sinks, bias, beta, enable_gqa)


def _fit_any(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any, sinks: Any, bias: Any, beta: Any,
             enable_gqa: bool) -> Tuple[Inputs, Tuple[int, ...]]:
    """The same where axes are missing, repeated or shared."""
    has_heads = max(query.dim(), key.dim(), value.dim()) > 2
    q, k, v = (t if t.dim() > 2 else t[None] for t in (query, key, value))
    batch = _common_batch(tuple(q.shape[:-3]), tuple(k.shape[:-3]), tuple(v.shape[:-3]))
    if k.shape[-1] != q.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"query has shape {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)}: query and key must "
                         "have the same dim, key and value the same positions")
    q, k, v = _heads(_flat(q, batch), _flat(k, batch), _flat(v, batch), enable_gqa)
    heads, queries, keys = q.shape[1], q.shape[2], k.shape[2]
    inputs = Inputs(*(usable(t) for t in (q, k, v)))
    if attn_mask is not None:
        inputs = inputs._replace(mask=_fitted("attn_mask", additive("attn_mask", attn_mask), batch, (heads, queries, keys)))
    if sinks is not None:
        logits = _numbers(sinks, q.device)
        if logits.dim() > 1 or logits.numel() not in (1, heads):
            raise ValueError(f"sinks has shape {tuple(logits.shape)}; it holds one logit for each query head, ({heads},)")
        inputs = inputs._replace(sinks=logits.expand(heads).contiguous())
    if bias is not None:
        inputs = inputs._replace(bias=_fitted("bias", _numbers(bias, q.device), batch, (heads, keys)))
    if beta is not None:
        fitted = _fitted("beta", _numbers(beta, q.device), batch, (heads, queries))
        inputs = inputs._replace(beta=fitted.expand(q.shape[0], heads, queries).contiguous())
    return inputs, (*batch, heads, queries) if has_heads else (queries,)


def _numbers(values: Any, device: torch.device) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.float32, device=device).resolve_neg()
