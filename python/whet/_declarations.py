"""The constants, structs and functions of whet.h for ctypes.

Written by tools/declare-python.py: run `make abi` to write it again.
"""

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    Union,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int64,
    c_size_t,
    c_ssize_t,
    c_ubyte,
    c_uint,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Dict, Tuple

VERSION = "0.3.0"

POLY_DEGREE_MAX = 8
ALIGNMENT = 64
PHASES_MAX = 16
OK = 0
NOT_FINITE = 1
ERROR_ARGUMENT = 2
ERROR_OVERFLOW = 3
ERROR_OVERLAP = 4
ERROR_POLICY = 5
ERROR_UNSUPPORTED = 6
ERROR_MEMORY = 7
F32 = 0
F16 = 1
BF16 = 2
Q8_0 = 3
Q4_0 = 4
CUSTOM = 255
ROW_EMPTY = 1
ROW_NOT_FINITE = 2
ROW_CAPPED = 4
POLICY_SOFTMAX = 0
POLICY_FIXED = 1
POLICY_POLY = 2
POLICY_EXP = 3
POLICY_TARGET = 4
POLICY_SSMAX = 5
POLICY_LENGTH = 6
POLICY_LINEAR = 7
POLICY_CUSTOM = 8
POLICY_LLAMA4 = 9
POLICY_HINGE = 10
POLICY_TOPK = 64
POLICY_HARDMAX = 65
POLICY_ENTMAX = 66
POLICY_SOFTMAX1 = 67
POLICY_SIGMOID = 68
POLICY_STICK_BREAKING = 69
POLICY_SOFTPICK = 70
CAUSAL = 1


class Stats(Structure):
    _fields_ = [
        ("n", c_uint64),
        ("max", c_double),
        ("z", c_double),
        ("s", c_double),
        ("logsumexp", c_double),
        ("entropy", c_double),
        ("min", c_double),
        ("argmax", c_uint64),
        ("position", c_int64),
        ("beta", c_double),
        ("entropy_after", c_double),
        ("max_prob", c_double),
        ("sink_share", c_double),
        ("flags", c_uint32),
        ("reserved", c_uint32),
        ("skipped_weight", c_double),
        ("skipped_share", c_double),
    ]


class Rows(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("rows", c_size_t),
        ("n", c_size_t),
        ("in_", c_void_p),
        ("in_stride", c_ssize_t),
        ("out", c_void_p),
        ("out_stride", c_ssize_t),
        ("mask", c_void_p),
        ("mask_stride", c_ssize_t),
        ("stats", c_void_p),
        ("stats_stride", c_size_t),
        ("in_type", c_int),
        ("out_type", c_int),
        ("mask_type", c_int),
        ("reserved", c_uint32),
        ("sink", c_void_p),
        ("sink_stride", c_size_t),
        ("beta", c_void_p),
        ("position", c_int64),
        ("position_stride", c_int64),
    ]


BetaFunction = CFUNCTYPE(c_double, c_void_p, c_void_p, c_void_p)


class Policy(Structure):
    _fields_ = [
        ("temperature", c_uint32),
        ("map", c_uint32),
        ("degree", c_uint32),
        ("reserved", c_uint32),
        ("strength", c_double),
        ("value", c_double * 9),
        ("threshold", c_double),
        ("floor", c_double),
        ("hold", c_double),
        ("map_value", c_double * 2),
        ("function", c_void_p),
        ("context", c_void_p),
        ("reserved_bytes", c_ubyte * 16),
    ]


class PolicyGradient(Structure):
    _fields_ = [
        ("value", c_double * 9),
        ("strength", c_double),
        ("hold", c_double),
        ("map_value", c_double * 2),
        ("reserved", c_double * 3),
    ]


