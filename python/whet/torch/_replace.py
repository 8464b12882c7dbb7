"""torch's scaled_dot_product_attention replaced for a while."""

import contextlib
import functools
import threading
import types
from typing import Any, Callable, Iterator, Optional, Union

import torch

from .._policy import as_policy
from ._policy import AnyPolicy

NAME = "scaled_dot_product_attention"
# Arguments of whet.attention that the replaced function lacks.
OPTIONS = ("window", "softcap", "sinks", "bias", "beta", "skip", "offset")


@contextlib.contextmanager
def replace_attention(where: Union[None, torch.nn.Module, types.ModuleType] = None, policy: AnyPolicy = "adaptive",
                      **options: Any) -> Iterator[Callable[..., torch.Tensor]]:
    """Replaces torch.nn.functional.scaled_dot_product_attention inside a `with` block.

    where    None: every call; an nn.Module: the calls that its forward makes; a Python module that has imported the function by
             name: the name in that module
    policy   of all heads, or a list with one for each query head
    options  further arguments of `whet.attention`: window, softcap, sinks, bias, beta, skip, offset

    Blocks may be nested; the innermost decides. Versions of torch before 2.0, which lack the function, have it inside the block.
    Where torch.utils.checkpoint computes parts of the forward pass again, it must do so inside the block, and for every call:
    with a module, those parts would go to torch. nn.MultiheadAttention calls the function in training only, unless
    torch.backends.mha.set_fastpath_enabled(False).
    """
    from . import attention

    if isinstance(policy, str):
        as_policy(policy)
    for name in options:
        if name not in OPTIONS:
            raise TypeError(f"replace_attention: unknown option {name!r}; there are {', '.join(OPTIONS)}")
    if not (where is None or isinstance(where, (torch.nn.Module, types.ModuleType))):
        raise TypeError(f"where is a {type(where).__name__}; it is an nn.Module, a Python module, or None for every call")
    if isinstance(where, types.ModuleType) and where is not torch.nn.functional and not hasattr(where, NAME):
        raise AttributeError(f"{where.__name__} has no {NAME}, so that nothing would be replaced")
    holder: Any = where if isinstance(where, types.ModuleType) else torch.nn.functional
    before = getattr(holder, NAME, None)
    active = threading.local()
    is_for_all = not isinstance(where, torch.nn.Module)

    def replaced(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Optional[torch.Tensor] = None,
                 dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Any:
        if is_for_all or getattr(active, "depth", 0) > 0:
            return attention(query, key, value, attn_mask, is_causal, scale, enable_gqa, policy=policy, dropout_p=dropout_p, **options)
        if before is None:
            raise AttributeError(f"this version of torch has no {NAME}, and {where.__class__.__name__} did not call it")
        more = {name: given for name, given, default in (("scale", scale, None), ("enable_gqa", enable_gqa, False)) if given != default}
        return before(query, key, value, attn_mask, dropout_p, is_causal, **more)

    setattr(holder, NAME, replaced)
    try:
        with contextlib.nullcontext() if is_for_all else _entered(where, active):
            yield replaced
    finally:
        if before is None:
            delattr(holder, NAME)
        else:
            setattr(holder, NAME, before)


@contextlib.contextmanager
def _entered(module: Any, active: threading.local) -> Iterator[None]:
    """Counts how deep this thread is in the module's forward."""
    forward = module.forward
    is_own = "forward" in vars(module)

    @functools.wraps(forward)
    def counted(*arguments: Any, **options: Any) -> Any:
        active.depth = getattr(active, "depth", 0) + 1
        try:
            return forward(*arguments, **options)
        finally:
            active.depth -= 1

    module.forward = counted
    try:
        yield
    finally:
        if is_own:
            module.forward = forward
        else:
            del module.forward
