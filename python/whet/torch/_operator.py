"""Attention as an operator of torch (2.4 and later), which torch.compile leaves as it is.

`define(torch.library.custom_op)` registers whet::attention and whet::attention_backward with their shapes (fake) and their gradient.
`attention` of the package calls the operator while torch.compile traces, and the autograd function otherwise, which costs less.
Debian's torch has no torch.library.custom_op: tests define the operators with a stand-in of it.
"""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .._policy import Policy, parameters_of
from ._attention import Inputs, Options, backward, forward
from ._policy import Chosen
from ._tensors import STATS_DOUBLES

GRADIENTS = ("q", "k", "v", "sinks", "bias", "beta", "values")


class Operators(NamedTuple):
    attention: Any
    attention_backward: Any


def _chosen(policies: Sequence[str], learned: Sequence[str], values: Optional[Tensor]) -> Chosen:
    parsed = tuple(Policy(name) for name in policies)
    parameters = tuple(p for p in parameters_of(parsed[0].struct) if p.name in learned)
    return Chosen(parsed, parameters, values)


def define(custom_op: Any) -> Operators:
    """Both operators. Tensors are as in `Inputs`, numbers as in `Options`."""

    @custom_op("whet::attention", mutates_args=())
    def whet_attention(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], sinks: Optional[Tensor], bias: Optional[Tensor],
                       beta: Optional[Tensor], values: Optional[Tensor], policies: str, learned: str, scale: float, softcap: float,
                       is_causal: bool, offset: int, window: int, skip: float) -> Tuple[Tensor, Tensor]:
        out, stats = forward(Inputs(q, k, v, mask, sinks, bias, beta), _chosen(policies.split("\n"), learned.split(), values),
                             Options(scale, softcap, is_causal, offset, window, skip), True)
        assert stats is not None
        return out, stats

    @whet_attention.register_fake
    def shapes(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tuple[Tensor, Tensor]:
        return q.new_empty((*q.shape[:3], v.shape[3])), q.new_empty((*q.shape[:3], STATS_DOUBLES), dtype=torch.float64)

    @custom_op("whet::attention_backward", mutates_args=())
    def whet_attention_backward(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], sinks: Optional[Tensor],
                                bias: Optional[Tensor], beta: Optional[Tensor], values: Optional[Tensor], stats: Tensor,
                                grad_out: Optional[Tensor], grad_stats: Optional[Tensor], policies: str, learned: str, scale: float,
                                softcap: float, is_causal: bool, offset: int, window: int, skip: float) -> List[Tensor]:
        inputs = Inputs(q, k, v, mask, sinks, bias, beta)
        wanted = {name: tensor is not None for name, tensor in {**inputs._asdict(), "values": values}.items()}
        found = backward(inputs, _chosen(policies.split("\n"), learned.split(), values),
                         Options(scale, softcap, is_causal, offset, window, skip), stats, grad_out, grad_stats, wanted)
        return [gradient for name in GRADIENTS if (gradient := found.get(name)) is not None]

    @whet_attention_backward.register_fake
    def gradient_shapes(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], *others: Any) -> List[Tensor]:
        # Contiguous, as the real ones are, whatever the layout of the tensors themselves.
        return [tensor.new_empty(tensor.shape) for tensor in (q, k, v, *others[:4]) if tensor is not None]

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:8], output[1])
        ctx.options = inputs[8:]

    def gradients(ctx: Any, grad_out: Any, grad_stats: Any) -> Any:
        tensors = ctx.saved_tensors
        found = iter(whet_attention_backward(*tensors, grad_out, grad_stats, *ctx.options))
        present = dict(zip(("q", "k", "v", "mask", "sinks", "bias", "beta", "values"), tensors))
        by_name = {name: next(found) for name in GRADIENTS if present[name] is not None}
        return (*(by_name.get(name) for name in present), *(None for _ in ctx.options))

    whet_attention.register_autograd(gradients, setup_context=keep)
    return Operators(whet_attention, whet_attention_backward)


operators: Optional[Operators] = define(torch.library.custom_op) if hasattr(torch.library, "custom_op") else None


def is_compiling() -> bool:
    """Whether torch.compile is tracing the call."""
    check = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return operators is not None and check is not None and bool(check())


def call(inputs: Inputs, chosen: Chosen, options: Options) -> Tuple[Tensor, Tensor]:
    """The operator, as the autograd function of _attention.py."""
    assert operators is not None
    if any(policy.is_function for policy in chosen.policies):
        raise ValueError("a policy of a Python function cannot be compiled")
    result = operators.attention(*inputs, chosen.values, "\n".join(policy.name for policy in chosen.policies),
                                 " ".join(parameter.name for parameter in chosen.parameters), *options)
    return result  # type: ignore[no-any-return]
