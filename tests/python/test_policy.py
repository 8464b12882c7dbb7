# needs: pytest
"""whet.Policy without numpy: names, parameters, beta, composition, functions of one's own, pickling; the library's errors."""

import math
import pickle
import signal
import subprocess
import sys

import pytest
import whet


def test_every_example_of_the_table_is_its_own_name():
    table = whet.policies()
    assert len(table) > 20 and {"adaptive", "entmax15"} <= {entry.example for entry in table}
    for entry in table:
        policy = whet.Policy.parse(entry.example)
        assert whet.Policy(str(policy)) == policy and hash(whet.Policy(str(policy))) == hash(policy)
        assert policy.is_temperature == entry.is_temperature
        assert pickle.loads(pickle.dumps(policy)) == policy
        assert eval(repr(policy)) == policy


def test_parameters_are_read_and_replaced():
    policy = whet.Policy("target:2:cap=64")
    assert policy.parameters == {"H": 2, "cap": 64, "strength": 1}
    assert str(policy.with_parameters(H=1.5)) == "target:1.5:cap=64"
    assert str(policy.with_strength(0.5)) == "target:2:cap=64:strength=0.5"
    with pytest.raises(whet.PolicyError, match="has no parameter G; it has H, cap, strength"):
        policy.with_parameters(G=1)
    with pytest.raises(whet.PolicyError, match="cap"):
        policy.with_parameters(cap=-1)


def test_beta_is_that_of_the_rule():
    assert whet.Policy("exp:1").beta(entropy=2) == pytest.approx(math.e)
    assert whet.Policy("length:16").beta(n=256) == pytest.approx(2)
    assert whet.Policy("llama4").beta(position=8191) == pytest.approx(1 + 0.1 * math.log(2))
    assert whet.Policy("adaptive").beta(entropy=2) == pytest.approx(-0.037 * 16 + 0.481 * 8 - 2.3 * 4 + 4.917 * 2 - 1.791)
    with pytest.raises(whet.PolicyError, match="needs the logits"):
        whet.Policy("target:2").beta(entropy=3)


def test_composition():
    assert str(whet.Policy("length:2048") + "topk:64") == "length:2048+topk:64"
    assert "adaptive" + whet.Policy("softmax1") == whet.Policy("adaptive+softmax1")
    for left, right in (("topk:3", "entmax15"), ("adaptive", "length:4")):
        with pytest.raises(whet.PolicyError, match=r"write TEMPERATURE \+ MAP"):
            whet.Policy(left) + right
    with pytest.raises(TypeError):
        whet.Policy("adaptive") + 3


def test_errors_have_the_library_s_words():
    with pytest.raises(whet.PolicyError, match="did you mean 'adaptive'"):
        whet.Policy("adaptve")
    with pytest.raises(ValueError, match="entmax needs 1 < a <= 2"):
        whet.Policy("entmax:0.5")
    with pytest.raises(TypeError, match="a policy is a name"):
        whet.Policy(3)


def test_statuses_become_exceptions():
    from whet import _declarations as c
    from whet._library import check, library

    check(c.OK)
    check(c.NOT_FINITE)
    assert library.whet_softmax(None, None, None) == c.ERROR_ARGUMENT
    words = library.whet_last_error().decode()
    assert words
    for status, kind in ((c.ERROR_ARGUMENT, ValueError), (c.ERROR_POLICY, whet.PolicyError), (c.ERROR_MEMORY, MemoryError),
                         (c.ERROR_UNSUPPORTED, ValueError)):
        with pytest.raises(kind) as raised:
            check(status)
        assert str(raised.value) == words


def rising(row):
    return 1 + row.entropy, 1.0


def test_a_function_of_one_s_own():
    policy = whet.Policy(rising)
    assert policy.beta(entropy=0.25) == 1.25
    assert str(policy) == "custom" and "rising" in repr(policy)
    assert pickle.loads(pickle.dumps(policy)) == policy
    combined = (policy + "topk:2").with_strength(0.5)
    again = pickle.loads(pickle.dumps(combined))
    assert again.struct.map == combined.struct.map and again.struct.strength == 0.5 and again.beta(entropy=1) == 1.5
    with pytest.raises(Exception, match="pickle"):
        pickle.dumps(whet.Policy(lambda row: 1.0))


def test_what_a_function_raises_arrives():
    def broken(row):
        raise LookupError(f"no beta for {row.n}")

    with pytest.raises(LookupError, match="no beta for 7"):
        whet.Policy(broken).beta(n=7)


def test_a_function_that_failed_is_not_called_again():
    calls = []

    def broken(row):
        calls.append(row)
        raise LookupError("no beta")

    numpy = pytest.importorskip("numpy")
    for rows in (numpy.zeros((100, 4), numpy.float32), numpy.zeros((50, 4), numpy.float16)):
        calls.clear()
        with pytest.raises(LookupError):
            whet.softmax(rows, broken)
        assert len(calls) == 1


def test_ctrl_c_ends_a_call_that_runs_a_function():
    numpy = pytest.importorskip("numpy")

    def interrupting(row):
        signal.raise_signal(signal.SIGINT)
        return 1.0

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        whet.softmax(numpy.zeros((100, 4), numpy.float32), interrupting)
    assert signal.getsignal(signal.SIGINT) is before
    # While the library calls the function, an exception of the handler has nowhere to go; none may be lost.
    code = ("import os, signal, threading, time, numpy, whet\n"
            "def later():\n    time.sleep(0.3); os.kill(os.getpid(), signal.SIGINT)\n"
            "for i in range(3):\n"
            "    threading.Thread(target=later).start()\n"
            "    try:\n        whet.softmax(numpy.zeros((1 << 26, 1), numpy.float32), lambda row: 1.0); print('lost')\n"
            "    except KeyboardInterrupt: print('ended')\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["ended"] * 3 and done.stderr == "", done.stderr


def test_arguments_of_policies_that_are_refused():
    for name in ("softmax\0junk", "soft\nmax"):
        with pytest.raises(whet.PolicyError, match="printable"):
            whet.Policy(name)
    for n in (-1, 1 << 64):
        with pytest.raises(ValueError, match="n is .*; it is a count"):
            whet.Policy("length:16").beta(n=n)
    with pytest.raises(ValueError, match="strength|float"):
        whet.Policy("adaptive").with_strength("much")


def test_modules_are_listed_before_they_are_imported():
    assert {"clrs", "gguf", "retrieval", "torch", "transformers", "softmax"} <= set(dir(whet))


def test_without_numpy_policies_work_and_arrays_say_what_is_missing():
    code = ("import sys; sys.modules['numpy'] = None; import whet\n"
            "print(whet.Policy('exp:1').beta(entropy=1.0), whet.version(), whet.isa() != '')\n"
            "try: whet.softmax([1, 2])\nexcept ImportError as error: print(error)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == f"1.0 {whet.__version__} True", done.stderr
    assert "whet needs numpy" in done.stdout