class RowsBackward(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("rows", c_size_t),
        ("n", c_size_t),
        ("in_", c_void_p),
        ("in_stride", c_ssize_t),
        ("mask", c_void_p),
        ("mask_stride", c_ssize_t),
        ("grad_out", c_void_p),
        ("grad_out_stride", c_ssize_t),
        ("grad_in", c_void_p),
        ("grad_in_stride", c_ssize_t),
        ("policy_grad", c_void_p),
        ("in_type", c_int),
        ("mask_type", c_int),
        ("grad_out_type", c_int),
        ("grad_in_type", c_int),
        ("reserved", c_uint32 * 2),
        ("sink", c_void_p),
        ("sink_stride", c_size_t),
        ("grad_sink", c_void_p),
        ("beta", c_void_p),
        ("grad_beta", c_void_p),
        ("position", c_int64),
        ("position_stride", c_int64),
        ("grad_logsumexp", c_void_p),
        ("grad_entropy", c_void_p),
        ("grad_entropy_after", c_void_p),
    ]


class PolicyInfo(Structure):
    _fields_ = [
        ("syntax", c_char_p),
        ("summary", c_char_p),
        ("example", c_char_p),
        ("is_temperature", c_int),
    ]


class Parameter(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("offset", c_size_t),
        ("gradient_offset", c_size_t),
        ("entropy_power", c_uint),
        ("is_learnable", c_int),
    ]


ToF32 = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_void_p)


class Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("stride", c_ssize_t * 4),
        ("to_f32", c_void_p),
        ("context", c_void_p),
        ("type", c_int),
        ("reserved", c_uint32),
    ]


class TensorOut(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("stride", c_ssize_t * 4),
        ("type", c_int),
        ("reserved", c_uint32),
    ]


class Mask(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("stride", c_ssize_t * 4),
        ("type", c_int),
        ("reserved", c_uint32),
    ]


class KeyBias(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("stride", c_ssize_t * 3),
    ]


class KeyBiasOut(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("stride", c_ssize_t * 3),
    ]


class Attention(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("batch", c_size_t),
        ("heads", c_size_t),
        ("kv_heads", c_size_t),
        ("queries", c_size_t),
        ("keys", c_size_t),
        ("head_dim", c_size_t),
        ("value_dim", c_size_t),
        ("q", Tensor),
        ("k", Tensor),
        ("v", Tensor),
        ("out", TensorOut),
        ("scale", c_float),
        ("softcap", c_float),
        ("flags", c_uint32),
        ("skip", c_float),
        ("offset", c_int64),
        ("window", c_size_t),
        ("mask", Mask),
        ("alibi_slopes", c_void_p),
        ("sinks", c_void_p),
        ("policies", c_void_p),
        ("policy_count", c_size_t),
        ("stats", c_void_p),
        ("stats_stride", c_size_t),
        ("bias", KeyBias),
        ("positions", c_void_p),
        ("betas", c_void_p),
        ("max_logits", c_void_p),
    ]


class Gradients(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("attention", Attention),
        ("out", Tensor),
        ("q", TensorOut),
        ("k", TensorOut),
        ("v", TensorOut),
        ("policies", c_void_p),
        ("sinks", c_void_p),
        ("alibi_slopes", c_void_p),
        ("bias", KeyBiasOut),
        ("betas", c_void_p),
        ("logsumexp", c_void_p),
        ("entropy", c_void_p),
        ("entropy_after", c_void_p),
    ]


class Description(Union):
    _fields_ = [
        ("attention", Attention),
        ("gradients", Gradients),
        ("reserved", c_ubyte * 1536),
    ]


class Plan(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("phases", c_uint),
        ("tasks", c_size_t * 16),
        ("scratch_bytes", c_size_t),
        ("workspace_bytes", c_size_t),
        ("workspace", c_void_p),
        ("description", Description),
        ("internal", c_uint64 * 32),
    ]


TaskFunction = CFUNCTYPE(None, c_void_p, c_size_t, c_size_t)


class Executor(Structure):
    _fields_ = [
        ("workers", c_size_t),
        ("parallel_for", c_void_p),
        ("context", c_void_p),
    ]


