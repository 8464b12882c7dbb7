"""softmax and entropy of numpy arrays."""

import math
import os
from ctypes import byref
from typing import Any, Optional, Tuple

import numpy

from . import _declarations as c
from . import _rows
from ._library import DtypeError
from ._policy import PolicyLike, as_policy, call
from ._threads import VALUES_EACH

_KINDS = {numpy.dtype(numpy.float32): c.F32, numpy.dtype(numpy.float16): c.F16, numpy.dtype(numpy.uint16): c.BF16}
_F32 = numpy.dtype(numpy.float32)
_STATS = numpy.dtype(c.Stats)
_SMALL = 2 * VALUES_EACH  # for one thread


def threads() -> int:
    """One for each processor that this process may use; OMP_NUM_THREADS limits them, as it does those of other libraries."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, int(limit)) if limit.isdigit() and int(limit) > 0 else available


def _kind(name: str, array: Any) -> int:
    kind = _KINDS.get(array.dtype)
    if kind is not None:
        return kind
    if array.dtype.name == "bfloat16":
        return c.BF16
    hint = f"pass {name}.astype(numpy.float32)" if array.dtype.kind in "fiub" else "pass numbers"
    if name == "out":
        hint = "pass an array of one of these"
    raise DtypeError(f"{name} has dtype {array.dtype}; whet takes float32, float16 and bfloat16 (as uint16 or ml_dtypes.bfloat16): {hint}")


def _view(array: Any, kind: int) -> _rows.View:
    return _rows.View(array.ctypes.data, kind, array.itemsize, array.strides)


def _with_rows(array: Any, may_repeat: bool = False) -> Any:
    """The array itself if its layout will do, else a contiguous copy."""
    if _rows.has_rows(array.shape, array.strides, array.itemsize, array.ctypes.data, may_repeat):
        return array
    return numpy.array(array, order="C")


def _as_mask(mask: Any, shape: Tuple[int, ...], axis: int) -> Any:
    """An additive mask of f32 or f16, repeated to the shape without a copy, with the row's axis last."""
    mask = _as_array("mask", mask, keeps_bools=True)
    if mask.dtype == numpy.bool_:
        mask = numpy.where(mask, numpy.float16(0), numpy.float16(-math.inf))
    elif mask.dtype not in (numpy.float32, numpy.float16):
        hint = "numpy.float32" if mask.dtype.kind == "f" else "bool"
        raise DtypeError(f"mask has dtype {mask.dtype}; it is float32, float16, or bool (True: takes part): pass mask.astype({hint})")
    try:
        whole = numpy.broadcast_to(mask, shape)
    except ValueError:
        raise ValueError(f"mask has shape {mask.shape}, which does not broadcast to that of x, {shape}") from None
    whole = numpy.moveaxis(whole, axis, -1)
    if shape[axis] > 1 and whole.strides[-1] == 0:
        # Constant along rows: the library reads a value for each entry.
        varying = whole[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in whole.strides[:-1])]
        return numpy.broadcast_to(numpy.array(varying), whole.shape)
    return _with_rows(whole, may_repeat=True)


def _per_row(name: str, values: Any, shape: Tuple[int, ...], is_contiguous: bool) -> Any:
    """One f32 for each row."""
    array = numpy.asarray(values)
    if array.dtype.kind not in "fiu":
        raise DtypeError(f"{name} has dtype {array.dtype}; it holds one number for each row")
    try:
        array = numpy.broadcast_to(array.astype(_F32, copy=False), shape)
    except ValueError:
        raise ValueError(f"{name} has shape {array.shape}, which does not broadcast to one value for each row, {shape}") from None
    will_do = array.flags.c_contiguous if is_contiguous else all(stride >= 0 for stride in array.strides)
    return array if will_do and array.flags.aligned else numpy.array(array, order="C")


def _statistics(stats: Any, names: Tuple[str, ...]) -> _rows.Aux:
    aux = _rows.Aux((name, stats[_rows.STATISTICS[name]]) for name in names)
    if "argmax" in aux:
        aux["argmax"] = aux["argmax"].view(numpy.int64)  # -1 in empty rows
    return aux


def _is_same_place(a: Any, b: Any) -> bool:
    return bool(a.ctypes.data == b.ctypes.data and a.strides == b.strides and a.dtype == b.dtype)


