"""Attention of numpy arrays that is planned once and run many times, without allocating: for loops and benchmarks."""

from ctypes import byref, sizeof
from typing import Any

import numpy

from . import _declarations as c
from ._library import check, library
from ._policy import PolicyLike, as_policy


class PlannedAttention:
    """A call of whet_attention_forward on the calling thread; calling the object runs it.

    q [heads][queries][dim], k and v [kv heads][keys][dim], out [heads][queries][dim]: contiguous float32 arrays, which are read and
    written each time.
    """

    def __init__(self, q: Any, k: Any, v: Any, out: Any, policy: PolicyLike = "adaptive", scale: float = 0.0,
                 is_causal: bool = False) -> None:
        for name, array in (("q", q), ("k", k), ("v", v), ("out", out)):
            if array.dtype != numpy.float32 or not array.flags.c_contiguous or array.ndim != 3:
                raise ValueError(f"{name} must be a contiguous float32 array of three axes")
        self.arrays, self.policy = (q, k, v, out), as_policy(policy)
        request = c.Attention(size=sizeof(c.Attention), heads=q.shape[0], kv_heads=k.shape[0], queries=q.shape[1], keys=k.shape[1],
                              head_dim=q.shape[2], value_dim=v.shape[2], scale=scale, flags=c.CAUSAL if is_causal else 0,
                              policies=self.policy.address, policy_count=1)
        for place, array in zip((request.q, request.k, request.v, request.out), self.arrays):
            place.data = array.ctypes.data
        self.request = request
        self.plan = c.Plan(size=sizeof(c.Plan))
        check(library.whet_attention_plan(byref(request), byref(self.plan)))
        size = library.whet_attention_memory(byref(self.plan), None)
        self.memory = numpy.empty(size + c.ALIGNMENT, numpy.uint8)
        self.address = self.memory.ctypes.data + -self.memory.ctypes.data % c.ALIGNMENT

    def once(self) -> None:
        """The same by whet_attention_forward, which plans and allocates."""
        check(library.whet_attention_forward(byref(self.request), None, None))

    def __call__(self) -> None:
        check(library.whet_attention_execute(byref(self.plan), None, self.address, None))
