"""Tensors of GGUF files as float32 arrays, of every type that the program `whet` reads."""

import io
import json
import os
from collections.abc import Mapping
from typing import Any, Dict, Iterator, NamedTuple, Tuple, Union

from . import _program


class TensorInfo(NamedTuple):
    """What a file says of a tensor."""

    type: str
    shape: Tuple[int, ...]
    readable: bool


class Tensors(Mapping):  # type: ignore[type-arg]
    """The tensors of a file by name. Each is read when it is asked for: [...][rows][columns], float32."""

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self.path = os.fspath(path)
        listed = json.loads(_program.run("gguf", "--json=-", "--", self.path))
        self.info: Dict[str, TensorInfo] = {
            entry["name"]: TensorInfo(entry["type"], tuple(entry["shape"]), entry["readable"]) for entry in listed}

    def __getitem__(self, name: str) -> Any:
        import numpy

        if name not in self.info:
            raise KeyError(name)
        return numpy.load(io.BytesIO(_program.run("gguf", f"--tensor={name}", "--out=-", "--", self.path)))

    def __iter__(self) -> Iterator[str]:
        return iter(self.info)

    def __len__(self) -> int:
        return len(self.info)

    def __repr__(self) -> str:
        return f"<{len(self)} tensors of {self.path}>"


def tensors(path: Union[str, "os.PathLike[str]"]) -> Tensors:
    """The tensors of a GGUF file: a mapping from names to float32 arrays, whatever type they are stored in.

    `tensors(path).info` has the types and shapes without reading the data.
    """
    return Tensors(path)
