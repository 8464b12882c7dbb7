"""What calls on tensors share: element types, statistics, and shapes."""

import ctypes
import functools
import mmap
from typing import Any, Callable, Tuple

import torch

from .. import _declarations as c
from .._library import DtypeError
from .._rows import STATISTICS, STATS_SIZE, Aux, View

KINDS = {torch.float32: c.F32, torch.float16: c.F16, torch.bfloat16: c.BF16}

# Statistics of a row as float64: a struct of 8-byte members.
STATS_DOUBLES = STATS_SIZE // 8
COLUMNS = {name: getattr(c.Stats, field).offset // 8 for name, field in STATISTICS.items()}
# Those with gradients, by the names that the library gives their gradients.
DIFFERENTIABLE = {"lse": "logsumexp", "entropy": "entropy", "entropy_after": "entropy_after"}


# From this size on, the first touch of ordinary pages takes longer than computing what is written to them.
_LARGE = 4 << 20
_PAGE = mmap.PAGESIZE
_madvise = getattr(ctypes.CDLL(None), "madvise", None) if hasattr(mmap, "MADV_HUGEPAGE") else None
if _madvise is not None:
    _madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def empty(shape: Tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor for results; a large one asks for huge pages, as numpy's arrays do."""
    result = torch.empty(shape, dtype=dtype)
    size = result.numel() * result.element_size()
    if size >= _LARGE and _madvise is not None:
        start = -(-result.data_ptr() // _PAGE) * _PAGE
        _madvise(start, result.data_ptr() + size - start, mmap.MADV_HUGEPAGE)
    return result


def kind_of(name: str, tensor: torch.Tensor) -> int:
    kind = KINDS.get(tensor.dtype)
    if kind is None:
        hint = "pass a tensor of one of these" if name == "out" else f"pass {name}.float()"
        raise DtypeError(f"{name} has dtype {tensor.dtype}; whet takes float32, float16 and bfloat16: {hint}")
    return kind


def view(tensor: torch.Tensor, kind: int = 0) -> View:
    size = tensor.element_size()
    return View(tensor.data_ptr(), kind, size, tuple(stride * size for stride in tensor.stride()))


def needs_gradient(*tensors: Any) -> bool:
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def statistics(stats: torch.Tensor, names: Tuple[str, ...]) -> Aux:
    """Statistics by name, from [...][STATS_DOUBLES]."""
    aux = Aux()
    for name in names:
        source = stats if name in DIFFERENTIABLE else stats.detach()
        if name == "argmax":
            aux[name] = source.view(torch.int64)[..., COLUMNS[name]]
        else:
            aux[name] = source[..., COLUMNS[name]].float()
    return aux


def statistic_gradients(grad_stats: Any) -> Any:
    """(name in the library, contiguous f32 gradient) of each statistic whose gradient is not zero."""
    if grad_stats is not None:
        for name, member in DIFFERENTIABLE.items():
            gradient = grad_stats[..., COLUMNS[name]]
            if gradient.any():
                yield member, gradient.float().contiguous()


def additive(name: str, mask: torch.Tensor) -> torch.Tensor:
    """A mask to add to logits: float32 or float16. A bool mask is True where an entry takes part."""
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"{name} is a {type(mask).__name__}; it must be a tensor of torch")
    mask = mask.resolve_neg()
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=torch.float16, device=mask.device).masked_fill_(mask.logical_not(), -float("inf"))
    if mask.dtype == torch.bfloat16:
        return mask.float()
    if mask.dtype not in (torch.float32, torch.float16):
        hint = "float()" if mask.dtype.is_floating_point else "bool()"
        raise DtypeError(f"{name} has dtype {mask.dtype}; it is bool, float32, float16 or bfloat16: pass {name}.{hint}")
    return mask


class _NotTwice(torch.autograd.Function):
    """A gradient that depends on `sources` in a way that autograd cannot follow."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any, **_: Any) -> Any:
        gradient, *_sources = arguments
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError("whet has no second derivatives: its gradients, made with create_graph=True, cannot be differentiated again")


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Of a backward pass that autograd cannot differentiate. torch's own decorator leaves gradients constant where the gradient of
    the output is, so that a penalty on them would change nothing without a word."""

    @functools.wraps(backward)
    def wrapped(ctx: Any, *gradients: Any) -> Any:
        with torch.no_grad():
            found = backward(ctx, *gradients)
        if not torch.is_grad_enabled():
            return found
        sources = [tensor for tensor in (*ctx.saved_tensors, *gradients) if tensor is not None and tensor.requires_grad]
        return tuple(None if gradient is None else _NotTwice.apply(gradient, *sources) for gradient in found)

    return wrapped
