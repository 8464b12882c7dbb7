"""Temperatures as operations on tensors, for devices that the library does not reach. whet.h has the formulas."""

import math
from typing import Any, Callable, Dict

import torch

from .. import _declarations as c
from ._policy import Chosen

Values = Dict[str, Any]


def _poly(p: Values, h: torch.Tensor, n: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    held = torch.minimum(h, torch.as_tensor(p["hold"], dtype=h.dtype, device=h.device).expand_as(h))
    result = torch.zeros_like(h)
    for power in range(p["degree"], -1, -1):
        result = result * held + p[f"c{power}"]
    result = torch.maximum(result, torch.as_tensor(p["floor"], dtype=h.dtype, device=h.device).expand_as(h))
    return torch.where(h > p["threshold"], result, torch.ones_like(result))


def _positive(n: torch.Tensor) -> torch.Tensor:
    return n.clamp(min=1)


_BETAS: Dict[int, Callable[[Values, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    c.POLICY_SOFTMAX: lambda p, h, n, position: torch.ones_like(h),
    c.POLICY_FIXED: lambda p, h, n, position: torch.zeros_like(h) + p["B"],
    c.POLICY_POLY: _poly,
    c.POLICY_EXP: lambda p, h, n, position: torch.exp(h - p["h0"]).clamp(min=1),
    c.POLICY_SSMAX: lambda p, h, n, position: p["s"] * torch.log(_positive(n)) ** p["g"] + p["b"],
    c.POLICY_LENGTH: lambda p, h, n, position: (torch.log(_positive(n)) / _log(p["n0"])).clamp(min=1),
    c.POLICY_LINEAR: lambda p, h, n, position: (n / p["n0"]).clamp(min=1),
    c.POLICY_HINGE: lambda p, h, n, position: torch.exp(p["a"] + p["h"] * (torch.log(_positive(n)) - _log(p["n0"])).clamp(min=0)),
    c.POLICY_LLAMA4: lambda p, h, n, position: 1 + p["s"] * torch.log(
        1 + torch.floor((position + p["offset"]).clamp(min=0) / p["n0"])),
}


def _log(value: Any) -> Any:
    return torch.log(value) if isinstance(value, torch.Tensor) else math.log(value)


def is_composable(chosen: Chosen) -> bool:
    """Whether all of them are temperatures that are written here."""
    return all(policy.is_temperature and policy.struct.temperature in _BETAS for policy in chosen.policies)


def betas(chosen: Chosen, h: torch.Tensor, n: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """The inverse temperatures of rows, [batch][heads][queries] or any shape if there is one policy."""
    if len(chosen.policies) > 1:
        each = [betas(Chosen((policy,)), *(x.expand_as(h)[:, i] for x in (h, n, position))) for i, policy in enumerate(chosen.policies)]
        return torch.stack(each, 1)
    policy = chosen.policies[0]
    p: Values = {**policy.parameters, "degree": policy.struct.degree}
    if chosen.values is not None:
        for column, parameter in enumerate(chosen.parameters):
            value = chosen.values[:, column].to(h)
            # One set for all rows, or one for each head.
            p[parameter.name] = value[0] if len(value) == 1 else value[:, None]
    result = _BETAS[policy.struct.temperature](p, h, n, position)
    strength = p["strength"] if "strength" in p else policy.struct.strength
    return (1 + strength * (result - 1)).clamp(min=0, max=1e30)
