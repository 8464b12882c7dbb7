"""Rows of arrays with any strides, as calls of the library; numpy and torch share this.

The library takes rows of contiguous values with one distance between rows. The leading axes of an array are merged into
such calls as far as the strides of all arrays of the call allow, and the rest is a loop.
"""

import itertools
import operator
from ctypes import byref, sizeof
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import _declarations as c
from . import _threads
from ._library import library
from ._policy import Policy, call

# Names of statistics, and the fields of whet_stats that hold them.
STATISTICS = {"entropy": "entropy", "entropy_after": "entropy_after", "beta": "beta", "lse": "logsumexp", "max": "max",
              "argmax": "argmax", "max_prob": "max_prob", "sink_share": "sink_share",
              "skipped_weight": "skipped_weight", "skipped_share": "skipped_share"}

ROWS_SIZE = sizeof(c.Rows)
STATS_SIZE = sizeof(c.Stats)
# Rather than in pieces of fewer values, an array is copied and passed as a whole.
SMALL_CALL = 4096
ROWS_OF_FUNCTION = 4096


class Aux(dict):  # type: ignore[type-arg]
    """A dict of statistics by name; `aux.entropy` is `aux["entropy"]`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{name} is not in return_aux") from None


def requested(return_aux: Any) -> Tuple[str, ...]:
    """The names in `return_aux`, which may be one name."""
    names = (return_aux,) if isinstance(return_aux, str) else tuple(return_aux)
    for name in names:
        if name not in STATISTICS:
            raise ValueError(f"return_aux: unknown statistic {name!r}; there are {', '.join(STATISTICS)}")
    return names


def integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, which cannot be taken as an integer") from None


class View(NamedTuple):
    """An array in memory. The last stride is that of the row's axis; arrays with one value a row have none."""

    address: int
    kind: int
    itemsize: int
    strides: Tuple[int, ...]


def has_rows(shape: Sequence[int], strides: Sequence[int], itemsize: int, address: int, may_repeat: bool = False) -> bool:
    """Whether the values of each row are contiguous, and rows at whole elements from each other."""
    if address % itemsize or (shape[-1] > 1 and strides[-1] != itemsize):
        return False
    return all(size <= 1 or (stride % itemsize == 0 and (may_repeat or stride != 0)) for size, stride in zip(shape[:-1], strides[:-1]))


def merged(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> Tuple[List[int], List[List[int]]]:
    """Leading axes with neighbours merged where every array allows it: sizes, and each array's strides."""
    sizes: List[int] = []
    steps: List[List[int]] = [[] for _ in strides]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        if sizes and all(step[-1] == stride[axis] * size for step, stride in zip(steps, strides)):
            sizes[-1] *= size
            for step, stride in zip(steps, strides):
                step[-1] = stride[axis]
        else:
            sizes.append(size)
            for step, stride in zip(steps, strides):
                step.append(stride[axis])
    return sizes, steps


def pieces(shape: Sequence[int], views: Sequence[Optional[View]]) -> Tuple[int, List[int], Iterator[Tuple[int, ...]]]:
    """How to call: the rows of each call, each array's bytes from row to row, and the addresses of each call's arrays."""
    present = [view for view in views if view is not None]
    sizes, steps = merged(shape, [view.strides[:len(shape)] for view in present])
    rows = sizes.pop() if sizes else 1
    inner = iter([step.pop() if step else 0 for step in steps])
    strides = [0 if view is None else next(inner) for view in views]

    def addresses() -> Iterator[Tuple[int, ...]]:
        for index in itertools.product(*map(range, sizes)):
            offsets = iter([sum(i * s for i, s in zip(index, step)) for step in steps])
            yield tuple(0 if view is None else view.address + next(offsets) for view in views)

    return rows, strides, addresses()


def is_in_pieces(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> bool:
    """Whether [..., n] arrays had better be copied: they would take many small calls."""
    sizes, _ = merged(shape[:-1], [stride[:-1] for stride in strides])
    return len(sizes) > 1 and sizes[-1] * shape[-1] < SMALL_CALL


def compute(function: Any, policy: Policy, shape: Sequence[int], n: int, threads: int, x: View, out: Optional[View] = None,
            mask: Optional[View] = None, sink: Optional[View] = None, beta: Optional[View] = None,
            stats: Optional[View] = None, *, keep: Any = None) -> None:
    """Calls whet_softmax or whet_entropy on arrays of leading shape `shape`, on up to that many threads. `keep` is what the views
    are of: if Ctrl-C ends the wait for other threads, they still hold it."""
    rows, strides, places = pieces(shape, (x, out, mask, sink, beta, stats))
    if rows == 0:
        return
    if policy.is_function:
        # One thread runs Python at a time anyway. After each part it may raise what a row raised, or Ctrl-C.
        parts = [range(first, min(first + ROWS_OF_FUNCTION, rows)) for first in range(0, rows, ROWS_OF_FUNCTION)]
    else:
        parts = _threads.shares(rows, n, threads)
    for place in places:
        def compute_part(part: range, place: Tuple[int, ...] = place, _: Any = keep) -> None:
            request = c.Rows()
            request.size, request.rows, request.n = ROWS_SIZE, len(part), n
            request.in_type, request.in_stride = x.kind, strides[0] // x.itemsize
            if out is not None:
                request.out_type, request.out_stride = out.kind, strides[1] // out.itemsize
            if mask is not None:
                request.mask_type, request.mask_stride = mask.kind, strides[2] // mask.itemsize
            request.sink_stride, request.stats_stride = strides[3] // 4, strides[5]
            request.in_, request.out, request.mask, request.sink, request.beta, request.stats = (
                address and address + part.start * stride for address, stride in zip(place, strides))
            call((policy,), function, byref(request), policy.address, None)

        if policy.is_function:
            for part in parts:
                compute_part(part)
        else:
            _threads.run(compute_part, parts, threads)


softmax = library.whet_softmax
entropy = library.whet_entropy
