"""Max-retrieval heads that `whet retrieval train` left in a folder."""

import json
import os
import pathlib
import re
import struct
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

_MAGIC = b"WHETCKPT"
_Path = Union[str, "os.PathLike[str]"]


class Head(NamedTuple):
    """A trained head.

    weights  float32 arrays by name. psi_x.0.weight [1 + classes][width] takes an item's priority and the one-hot of its class,
             psi_q.0.weight [1][width] the query; psi_x.i, psi_q.i and phi.i have weight [in][out] and bias [out]; w_q, w_k and
             w_v are [width][width]; scale is a number. Hidden layers end in gelu (tanh form); logits are
             scale (w_q psi_q) . (w_k psi_x) / sqrt(width)
    config   what it was trained with: depth, width, classes, policy, precision ...
    step     how long
    """

    weights: Dict[str, Any]
    config: Dict[str, Any]
    step: int


def seeds(folder: _Path) -> List[int]:
    """The seeds of the heads in a folder."""
    found = (re.fullmatch(r"seed-(\d+)\.ckpt", name) for name in os.listdir(folder))
    return sorted(int(match.group(1)) for match in found if match)


def load(folder: _Path, seed: Optional[int] = None) -> Head:
    """The head of that seed in a folder of `whet retrieval train`; by default the one with the lowest. Also takes a checkpoint."""
    path = pathlib.Path(folder)
    if path.is_dir():
        known = seeds(path)
        chosen = (known or [None])[0] if seed is None else seed  # type: ignore[list-item]
        if chosen not in known:
            raise ValueError(f"{path}: no head" + (f" of seed {seed}; there are {known}" if known else "s: no seed-N.ckpt"))
        path = path / f"seed-{chosen}.ckpt"
    config, step, values = _checkpoint(path)
    if config.get("model") != "max-retrieval":
        raise ValueError(f"{path}: a checkpoint of {config.get('model')!r}, not of max-retrieval")
    return Head(_weights(path, config, values), config, step)


def _checkpoint(path: pathlib.Path) -> Tuple[Dict[str, Any], int, Any]:
    """Description, step and floats of a checkpoint; lab/nn/checkpoint.h has the format."""
    import numpy

    data = path.read_bytes()
    if data[:8] != _MAGIC:
        raise ValueError(f"{path}: not a checkpoint")
    if len(data) < 16:
        raise ValueError(f"{path}: damaged checkpoint: its size is wrong")
    version, length = struct.unpack_from("<II", data, 8)
    if version != 1:
        raise ValueError(f"{path}: a checkpoint of version {version}; this package reads 1")
    end = 16 + length
    if len(data) < end + 24 or len(data) != end + 24 + 4 * struct.unpack_from("<Q", data, end + 8)[0]:
        raise ValueError(f"{path}: damaged checkpoint: its size is wrong")
    if _fnv1a(data[:-8]) != struct.unpack("<Q", data[-8:])[0]:
        raise ValueError(f"{path}: damaged checkpoint: its checksum is wrong")
    step, count = struct.unpack_from("<QQ", data, end)
    return json.loads(data[16:end]), step, numpy.frombuffer(data, "<f4", count, end + 16)


def _fnv1a(data: bytes) -> int:
    result = 0xCBF29CE484222325
    for byte in data:
        result = ((result ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return result


def _weights(path: pathlib.Path, config: Dict[str, Any], values: Any) -> Dict[str, Any]:
    """Weights, then Adam's two moments, share the array: the first third is taken apart in the order of lab/retrieval/model.c."""
    import numpy

    depth, width, classes = config["depth"], config["width"], config["classes"]
    at = 0

    def take(*shape: int) -> Any:
        """The next array; each begins at a multiple of 16 floats."""
        nonlocal at
        count = int(numpy.prod(shape))
        array = values[at:at + count]
        if array.size != count:
            raise ValueError(f"{path}: damaged checkpoint: {values.size} weights are too few")
        at += (count + 15) // 16 * 16
        return array.reshape(shape).copy()

    weights: Dict[str, Any] = {}

    def take_layer(name: str, rows: int, columns: int) -> None:
        weights[f"{name}.weight"] = take(rows, columns)
        weights[f"{name}.bias"] = take(columns)

    slope = take(1, width)
    weights["psi_x.0.weight"] = numpy.concatenate([slope, take(classes, width)])
    weights["psi_x.0.bias"] = take(width)
    for layer in range(depth):
        take_layer(f"psi_x.{layer + 1}", width, width)
    weights["psi_q.0.weight"], weights["psi_q.0.bias"] = take(1, width), take(width)
    for layer in range(depth):
        take_layer(f"psi_q.{layer + 1}", width, width)
    for name in ("w_q", "w_k", "w_v"):
        weights[name] = take(width, width)
    for layer in range(depth):
        take_layer(f"phi.{layer}", width, width)
    take_layer(f"phi.{depth}", width, classes)
    weights["scale"] = take(1)[0]
    if values.size != 3 * at:
        raise ValueError(f"{path}: damaged checkpoint: {values.size} weights where its model has {3 * at}")
    return weights
