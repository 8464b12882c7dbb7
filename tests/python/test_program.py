# needs: pytest numpy
"""What the package takes from the program: CLRS-Text, max-retrieval heads, tensors of GGUF files, probes of models."""

import itertools
import json
import math
import os
import shutil
import struct
import subprocess

import numpy as np
import pytest
import whet

PROGRAM = os.environ.get("WHET_BIN") or pytest.skip("the program is not built", allow_module_level=True)


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setenv("WHET_PROGRAM", PROGRAM)


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    if "no BLAS" in done.stderr:
        pytest.skip("needs libopenblas0")
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- CLRS-Text ----


def test_samples_are_those_of_the_reference():
    sample, = whet.clrs.generate({"insertion_sort": [5]}, num_samples=1)
    assert sample == {
        "text": "insertion_sort:\nkey: [0.548 0.715 0.602 0.544 0.423]\npred:\n[0.423 0.544 0.548 0.602 0.715]\n\n",
        "question": "insertion_sort:\nkey: [0.548 0.715 0.602 0.544 0.423]\npred:\n",
        "answer": "[0.423 0.544 0.548 0.602 0.715]\n\n", "algo_name": "insertion_sort", "length": 5, "use_hints": False}


def test_mixtures_hints_and_endless_streams(tmp_path):
    mixture = {"bfs": [4, 8], "minimum": [6]}
    endless = whet.clrs.generate(mixture, use_hints=True, seed=7)
    some = list(itertools.islice(endless, 20))
    endless.close()
    assert some == list(whet.clrs.generate(mixture, 20, True, 7))
    assert {(s["algo_name"], s["length"]) for s in some} == {("bfs", 4), ("bfs", 8), ("minimum", 6)}
    (tmp_path / "mix.json").write_text(json.dumps(mixture))
    printed = run("clrs", "mix", "--spec", tmp_path / "mix.json", "--seed", 7, "--count", 20, "--hints").splitlines()
    assert [s["question"] for s in some] == [json.loads(line)["question"] for line in printed]
    assert list(whet.clrs.generate(mixture, 0)) == []
    assert list(whet.clrs.generate({"bfs": np.array([4, 8]), "minimum": [6]}, 20, True, 7)) == some
    assert len(whet.clrs.algorithms()) == 30 and "bfs" in whet.clrs.algorithms()


def test_the_program_s_refusals_are_exceptions():
    with pytest.raises(ValueError, match="bfz"):
        next(whet.clrs.generate({"bfz": [4]}))
    with pytest.raises(TypeError, match=r"bfs: lengths are a list such as \[4, 8\], not 4"):
        next(whet.clrs.generate({"bfs": 4}))
    with pytest.raises(ValueError, match="no such file"):
        whet.gguf.tensors("/nowhere.gguf")


