"""The structs of whet.h for ctypes, in one place; tests/bench/test_structs.py compares them with the header.

A class describes the structs that its `whet` names. Fields have the same names as in C, except `in`, a keyword in Python,
which is `input`.
"""

from ctypes import (POINTER, Structure, Union, c_double, c_float, c_int, c_int64, c_size_t, c_ssize_t, c_ubyte, c_uint, c_uint32,
                    c_uint64, c_void_p)

F32, F16, BF16 = 0, 1, 2
CAUSAL = 1
PHASES_MAX = 16


class Stats(Structure):
    whet = ("whet_stats",)
    _fields_ = [("n", c_uint64)] + [
        (name, c_double)
        for name in ("max", "z", "s", "logsumexp", "entropy", "min")
    ] + [("argmax", c_uint64), ("position", c_int64)] + [
        (name, c_double)
        for name in ("beta", "entropy_after", "max_prob", "sink_share")
    ] + [("flags", c_uint32), ("reserved", c_uint32)]


class Rows(Structure):
    whet = ("whet_rows",)
    _fields_ = [
        ("size", c_size_t), ("rows", c_size_t), ("n", c_size_t),
        ("input", c_void_p), ("in_stride", c_ssize_t),
        ("out", c_void_p), ("out_stride", c_ssize_t),
        ("mask", c_void_p), ("mask_stride", c_ssize_t),
        ("stats", POINTER(Stats)), ("stats_stride", c_size_t),
        ("in_type", c_int), ("out_type", c_int), ("mask_type", c_int), ("reserved", c_uint32),
        ("sink", c_void_p), ("sink_stride", c_size_t), ("beta", c_void_p),
        ("position", c_int64), ("position_stride", c_int64),
    ]


class Policy(Structure):
    whet = ("whet_policy",)
    _fields_ = [
        ("temperature", c_uint32), ("map", c_uint32), ("degree", c_uint32), ("reserved", c_uint32),
        ("strength", c_double), ("value", c_double * 9),
        ("threshold", c_double), ("floor", c_double), ("hold", c_double), ("map_value", c_double * 2),
        ("function", c_void_p), ("context", c_void_p), ("reserved_bytes", c_ubyte * 16),
    ]


class PolicyGradient(Structure):
    whet = ("whet_policy_gradient",)
    _fields_ = [
        ("value", c_double * 9), ("strength", c_double), ("hold", c_double), ("map_value", c_double * 2),
        ("reserved", c_double * 3),
    ]


class RowsBackward(Structure):
    whet = ("whet_rows_backward",)
    _fields_ = [
        ("size", c_size_t), ("rows", c_size_t), ("n", c_size_t),
        ("input", c_void_p), ("in_stride", c_ssize_t),
        ("mask", c_void_p), ("mask_stride", c_ssize_t),
        ("grad_out", c_void_p), ("grad_out_stride", c_ssize_t),
        ("grad_in", c_void_p), ("grad_in_stride", c_ssize_t),
        ("policy_grad", POINTER(PolicyGradient)),
        ("in_type", c_int), ("mask_type", c_int), ("grad_out_type", c_int), ("grad_in_type", c_int),
        ("reserved", c_uint32 * 2),
        ("sink", c_void_p), ("sink_stride", c_size_t), ("grad_sink", c_void_p),
        ("beta", c_void_p), ("grad_beta", c_void_p),
        ("position", c_int64), ("position_stride", c_int64),
        ("grad_logsumexp", c_void_p), ("grad_entropy", c_void_p), ("grad_entropy_after", c_void_p),
    ]


class Tensor(Structure):
    whet = ("whet_tensor",)
    _fields_ = [
        ("data", c_void_p), ("stride", c_ssize_t * 4), ("to_f32", c_void_p), ("context", c_void_p),
        ("type", c_int), ("reserved", c_uint32),
    ]


class Place(Structure):
    """Two structs with the same fields."""

    whet = ("whet_tensor_out", "whet_mask")
    _fields_ = [("data", c_void_p), ("stride", c_ssize_t * 4), ("type", c_int), ("reserved", c_uint32)]


class KeyBias(Structure):
    """Two structs with the same fields."""

    whet = ("whet_key_bias", "whet_key_bias_out")
    _fields_ = [("data", c_void_p), ("stride", c_ssize_t * 3)]


class Attention(Structure):
    whet = ("whet_attention",)
    _fields_ = [(name, c_size_t) for name in (
        "size", "batch", "heads", "kv_heads", "queries", "keys", "head_dim", "value_dim")] + [
        ("q", Tensor), ("k", Tensor), ("v", Tensor), ("out", Place),
        ("scale", c_float), ("softcap", c_float), ("flags", c_uint32), ("reserved", c_uint32),
        ("offset", c_int64), ("window", c_size_t), ("mask", Place),
        ("alibi_slopes", c_void_p), ("sinks", c_void_p), ("policies", c_void_p), ("policy_count", c_size_t),
        ("stats", POINTER(Stats)), ("stats_stride", c_size_t),
        ("bias", KeyBias), ("positions", c_void_p), ("betas", c_void_p), ("max_logits", c_void_p),
    ]


class Gradients(Structure):
    whet = ("whet_gradients",)
    _fields_ = [
        ("size", c_size_t), ("attention", Attention), ("out", Tensor), ("q", Place), ("k", Place), ("v", Place),
        ("policies", c_void_p), ("sinks", c_void_p), ("alibi_slopes", c_void_p),
        ("bias", KeyBias), ("betas", c_void_p),
        ("logsumexp", c_void_p), ("entropy", c_void_p), ("entropy_after", c_void_p),
    ]


class Description(Union):
    """Part of a plan; it has no name in whet.h."""

    whet = ()
    _fields_ = [("attention", Attention), ("gradients", Gradients), ("reserved", c_ubyte * 1536)]


class Plan(Structure):
    whet = ("whet_plan",)
    _fields_ = [
        ("size", c_size_t), ("phases", c_uint), ("tasks", c_size_t * PHASES_MAX), ("scratch_bytes", c_size_t), ("workspace_bytes", c_size_t),
        ("workspace", c_void_p), ("description", Description), ("internal", c_uint64 * 32),
    ]


ALL = (Stats, Rows, Policy, PolicyGradient, RowsBackward, Tensor, Place, KeyBias, Attention, Gradients, Plan)
