# needs: pytest numpy torch
"""The examples of the package run, and print what they should."""

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(os.environ["WHET_SOURCE_DIR"]) / "python/examples"


def run(name, *arguments, cwd=None):
    done = subprocess.run([sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_has_a_test():
    assert {path.name for path in EXAMPLES.iterdir()} - {"__pycache__"} == {
        "curves.py", "dispersion.py", "numpy_only.py", "train_transformer.py", "whet.ipynb"}


def test_numpy_only():
    rows = [line.split() for line in run("numpy_only.py").splitlines()[1:5]]
    weights = {int(row[0]): [float(x) for x in row[1:4]] for row in rows}
    # softmax disperses; the paper's rule helps up to the end of its polynomial, ssmax beyond.
    assert weights[65536][0] < 0.01 and weights[256][1] > 0.99 and weights[65536][2] > 0.95


@pytest.mark.parametrize("example, pictures", [("dispersion.py", ["dispersion.svg"]), ("curves.py", ["sharpening.svg", "polynomial.svg"])])
def test_examples_draw_the_pictures_of_the_documents(example, pictures, tmp_path):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    run(example, *pictures, cwd=tmp_path)
    for name in pictures:
        drawn, kept = (path.read_text() for path in (tmp_path / name, EXAMPLES.parents[1] / "docs" / name))
        labels = [re.findall(r"<!-- (.*?) -->", text) for text in (drawn, kept)]
        assert len(labels[0]) > 8 and labels[0] == labels[1]


def test_a_transformer_learns_with_policies_of_its_own():
    output = run("train_transformer.py", "--steps", "12", "--sizes", "16", "32")
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", output)]
    assert len(losses) == 6 and losses[-1] < losses[0]
    assert output.count("ssmax:") == 4 and len(re.findall(r"^ +(?:16|32) +0\.\d+ +0\.\d+$", output, re.M)) == 2


def test_the_notebook_prints_what_it_shows():
    cells = json.loads((EXAMPLES / "whet.ipynb").read_text())["cells"]
    space, count = {}, 0
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), space)
        shown = "".join(line for output in cell["outputs"] for line in output["text"])
        assert numbers_agree(printed.getvalue(), shown), printed.getvalue()
        count += 1
    assert count == 3


def numbers_agree(printed, shown):
    """Equal but for the last digit of numbers: instruction sets and versions of torch differ there."""
    number = r"-?\d+\.\d+"
    if re.split(number, printed) != re.split(number, shown):
        return False
    return all(abs(float(a) - float(b)) <= 0.011 for a, b in zip(re.findall(number, printed), re.findall(number, shown)))