def test_a_missing_program_is_reported(monkeypatch, tmp_path):
    from whet import _library, _program

    monkeypatch.delenv("WHET_PROGRAM")
    monkeypatch.setattr(_library, "path", "libwhet.so.0.3")
    monkeypatch.setattr(_library, "HERE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="set WHET_PROGRAM"):
        _program.find()
    (tmp_path / "whet").symlink_to(PROGRAM)
    assert _program.find() == str(tmp_path / "whet")
    (tmp_path / "lib").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(PROGRAM, tmp_path / "bin" / "whet")
    monkeypatch.setattr(_library, "path", str(tmp_path / "lib" / "libwhet.so"))
    assert _program.find() == str(tmp_path / "bin" / "whet")


# ---- max retrieval ----


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def mlp(weights, name, count, x):
    for layer in range(count):
        x = x @ weights[f"{name}.{layer}.weight"] + weights[f"{name}.{layer}.bias"]
        x = gelu(x) if layer < count - 1 else x
    return x


def answers(head, priority, class_of, query):
    """The classes that a head names, written as its docstring has it."""
    w, depth = head.weights, head.config["depth"]
    items = np.concatenate([priority[..., None], np.eye(head.config["classes"], dtype=np.float32)[class_of]], -1)
    h, q = mlp(w, "psi_x", depth + 1, items), mlp(w, "psi_q", depth + 1, query[:, None])
    logits = w["scale"] * np.einsum("snw,sw->sn", h @ w["w_k"], q @ w["w_q"]) / math.sqrt(head.config["width"])
    a = whet.softmax(logits.astype(np.float32), "softmax")
    return mlp(w, "phi", depth + 1, np.einsum("sn,snw->sw", a, h @ w["w_v"])).argmax(-1)


def test_a_head_s_weights_answer_as_it_was_trained(tmp_path):
    run("retrieval", "train", "--seeds", "2..3", "--steps", 600, "--rounding", "f32", "--quiet", "--out-dir", tmp_path / "run", "--width", 48,
        "--depth", 2, "--checkpoint-every", 0)
    head = whet.retrieval.load(tmp_path / "run")
    assert whet.retrieval.seeds(tmp_path / "run") == [2, 3] and head.config["seed"] == 2 and head.step == 600
    assert whet.retrieval.load(tmp_path / "run", seed=3).config["seed"] == 3
    random = np.random.default_rng(1)
    priority, class_of = random.random((2000, 8), np.float32), random.integers(0, 10, (2000, 8))
    label = np.take_along_axis(class_of, priority.argmax(1)[:, None], 1)[:, 0]
    share = (answers(head, priority, class_of, random.random(2000, np.float32)) == label).mean()
    measured = json.loads(run("retrieval", "eval", tmp_path / "run" / "seed-2.ckpt", "--sizes", 8, "--count", 2000, "--policy", "softmax",
                              "--quiet", "--json", "-"))
    expected = measured["rows"][0]["accuracy"]["mean"]
    assert expected > 0.8 and abs(share - expected) < 0.03, f"{share} right, {expected} by the program"


def test_damaged_checkpoints_are_refused(tmp_path):
    run("retrieval", "train", "--steps", 1, "--width", 16, "--quiet", "--out-dir", tmp_path / "run")
    path = tmp_path / "run" / "seed-1.ckpt"
    data = path.read_bytes()
    changed = bytearray(data)
    changed[len(data) // 2] ^= 1
    for bytes_, message in ((data[:-9], "size is wrong"), (data[:8], "size is wrong"), (b"x" + data[1:], "not a checkpoint"), (bytes(changed), "checksum is wrong"),
                            (data[:8] + struct.pack("<I", 2) + data[12:], "version 2")):
        path.write_bytes(bytes_)
        with pytest.raises(ValueError, match=message):
            whet.retrieval.load(path)
    with pytest.raises(ValueError, match=r"no head of seed 9; there are \[1\]"):
        whet.retrieval.load(tmp_path / "run", seed=9)
    with pytest.raises(ValueError, match="no seed-N.ckpt"):
        whet.retrieval.load(tmp_path)


# ---- GGUF and probes ----


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    run("lm", "train", "--layers", 2, "--width", 32, "--heads", 2, "--batch", 1, "--steps", 1, "--quiet", "--out-dir", folder / "run")
    for kind in ("f32", "f16", "bf16", "q8_0"):
        run("lm", "export", folder / "run", folder / f"{kind}.gguf", "--type", kind, "--quiet")
    return folder


def test_tensors_of_every_type_are_floats(models):
    exact = whet.gguf.tensors(models / "f32.gguf")
    assert "token_embd.weight" in exact and len(exact) == len(list(exact)) > 10
    for kind, tolerance in (("f32", 0), ("f16", 1e-3), ("bf16", 1e-2), ("q8_0", 2e-2)):
        found = whet.gguf.tensors(str(models / f"{kind}.gguf"))
        assert found.info["blk.0.attn_q.weight"].type == kind
        for name, array in found.items():
            assert array.dtype == np.float32 and array.shape == found.info[name].shape
            scale = np.abs(exact[name]).max()
            assert np.abs(array - exact[name]).max() <= tolerance * scale, f"{kind} {name}"
    with pytest.raises(KeyError):
        exact["nothing"]


def test_a_probe_s_measures_are_arrays(models):
    libraries = os.environ.get("WHET_LLAMA_LIB")
    if not libraries or not os.environ.get("WHET_PLUGIN"):
        pytest.skip("needs a llama.cpp and the plug-in")
    found = whet.probe(models / "f32.gguf", ["softmax", "fixed:2"], sizes=[2, 4, 8], count=1, llama=libraries,
                       plugin=os.environ["WHET_PLUGIN"], threads=1)
    assert found.policies == ["softmax", "fixed:2"] and found.sizes.tolist() == [2, 4, 8] and (np.diff(found.tokens) > 0).all()
    for name, array in found.measures.items():
        assert array.shape == (2, 3, 2, 2) and np.isfinite(array).all(), name
    assert (found.measures["beta"][0] == 1).all() and (found.measures["beta"][1] == 2).all()
    assert (found.measures["entropy_after"][1] < found.measures["entropy"][1]).all()
    assert "beta_called_for" not in found.measures
    with_gaps = whet.probe(models / "f32.gguf", "softmax", sizes=[2, 4, 8], count=1, llama=libraries, plugin=os.environ["WHET_PLUGIN"],
                           threads=1, gaps=True)
    assert (with_gaps.measures["beta_called_for"][0, 0] == 1).all()
    assert found.right.shape == (2, 3) and np.isnan(found.perplexity).all() and found.about["layers"] == 2


def test_recordings_of_the_plug_in(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("evaluation,layer,head,position,keys,entropy,entropy_after,beta,max_prob,spread\n"
                    "0,1,2,3,4,0.5,nan,1,0.75,2\n1,0,0,7,8,1.5,1.25,2,0.5,3\n")
    found = whet.probe(path)
    assert found["keys"].tolist() == [4, 8] and found["keys"].dtype == np.int64
    assert np.isnan(found["entropy_after"][0]) and found["max_prob"].tolist() == [0.75, 0.5]
    path.write_text("evaluation,layer,head,position,keys,argmax,largest_keys,gaps\n0,1,2,3,4,2,,\n1,0,0,7,8,5,5:0.5 2:0.25,1.5 24:1 20:2\n")
    found = whet.probe(path)
    assert found["largest_keys"] == ["", "5:0.5 2:0.25"] and found["gaps"][1] == "1.5 24:1 20:2"
    assert found["keys"].tolist() == [4, 8] and found["argmax"].tolist() == [2, 5]
    path.write_text("evaluation,layer,head,entropy\n")
    assert [column.shape for column in whet.probe(path).values()] == [(0,)] * 4
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not a recording"):
        whet.probe(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="not a recording"):
        whet.probe(path)
