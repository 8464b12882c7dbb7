"""softmax and entropy of tensors, with gradients."""

from ctypes import byref, sizeof
from typing import Any, Optional, Tuple

import torch

from .. import _declarations as c
from .. import _rows
from .._library import library
from .._policy import Policy, as_policy, call
from .._threads import VALUES_EACH
from . import _composed
from ._policy import GRADIENT_DOUBLES, AnyPolicy, Chosen, choose, parameter_gradients, single, structs
from ._tensors import STATS_DOUBLES, empty, kind_of, needs_gradient, once_differentiable, statistic_gradients, statistics, view

_BACKWARD_SIZE = sizeof(c.RowsBackward)
_Maybe = Optional[torch.Tensor]


def _with_rows(x: torch.Tensor, may_repeat: bool = False) -> torch.Tensor:
    x = x.resolve_neg()
    size = x.element_size()
    strides = [stride * size for stride in x.stride()]
    if not _rows.has_rows(x.shape, strides, size, x.data_ptr(), may_repeat):
        return x.contiguous()
    return x if may_repeat or not _rows.is_in_pieces(x.shape, [strides]) else x.contiguous()


def _forward(rows: torch.Tensor, mask: _Maybe, sink: _Maybe, beta: _Maybe, chosen: Chosen, out: _Maybe,
             wants_stats: bool) -> Optional[torch.Tensor]:
    """Fills `out` ([..., n], or None: statistics only) and returns the statistics."""
    shape, n = rows.shape[:-1], rows.shape[-1]
    stats = torch.empty((*shape, STATS_DOUBLES), dtype=torch.float64) if wants_stats or out is None else None
    _rows.compute(_rows.entropy if out is None else _rows.softmax, single(chosen), shape, n, torch.get_num_threads(), view(rows, kind_of("x", rows)),
                  None if out is None else view(out, kind_of("out", out)), None if mask is None else view(mask, kind_of("mask", mask)),
                  *(None if tensor is None else view(tensor) for tensor in (sink, beta, stats)), keep=(rows, out, mask, sink, beta, stats))
    return stats