def _places(rows: Any, result: Any) -> Tuple[Any, Any]:
    """Arrays that the library can read and write: those given, or contiguous ones in their stead."""
    source, target = _with_rows(rows), result
    if result is not None:
        if not _rows.has_rows(result.shape, result.strides, result.itemsize, result.ctypes.data):
            target = numpy.empty(result.shape, result.dtype)
        elif numpy.may_share_memory(source, result) and not _is_same_place(source, result):
            source = numpy.array(source, order="C")
    strides = [array.strides for array in (source, target) if array is not None]
    if _rows.is_in_pieces(rows.shape, strides):
        source = numpy.ascontiguousarray(source)
        if target is not None and not target.flags.c_contiguous:
            target = numpy.empty(result.shape, result.dtype)
    return source, target


def _rows_of(function: Any, rows: Any, policy: PolicyLike, mask: Any, sink: Any, beta: Any, result: Any, needs_stats: bool) -> Any:
    """Runs a function of the library over [..., n] rows; the statistics."""
    kind = _kind("x", rows)
    shape, n = rows.shape[:-1], rows.shape[-1]
    source, target = _places(rows, result)
    sinks = None if sink is None else _per_row("sink", sink, shape, False)
    betas = None if beta is None else _per_row("beta", beta, shape, True)
    stats = numpy.empty(shape, _STATS) if needs_stats else None
    chosen = as_policy(policy)
    _rows.compute(function, chosen, shape, n, threads(), _view(source, kind),
                  None if target is None else _view(target, _kind("out", target)),
                  *(None if array is None else _view(array, _KINDS.get(array.dtype, 0)) for array in (mask, sinks, betas, stats)),
                  keep=(source, target, mask, sinks, betas, stats))
    if target is not result:
        result[...] = target
    return stats


def _as_array(name: str, x: Any, keeps_bools: bool = False) -> Any:
    """An array as it is; lists and numbers become f32."""
    if isinstance(x, numpy.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, whose mask would be ignored: pass {name}.data, and mask=~{name}.mask")
    if isinstance(x, numpy.ndarray) or hasattr(x, "__array__"):
        return numpy.asanyarray(x)
    array = numpy.asarray(x)
    return array if keeps_bools and array.dtype == numpy.bool_ else array.astype(_F32)


def _prepared(x: Any, axis: int, mask: Any) -> Tuple[Any, Any, int]:
    """Rows with their axis last, their mask, and the axis."""
    if x.ndim == 0:
        raise ValueError("x is a single number; it must have rows")
    axis = _rows.integer("axis", axis)
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} is out of range: x has {x.ndim} axes")
    return numpy.moveaxis(x, axis, -1), None if mask is None else _as_mask(mask, x.shape, axis), axis


def softmax(x: Any, policy: PolicyLike, axis: int, mask: Any, sink: Any, beta: Any, out: Optional[Any], return_aux: Any) -> Any:
    if mask is None and sink is None and beta is None and out is None and not return_aux and type(x) is numpy.ndarray:
        if x.size < _SMALL and x.dtype is _F32 and x.flags.c_contiguous and x.flags.aligned and x.ndim and axis in (-1, x.ndim - 1):
            return _plain_softmax(x, policy)
    x = _as_array("x", x)
    names = _rows.requested(return_aux)
    rows, masks, axis = _prepared(x, axis, mask)
    if out is None:
        result = numpy.empty(rows.shape, rows.dtype)
        out = numpy.moveaxis(result, -1, axis)
    elif not isinstance(out, numpy.ndarray) or out.shape != x.shape:
        raise ValueError(f"out must be an array of x's shape, {x.shape}")
    elif not out.flags.writeable:
        raise ValueError("out is read-only")
    else:
        result = numpy.moveaxis(out, axis, -1)
    stats = _rows_of(_rows.softmax, rows, policy, masks, sink, beta, result, bool(names))
    return (out, _statistics(stats, names)) if names else out


def _plain_softmax(x: Any, policy: PolicyLike) -> Any:
    """The common case, with little to do besides the call."""
    out = numpy.empty(x.shape, _F32)
    n = x.shape[-1]
    chosen = as_policy(policy)
    request = c.Rows(_rows.ROWS_SIZE, x.size // n if n else 0, n, x.ctypes.data, 0, out.ctypes.data)
    call((chosen,), _rows.softmax, byref(request), chosen.address, None)
    return out


def entropy(x: Any, policy: PolicyLike, axis: int, mask: Any, sink: Any, beta: Any, return_aux: Any) -> Any:
    x = _as_array("x", x)
    names = _rows.requested(return_aux)
    rows, masks, _ = _prepared(x, axis, mask)
    stats = _rows_of(_rows.entropy, rows, policy, masks, sink, beta, None, True)
    result = stats["entropy"]
    return (result, _statistics(stats, names)) if names else result
