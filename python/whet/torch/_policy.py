"""Policies for tensors: fixed ones, and a module whose parameters are trained."""

import ctypes
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from .. import _declarations as c
from .._policy import Parameter, Policy as FixedPolicy, PolicyLike, array_of, as_policy, parameters_of, read_double, write_double

# Coefficients of polynomials are held in units of H / 4, so that one learning rate suits all powers.
ENTROPY_UNIT = 4.0


class Chosen(NamedTuple):
    """The policies of a call: one for all heads or one for each, and the values of trained parameters, [policies][parameters]."""

    policies: Tuple[FixedPolicy, ...]
    parameters: Tuple[Parameter, ...] = ()
    values: Optional[torch.Tensor] = None


class Policy(torch.nn.Module):
    """A policy whose parameters are trained.

    policy  where training starts: a name or a `whet.Policy`, such as "adaptive" or "ssmax:0.4"
    heads   None: one set of parameters for all heads; a number: one set for each query head
    learn   names of the parameters to train; default: those that the library calls learnable (coefficients, not thresholds).
            Policies without any of these, such as "target:2", need names: learn=["H"]

    Pass it as `policy` to `whet.softmax` or `whet.attention`. `weight` has shape [heads or 1][parameters]; a polynomial's
    coefficient of H^k is held multiplied by 4^k, so that one learning rate suits all powers. `policy(head)` is the current
    policy of a head, `values()` the parameters themselves.
    """

    def __init__(self, policy: PolicyLike = "adaptive", heads: Optional[int] = None, learn: Optional[Sequence[str]] = None) -> None:
        super().__init__()
        if heads is not None and heads < 1:
            raise ValueError(f"heads is {heads}; it is 1 or more, or None for one set of parameters")
        self.base = as_policy(policy)
        known = [p for p in parameters_of(self.base.struct) if p.gradient_offset is not None]
        names = [p.name for p in known if p.is_learnable] if learn is None else list(learn)
        for name in names:
            if name not in [p.name for p in known]:
                raise ValueError(f"learn: {self.base} has no trainable parameter {name!r}; it has {', '.join(p.name for p in known)}")
        self.places = tuple(p for p in known if p.name in names)
        if not self.places:
            kept = [p.name for p in known if p.name != "strength" and learn is None]
            hint = f" by default; learn={kept} trains what it has" if kept else ""
            raise ValueError(f"{self.base} has no parameters to train{hint}")
        self.names = tuple(p.name for p in self.places)
        start = torch.tensor([read_double(self.base.struct, p.offset) for p in self.places], dtype=torch.float64) * self._units()
        self.weight = torch.nn.Parameter(start.float().repeat(1 if heads is None else heads, 1))

    def _units(self, device: Optional[torch.device] = None) -> torch.Tensor:
        """Of the weights. Not a buffer, which module.half() would round to infinity for high powers."""
        return torch.tensor([ENTROPY_UNIT**p.entropy_power for p in self.places], dtype=torch.float64, device=device)

    def values(self) -> torch.Tensor:
        """The current parameters, [heads or 1][parameters], with gradients."""
        return self.weight.double() / self._units(self.weight.device)  # type: ignore[no-any-return]

    def policy(self, head: int = 0) -> FixedPolicy:
        """The current policy of a head."""
        row = self.values().detach()[head if self.weight.shape[0] > 1 else 0].tolist()
        return self.base.with_parameters(**dict(zip(self.names, row)))

    def extra_repr(self) -> str:
        return f"{str(self.base)!r}, sets={self.weight.shape[0]}, learn={self.names}"

    def forward(self, x: torch.Tensor, **options: Any) -> Any:
        """`whet.softmax(x, self, ...)`."""
        from ._rows import softmax

        arguments: Any = dict(axis=-1, mask=None, sink=None, beta=None, out=None, return_aux=())
        return softmax(x, self, **{**arguments, **options})


AnyPolicy = Union[PolicyLike, Policy, Sequence[PolicyLike], Chosen]


def choose(policy: AnyPolicy, heads: int = 1) -> Chosen:
    """What `policy` stands for in a call with that many query heads."""
    if isinstance(policy, Policy):
        if policy.weight.shape[0] not in (1, heads):
            raise ValueError(f"policy has {policy.weight.shape[0]} sets of parameters, one for each head; this call has "
                             f"{heads} head{'s' if heads != 1 else ''}")
        return Chosen((policy.base,), policy.places, policy.values())
    if isinstance(policy, Chosen):
        return policy
    if isinstance(policy, (list, tuple)):
        if len(policy) not in (1, heads):
            raise ValueError(f"there are {len(policy)} policies for {heads} heads")
        return Chosen(tuple(as_policy(one) for one in policy))
    return Chosen((as_policy(policy),))  # type: ignore[arg-type]


def structs(chosen: Chosen) -> Tuple[int, int, Any]:
    """Address and number of the structs of policies, and what keeps them alive."""
    if chosen.values is None:
        if len(chosen.policies) == 1:
            return chosen.policies[0].address, 1, chosen.policies
        array = array_of(chosen.policies)
        return ctypes.addressof(array), len(array), array
    rows: List[List[float]] = chosen.values.tolist()
    array = array_of(chosen.policies * len(rows))
    for struct, row in zip(array, rows):
        for parameter, value in zip(chosen.parameters, row):
            write_double(struct, parameter.offset, value)
    return ctypes.addressof(array), len(array), array


def single(chosen: Chosen) -> FixedPolicy:
    """The one policy of a call on rows, with the values of trained parameters."""
    if chosen.values is None:
        return chosen.policies[0]
    names = [parameter.name for parameter in chosen.parameters]
    return chosen.policies[0].with_parameters(**dict(zip(names, chosen.values[0].tolist())))


GRADIENT_DOUBLES = ctypes.sizeof(c.PolicyGradient) // 8


def parameter_gradients(chosen: Chosen, gradients: torch.Tensor) -> torch.Tensor:
    """Columns of [policies][GRADIENT_DOUBLES] gradients that belong to the trained parameters."""
    columns = [parameter.gradient_offset // 8 for parameter in chosen.parameters if parameter.gradient_offset is not None]
    return gradients[:, columns]