def _backward(rows: torch.Tensor, mask: _Maybe, sink: _Maybe, beta: _Maybe, chosen: Chosen, grad_out: _Maybe, grad_stats: _Maybe,
              ) -> Tuple[_Maybe, ...]:
    """Gradients of the rows, sinks, betas and parameters."""
    shape, n = rows.shape[:-1], rows.shape[-1]
    grad_rows = empty(rows.shape, rows.dtype)
    grad_out = None if grad_out is None else _with_rows(grad_out)
    of_sink, of_beta = (None if tensor is None else torch.zeros(shape) for tensor in (sink, beta))
    of_stats = dict(statistic_gradients(grad_stats))
    of_values = torch.zeros(1, GRADIENT_DOUBLES, dtype=torch.float64)
    piece_values = torch.zeros_like(of_values)
    if grad_out is not None or of_stats:
        address, _, keep = structs(chosen)
        request = c.RowsBackward(size=_BACKWARD_SIZE, n=n, policy_grad=piece_values.data_ptr(), in_type=kind_of("x", rows),
                                 grad_in_type=kind_of("x", rows), grad_out_type=c.F32 if grad_out is None else kind_of("out", grad_out),
                                 mask_type=c.F32 if mask is None else kind_of("mask", mask), sink_stride=1)
        tensors = {"in_": rows, "grad_in": grad_rows, "grad_out": grad_out, "mask": mask, "sink": sink, "grad_sink": of_sink,
                   "beta": beta, "grad_beta": of_beta, **{f"grad_{name}": tensor for name, tensor in of_stats.items()}}
        request.rows, strides, places = _rows.pieces(shape, [None if tensor is None else view(tensor) for tensor in tensors.values()])
        for name, stride in zip(tensors, strides):
            tensor = tensors[name]
            if tensor is not None and name in ("in_", "grad_in", "grad_out", "mask"):
                setattr(request, name.rstrip("_") + "_stride", stride // tensor.element_size())
        for place in places if request.rows else ():
            for name, address_of in zip(tensors, place):
                setattr(request, name, address_of)
            call(chosen.policies, library.whet_softmax_backward, byref(request), address, None)
            of_values += piece_values
        del keep
    else:
        grad_rows.zero_()
    return grad_rows, of_sink, of_beta, parameter_gradients(chosen, of_values)


class _Softmax(torch.autograd.Function):
    """(result, statistics) of [..., n] rows; or the statistics alone."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any, **_: Any) -> Any:
        rows, mask, sink, beta, values, chosen, only_statistics = arguments
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows, mask, sink, beta, values)
        ctx.chosen = chosen._replace(values=None)
        out = None if only_statistics else empty(rows.shape, rows.dtype)
        stats = _forward(rows, mask, sink, beta, chosen, out, True)
        return stats if only_statistics else (out, stats)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        rows, mask, sink, beta, values = ctx.saved_tensors
        grad_out = None if len(gradients) == 1 else gradients[0]
        of_rows, of_sink, of_beta, of_values = _backward(rows, mask, sink, beta, ctx.chosen._replace(values=values), grad_out,
                                                         gradients[-1])
        return of_rows, None, of_sink, of_beta, None if values is None else of_values, None, None


def _compute(x: torch.Tensor, policy: AnyPolicy, axis: int, mask: Any, sink: Any, beta: Any, names: Tuple[str, ...],
             only_statistics: bool, out: _Maybe = None) -> Tuple[_Maybe, _Maybe]:
    """Result and statistics, with the rows' axis where it was. `out` is written to if its layout allows."""
    kind_of("x", x)
    chosen = choose(policy)
    rows = _with_rows(x.movedim(axis, -1))
    masks = None if mask is None else _with_rows(_composed.whole_mask(mask, x, axis), may_repeat=True)
    sinks, betas = (None if given is None else _composed.for_each_row(name, given, rows).contiguous()
                    for name, given in (("sink", sink), ("beta", beta)))
    if needs_gradient(masks):
        raise ValueError("mask: the library has no gradient of a mask; add it to x instead")
    if needs_gradient(rows, sinks, betas, chosen.values):
        done = _Softmax.apply(rows, masks, sinks, betas, chosen.values, chosen, only_statistics)
        return (None, done) if only_statistics else (done[0].movedim(-1, axis), done[1])
    result = None if out is None else out.movedim(axis, -1)
    if not only_statistics and (result is None or _with_rows(result) is not result or _overlaps(rows, result)):
        result = empty(rows.shape, rows.dtype)
    stats = _forward(rows, masks, sinks, betas, chosen, result, bool(names))
    return None if result is None else result.movedim(-1, axis), stats


def _plain_softmax(x: torch.Tensor, policy: Any) -> torch.Tensor:
    """The common case, with little to do besides the call."""
    out = empty(x.shape, torch.float32)
    n = x.shape[-1]
    request = c.Rows(_rows.ROWS_SIZE, x.numel() // n if n else 0, n, x.data_ptr(), 0, out.data_ptr())
    chosen = as_policy(policy)
    call((chosen,), _rows.softmax, byref(request), chosen.address, None)
    return out


def _is_plain(x: torch.Tensor, policy: Any, axis: int) -> bool:
    return (x.dtype == torch.float32 and x.numel() < 2 * VALUES_EACH and x.device.type == "cpu" and x.layout == torch.strided
            and axis in (-1, x.dim() - 1) and x.dim() > 0 and x.is_contiguous() and not x.is_neg()
            and isinstance(policy, (str, Policy)) and not (x.requires_grad and torch.is_grad_enabled()) and not _composed.is_forced())


def _checked_axis(x: torch.Tensor, axis: int) -> int:
    if x.layout != torch.strided:
        raise ValueError("x is sparse: pass x.to_dense()")
    if x.dim() == 0:
        raise ValueError("x is a single number; it must have rows")
    axis = _rows.integer("axis", axis)
    if not -x.dim() <= axis < x.dim():
        raise ValueError(f"axis {axis} is out of range: x has {x.dim()} axes")
    return axis


def _check_out(x: torch.Tensor, out: Any) -> None:
    if not isinstance(out, torch.Tensor) or out.shape != x.shape or out.device != x.device:
        raise ValueError(f"out must be a tensor of x's shape and device, {tuple(x.shape)} on {x.device}")
    if out.requires_grad and torch.is_grad_enabled():
        raise ValueError("out does not go with gradients; use torch.no_grad()")


def _overlaps(x: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether the two share memory without being the same."""
    if x.data_ptr() == out.data_ptr() and x.stride() == out.stride() and x.dtype == out.dtype:
        return False
    (x_from, x_to), (out_from, out_to) = ((t.data_ptr(), t.data_ptr() + t.element_size() * (
        1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride())))) for t in (x, out))
    return x_from < out_to and out_from < x_to


def softmax(x: torch.Tensor, policy: AnyPolicy, axis: int, mask: Any, sink: Any, beta: Any, out: Any, return_aux: Any) -> Any:
    result: Any
    if mask is None and sink is None and beta is None and out is None and not return_aux and _is_plain(x, policy, axis):
        return _plain_softmax(x, policy)
    names = _rows.requested(return_aux)
    axis = _checked_axis(x, axis)
    if out is not None:
        _check_out(x, out)
    if x.device.type != "cpu" or _composed.is_forced():
        result, aux = _composed.rows(x, choose(policy), axis, mask, sink, beta, names, _compute)
    else:
        result, stats = _compute(x, policy, axis, mask, sink, beta, names, False, out)
        aux = statistics(stats, names) if names and stats is not None else _rows.Aux()
    if out is not None:
        if result.requires_grad:
            raise ValueError("out does not go with gradients; use torch.no_grad()")
        if result.data_ptr() == out.data_ptr():
            # Nothing is changed by this, but autograd counts it: what it had kept of out is no longer valid.
            out.narrow(0, 0, 0).zero_()
        else:
            out.copy_(result)
        result = out
    return (result, aux) if names else result


def entropy(x: torch.Tensor, policy: AnyPolicy, axis: int, mask: Any, sink: Any, beta: Any, return_aux: Any) -> Any:
    names = _rows.requested(return_aux)
    axis = _checked_axis(x, axis)
    wanted = ("entropy", *names)
    if x.device.type != "cpu" or _composed.is_forced():
        _, aux = _composed.rows(x, choose(policy), axis, mask, sink, beta, wanted, _compute)
    else:
        _, stats = _compute(x, policy, axis, mask, sink, beta, wanted, True)
        assert stats is not None
        aux = statistics(stats, wanted)
    return (aux["entropy"], _rows.Aux((name, aux[name]) for name in names)) if names else aux["entropy"]
