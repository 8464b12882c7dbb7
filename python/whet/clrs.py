"""CLRS-Text: textbook algorithms as questions and answers, by the program `whet`."""

import json
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from . import _program

_ENDLESS = 1 << 62


def algorithms() -> List[str]:
    """The names of the algorithms."""
    return _program.run("clrs", "list", "--names").decode().split()


def generate(algos_and_lengths: Mapping[str, Sequence[int]], num_samples: Optional[int] = None, use_hints: bool = False, seed: int = 0,
             decimals: Union[int, str] = 3, ties: str = "scalar") -> Iterator[Dict[str, Any]]:
    """Yields samples as the generator of google-deepmind/clrs for Hugging Face's datasets does, the same ones in the same order.

    algos_and_lengths  lengths of the instances of each algorithm, such as {"insertion_sort": [8, 16], "bfs": [4]}
    num_samples        how many; None: without end
    use_hints          whether answers include the steps
    seed               0 to 4,294,967,295
    decimals           that numbers are truncated to; "none" keeps all digits
    ties               how equal keys are ordered: "scalar" or "simd", as numpy's plain or vector code does

    A sample is {"text", "question", "answer", "algo_name", "length", "use_hints"}; text is question and answer.
    """
    for name, lengths in algos_and_lengths.items():
        if isinstance(lengths, (int, str)):
            raise TypeError(f"{name}: lengths are a list such as [4, 8], not {lengths!r}")
    # A temporary file, since the iterator may outlive this call.
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as spec:
        json.dump({name: list(lengths) for name, lengths in algos_and_lengths.items()}, spec, default=int)
        spec.flush()
        options = {"spec": spec.name, "count": _ENDLESS if num_samples is None else num_samples, "seed": seed, "hints": use_hints,
                   "decimals": decimals, "ties": ties}
        if num_samples == 0:
            return
        for line in _program.lines("clrs", "mix", *_program.as_options(options)):
            record = json.loads(line)
            yield {"text": record["question"] + record["answer"], "question": record["question"], "answer": record["answer"],
                   "algo_name": record["algo"], "length": record["length"], "use_hints": record["use_hints"]}