# name: (result, parameters)
FUNCTIONS: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    "whet_version": (c_char_p, ()),
    "whet_status_text": (c_char_p, (c_int,)),
    "whet_last_error": (c_char_p, ()),
    "whet_type_name": (c_char_p, (c_int,)),
    "whet_type_parse": (c_int, (c_char_p, c_void_p)),
    "whet_type_row_bytes": (c_size_t, (c_int, c_size_t)),
    "whet_stats_empty": (Stats, ()),
    "whet_stats_merge": (None, (c_void_p, c_void_p, c_void_p)),
    "whet_softmax": (c_int, (c_void_p, c_void_p, c_void_p)),
    "whet_entropy": (c_int, (c_void_p, c_void_p, c_void_p)),
    "whet_policy_softmax": (Policy, ()),
    "whet_policy_fixed": (Policy, (c_double,)),
    "whet_policy_adaptive": (Policy, ()),
    "whet_policy_adaptive_hold": (Policy, ()),
    "whet_policy_poly": (Policy, (c_void_p, c_uint, c_double, c_double, c_double)),
    "whet_policy_exp": (Policy, (c_double,)),
    "whet_policy_target": (Policy, (c_double, c_double)),
    "whet_policy_ssmax": (Policy, (c_double, c_double)),
    "whet_policy_ssmax_power": (Policy, (c_double, c_double, c_double)),
    "whet_policy_length": (Policy, (c_double,)),
    "whet_policy_linear": (Policy, (c_double,)),
    "whet_policy_hinge": (Policy, (c_double, c_double, c_double)),
    "whet_policy_llama4": (Policy, (c_double, c_double, c_double)),
    "whet_policy_topk": (Policy, (c_uint64,)),
    "whet_policy_hardmax": (Policy, ()),
    "whet_policy_sparsemax": (Policy, ()),
    "whet_policy_entmax15": (Policy, ()),
    "whet_policy_entmax": (Policy, (c_double,)),
    "whet_policy_softmax1": (Policy, ()),
    "whet_policy_sigmoid": (Policy, (c_double,)),
    "whet_policy_stick_breaking": (Policy, ()),
    "whet_policy_softpick": (Policy, ()),
    "whet_policy_custom": (Policy, (c_void_p, c_void_p)),
    "whet_policy_compose": (Policy, (Policy, Policy)),
    "whet_policy_with_strength": (Policy, (Policy, c_double)),
    "whet_policy_parse": (c_int, (c_char_p, c_void_p, c_void_p, c_size_t)),
    "whet_policy_name": (c_size_t, (c_void_p, c_void_p, c_size_t)),
    "whet_policy_check": (c_int, (c_void_p, c_void_p, c_size_t)),
    "whet_policy_is_temperature": (c_int, (c_void_p,)),
    "whet_policy_beta": (c_double, (c_void_p, c_void_p)),
    "whet_softmax_backward": (c_int, (c_void_p, c_void_p, c_void_p)),
    "whet_policy_table": (POINTER(PolicyInfo), (c_size_t,)),
    "whet_policy_parameters": (c_size_t, (c_void_p, c_void_p, c_size_t)),
    "whet_attention_forward": (c_int, (c_void_p, c_void_p, c_void_p)),
    "whet_attention_backward": (c_int, (c_void_p, c_void_p, c_void_p)),
    "whet_attention_plan": (c_int, (c_void_p, c_void_p)),
    "whet_attention_backward_plan": (c_int, (c_void_p, c_void_p)),
    "whet_attention_run_task": (c_int, (c_void_p, c_uint, c_size_t, c_void_p, c_void_p)),
    "whet_attention_memory": (c_size_t, (c_void_p, c_void_p)),
    "whet_attention_execute": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "whet_pool_create": (c_int, (c_size_t, c_void_p)),
    "whet_pool_destroy": (None, (c_void_p,)),
    "whet_pool_threads": (c_size_t, (c_void_p,)),
    "whet_pool_executor": (Executor, (c_void_p,)),
    "whet_isa": (c_char_p, ()),
    "whet_isa_check": (c_int, ()),
}
