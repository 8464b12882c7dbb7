"""Softmax and attention that stay sharp as their input grows.

    >>> import numpy, whet
    >>> x = numpy.array([1, 2, 3, 4], numpy.float32)
    >>> whet.softmax(x, "adaptive").round(4)
    array([0.0202, 0.0657, 0.2145, 0.6996], dtype=float32)

Arrays of numpy and tensors of torch on the CPU go to the library as they are, without copies where their layout allows.
The library (libwhet) is part of the wheel; without it, an installed one is found.
"""

import importlib
import sys
from typing import Any, List, Optional, Sequence, Union

from ._declarations import VERSION as __version__
from ._fit import fit_polynomial
from ._library import DtypeError, PolicyError, isa, version
from ._policy import Policy, PolicyInfo, PolicyLike, RowStatistics, policies
from ._probe import Probe, probe
from ._rows import Aux

__all__ = ["Aux", "DtypeError", "Policy", "PolicyError", "PolicyInfo", "Probe", "RowStatistics", "attention", "entropy",
           "fit_polynomial", "isa", "policies", "probe", "softmax", "version"]

_MODULES = ("clrs", "gguf", "retrieval", "torch", "transformers")


def _backend(x: Any) -> Any:
    """The module that computes with x: tensors are torch's, anything else goes to numpy."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return importlib.import_module("whet.torch")
    try:
        return importlib.import_module("whet._numpy")
    except ImportError:
        raise ImportError("whet needs numpy for arrays (apt-get install python3-numpy, or pip install numpy)") from None


def softmax(x: Any, policy: PolicyLike = "adaptive", axis: int = -1, mask: Any = None, sink: Any = None, beta: Any = None,
            out: Any = None, return_aux: Union[str, Sequence[str]] = ()) -> Any:
    """Normalises the rows of an array under a policy.

    x           logits, any shape [..., n, ...]: float32, float16, or bfloat16 (numpy: as uint16 or ml_dtypes'). Any strides;
                rows whose values are contiguous are read in place, others are copied. A tensor of torch gives tensors, with
                gradients through the policy
    policy      a name such as "adaptive" or "target:2+entmax15", a `Policy`, or a function of `RowStatistics`; for tensors
                also a `whet.torch.Policy`
    axis        the axis of the rows
    mask        added to the logits, broadcast to x: float32 or float16, -inf masks; or bool, True where an entry takes part
    sink        an additional logit that takes part in entropy and normalisation and has no place in the result; broadcast to
                the shape of x without the axis
    beta        the inverse temperature instead of the policy's, likewise, below 0 as 0; the policy must be "softmax" or a map then
    out         where to write the result, of x's shape: may be x; its type may differ (numpy only)
    return_aux  names of statistics to return besides: "entropy" (of softmax(x), in nats), "entropy_after" (of the result),
                "beta", "lse" (log-sum-exp), "max", "argmax" (-1 if all is masked), "max_prob", "sink_share" (the first
                entry's coefficient)

    Returns the result, or (result, aux), where aux has an array for each name, of x's shape without the axis: float64 and
    int64 for numpy, float32 and int64 for torch. Rows with NaN or +inf give NaN; rows in which all is masked give zeros.
    """
    return _backend(x).softmax(x, policy, axis, mask, sink, beta, out, return_aux)


def entropy(x: Any, policy: PolicyLike = "softmax", axis: int = -1, mask: Any = None, sink: Any = None, beta: Any = None,
            return_aux: Union[str, Sequence[str]] = ()) -> Any:
    """The entropy of softmax(x) along an axis, in nats, without computing probabilities.

    The arguments are those of `softmax`. A policy matters to what `return_aux` names only ("beta", "entropy_after" ...).
    Returns an array of x's shape without the axis, or that and aux.
    """
    return _backend(x).entropy(x, policy, axis, mask, sink, beta, return_aux)


def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, is_causal: bool = False, scale: Optional[float] = None,
              enable_gqa: bool = False, *, policy: Any = "adaptive", window: Optional[int] = None, softcap: Optional[float] = None,
              sinks: Any = None, bias: Any = None, beta: Any = None, skip: float = 0, offset: int = 0, dropout_p: float = 0.0,
              return_aux: Union[str, Sequence[str]] = ()) -> Any:
    """Attention of torch's tensors, with the names, shapes and broadcasting of scaled_dot_product_attention.

    query       [..., heads, queries, dim]: float32, float16 or bfloat16, any strides; dim at most 576
    key, value  [..., heads, keys, dim] and [..., heads, keys, value dim], of the same type
    attn_mask   broadcast to [..., heads, queries, keys]: bool, True where a key takes part; or added to the logits
    is_causal   query i sees keys j <= i + offset
    scale       of the logits; default 1 / sqrt(dim)
    enable_gqa  several query heads share a key head
    policy      a name, a `whet.Policy`, a `whet.torch.Policy` (trained), or a list with one for each query head
    window      query i sees keys with |i + offset - j| < window; None or 0: all keys
    softcap     c: replaces a logit x by c tanh(x / c)
    sinks       an additional logit for each query head, without a value: [heads]
    bias        added to the logits of each key: broadcast to [..., heads, keys]
    beta        the inverse temperature instead of the policy's: broadcast to [..., heads, queries]
    skip        weight of values that each row may leave out to save time, 0 to below 1: outputs move by at most 2 skip max|V|.
                On other devices than the CPU nothing is left out
    offset      position of query 0 among the keys; when decoding with a cache, keys - queries
    dropout_p   of the weights; other than 0 it takes the composed path, with memory quadratic in the length
    return_aux  names of statistics, as in `softmax`: arrays [..., heads, queries]

    Returns the output [..., heads, queries, value dim], or (output, aux). Gradients go to query, key, value, sinks, bias, beta and a
    trained policy, and come from the output and from the statistics lse, entropy and entropy_after. A query that sees no key
    gets zeros.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(query, torch.Tensor):
        raise TypeError(f"query is a {type(query).__name__}; attention takes tensors of torch")
    return importlib.import_module("whet.torch").attention(
        query, key, value, attn_mask, is_causal, scale, enable_gqa, policy=policy, window=window, softcap=softcap, sinks=sinks,
        bias=bias, beta=beta, skip=skip, offset=offset, dropout_p=dropout_p, return_aux=return_aux)


def __getattr__(name: str) -> Any:
    """Modules are imported when they are used: whet.torch needs torch, whet.clrs a program."""
    if name in _MODULES:
        return importlib.import_module(f"whet.{name}")
    raise AttributeError(f"module 'whet' has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted([*globals(), *_MODULES])
