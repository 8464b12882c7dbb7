"""`whet probe` as arrays: what the heads of a language model do as its input grows."""

import json
import os
from typing import Any, Dict, List, NamedTuple, Sequence, Union

from . import _program

MEASURES = ("entropy", "entropy_after", "beta", "largest_weight", "spread", "mean_entropy", "mean_entropy_after", "widest_spread",
            "sink_share")


class Probe(NamedTuple):
    """A probe's recording.

    policies    their names
    sizes       numbers in a sequence, or tokens of the text: [sizes]
    tokens      of the prompt, mean over its sequences: [sizes]
    measures    arrays [policies][sizes][layers][heads] by name: entropy, entropy_after, beta, largest_weight, spread and
                sink_share of the last position, mean_entropy, mean_entropy_after and widest_spread over all that were recorded;
                NaN where a layer has no such head
    right       share of right answers: [policies][sizes]; NaN where nothing was asked
    perplexity  [policies]; NaN where it was not measured
    about       everything else that the program reports
    """

    policies: List[str]
    sizes: Any
    tokens: Any
    measures: Dict[str, Any]
    right: Any
    perplexity: Any
    about: Dict[str, Any]


def probe(model: Union[str, "os.PathLike[str]"], policy: Union[str, Sequence[str]] = ("softmax", "adaptive"), **options: Any) -> Any:
    """Runs a language model on growing input and returns what each of its heads did.

    model    a GGUF file, which llama.cpp runs with the plug-in; or a recording of the plug-in (WHET_STATS, .csv), of which the
             result is an array for each column
    policy   names of the policies to run with
    options  of `whet probe`: sizes=[8, 64], count=4, layers="3-4", prompt="...", llama="folder of libllama", ...
    """
    if os.fspath(model).endswith(".csv"):
        return _recording(os.fspath(model))
    names = [policy] if isinstance(policy, str) else list(policy)
    arguments = [f"--policy={name}" for name in names] + _program.as_options(options)
    return _arrays(json.loads(_program.run("probe", "--quiet", "--json=-", *arguments, "--", os.fspath(model))))


def _arrays(found: Dict[str, Any]) -> Probe:
    import numpy

    runs = found.pop("policies")
    heads = 1 + max(head["head"] for run in runs for head in run["heads"])
    shape = (len(runs), len(found["sizes"]), found["layers"], heads)
    names = MEASURES + (("beta_called_for",) if "deltas" in found else ())
    measures = {name: numpy.full(shape, numpy.nan) for name in names}
    for i, run in enumerate(runs):
        for head in run["heads"]:
            for name in [name for name in names if name in head]:
                measures[name][i, :, head["layer"], head["head"]] = [numpy.nan if x is None else x for x in head[name]]
    right = [[answer["right"] / answer["asked"] if answer["asked"] else numpy.nan for answer in run.get("answers") or []] for run in runs]
    perplexity = [numpy.nan if run["perplexity"] is None else run["perplexity"] for run in runs]
    return Probe([run["policy"] for run in runs], numpy.array(found.pop("sizes")), numpy.array(found.pop("tokens")), measures,
                 numpy.array(right), numpy.array(perplexity), found)


def _recording(path: str) -> Dict[str, Any]:
    """Columns of the plug-in's file: evaluation, layer, head, position and keys are integers, largest_keys and gaps texts as
    llama/record.h describes them, the others floats."""
    import numpy

    with open(path, encoding="ascii", errors="replace") as file:
        names = file.readline().strip().split(",")
        if names[:3] != ["evaluation", "layer", "head"]:
            raise ValueError(f"{path}: not a recording: its first line names no evaluation, layer and head")
        texts = [name for name in names if name in ("largest_keys", "gaps")]
        start = file.tell()
        has_rows = file.read(1) != ""
        file.seek(start)
        lines = [line.rstrip("\n").split(",") for line in file] if texts else []
        rows = (numpy.array([line[:-len(texts)] for line in lines], dtype=float) if texts or not has_rows
                else numpy.loadtxt(file, delimiter=",", ndmin=2))
    whole = {"evaluation", "layer", "head", "position", "keys"}
    columns = rows.reshape(-1, len(names) - len(texts)).T
    details = {name: [line[names.index(name)] for line in lines] for name in texts}
    return {**details, **{name: column.astype(numpy.int64) if name in whole else column.copy() for name, column in zip(names, columns)}}
