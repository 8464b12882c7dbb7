#!/usr/bin/env python3
"""Measures libwhet beside torch and onnxruntime, one thread each, and prints the ratios of their times to whet's.

The library is used through its Python package (python/whet); torch is used if it can be imported, onnxruntime if the npm package
onnxruntime-node is installed (bench/peers_onnx.js runs it in a separate process, on the same inputs). All contenders
of a case take turns in rounds, each round in a new order, so that drift affects all alike. Before anything is timed,
results are compared with whet's. Missing peers are reported, and the rest is measured.

    bench/peers.py --quick
    bench/peers.py --only rows --json peers.json
    bench/peers.py --node-modules ~/ort/node_modules

For the last, first run: cd ~/ort && npm install --ignore-scripts onnxruntime-node (the package includes the library
for CPUs; its install script would fetch the one for GPUs).
"""

import argparse
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def settle_environment():
    """One thread, and the right kernels for OpenBLAS under torch. The libraries read this when they are loaded."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    try:
        flags = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        flags = ""
    if "avx512f" in flags:
        os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")


settle_environment()
try:
    import numpy
except ImportError:
    sys.exit("peers.py: this python has no numpy: apt-get install python3-numpy, and run it with /usr/bin/python3")
try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None


# ---- libwhet ----


class Whet:
    """The library through its Python package."""

    def __init__(self, path):
        os.environ["WHET_LIBRARY"] = str(path)
        sys.path.insert(0, str(HERE.parent / "python"))
        try:
            import whet
            from whet._planned import PlannedAttention
        except ImportError as error:
            sys.exit(f"peers.py: {error}")
        self.package, self.planned = whet, PlannedAttention
        self.version, self.isa = whet.version(), whet.isa()
        self.policies = {"plain": whet.Policy("softmax"), "adaptive": whet.Policy("adaptive")}

    def softmax(self, source, out, policy):
        """A function that normalises the rows of one array into another."""
        return lambda: self.package.softmax(source, self.policies[policy], out=out)

    def attention(self, q, k, v, out, scale, policy, causal=False):
        """A function that computes attention; arrays are [heads][positions][dim]. It is planned in advance, so that a
        run allocates nothing."""
        return self.planned(q, k, v, out, self.policies[policy], scale, causal)


# ---- inputs ----


def aligned(count, dtype):
    """An array that starts at a multiple of 64 bytes."""
    size = numpy.dtype(dtype).itemsize
    whole = numpy.zeros(count * size + 64, dtype=numpy.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + count * size].view(dtype)


def normal(shape, seed, deviation=1.0):
    result = aligned(math.prod(shape), numpy.float32).reshape(shape)
    numpy.random.default_rng(seed).standard_normal(shape, dtype=numpy.float32, out=result)
    result *= deviation
    return result


def deviation_for(n):
    """Standard deviation of n normal logits whose entropy lies where the paper's rule sharpens; as in bench/inputs.c."""
    most = math.log(n)
    return math.sqrt(2 * (most - min(3, 0.7 * most)))


def queries(heads, count, dim, seed):
    result = normal((heads, count, dim), seed)
    result *= math.sqrt(dim) / numpy.linalg.norm(result, axis=-1, keepdims=True)
    return result


# ---- torch ----


def torch_adaptive(logits):
    """The paper's listing."""
    p = torch.softmax(logits, dim=-1)
    h = -(p * torch.log(p + 1e-9)).sum(dim=-1, keepdim=True)
    poly = (((-0.037 * h + 0.481) * h - 2.3) * h + 4.917) * h - 1.791
    beta = torch.where(h > 0.5, torch.clamp(poly, min=1.0), torch.ones_like(h))
    return torch.softmax(beta * logits, dim=-1)


def torch_fused():
    """scaled_dot_product_attention as this version of torch has it, or None."""
    functional = torch.nn.functional
    if hasattr(functional, "scaled_dot_product_attention"):
        return functional.scaled_dot_product_attention
    inner = getattr(functional, "_scaled_dot_product_attention", None)  # before 2.0
    return inner and (lambda q, k, v, is_causal: inner(q, k, v, None, 0.0, False, is_causal)[0])


def torch_attention(q, k, v, scale, adaptive, causal):
    """A function that composes attention from products and a softmax."""
    future = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1) if causal else None
    normalise = torch_adaptive if adaptive else lambda logits: torch.softmax(logits, dim=-1)

    def run():
        logits = torch.matmul(q * scale, k.transpose(-2, -1))
        if causal:
            logits.masked_fill_(future, -math.inf)
        return torch.matmul(normalise(logits), v)

    return run


# ---- onnxruntime ----


def varint(value):
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    result.append(value)
    return bytes(result)


def field(number, value):
    """One field of a protobuf message: an integer, or bytes (a text, a message)."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_attribute(name, value):
    if isinstance(value, float):
        number = numpy.float32(value).tobytes()
        return field(1, name) + varint(2 << 3 | 5) + number + field(20, 1)
    return field(1, name) + field(3, value) + field(20, 2)


def onnx_node(operator, inputs, outputs, domain="", **attributes):
    result = b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs)
    result += field(4, operator) + field(7, domain)
    return result + b"".join(field(5, onnx_attribute(name, value)) for name, value in attributes.items())


def onnx_value(name, kind, shape):
    dimensions = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, dimensions)))


ONNX_FLOAT, ONNX_INT32 = 1, 6


def onnx_model(nodes, inputs, outputs):
    """The bytes of a model; inputs and outputs are lists of (name, kind, shape)."""
    graph = b"".join(field(1, node) for node in nodes) + field(2, "peer")
    graph += b"".join(field(11, onnx_value(*value)) for value in inputs)
    graph += b"".join(field(12, onnx_value(*value)) for value in outputs)
    versions = field(8, field(1, "") + field(2, 18)) + field(8, field(1, "com.microsoft") + field(2, 1))
    return field(1, 9) + field(7, graph) + versions


class Onnx:
    """onnxruntime in a separate node process that runs a model on request."""

    def __init__(self, node, modules):
        self.missing = None
        self.version = None
        self.count = 0
        environment = dict(os.environ)
        if modules:
            environment["NODE_PATH"] = str(pathlib.Path(modules).resolve())
        self.folder = tempfile.TemporaryDirectory(prefix="whet-peers-")
        try:
            self.process = subprocess.Popen([node, str(HERE / "peers_onnx.js")], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, env=environment, text=True)
        except OSError as error:
            self.missing = f"cannot run node: {error}"
            return
        answer = self.read()
        self.missing = answer.get("error")
        self.version = answer.get("version")

    def read(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the node process ended"}

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = self.read()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def store(self, array):
        """A file with an array's bytes."""
        self.count += 1
        path = os.path.join(self.folder.name, f"{self.count}.bin")
        numpy.ascontiguousarray(array).tofile(path)
        return path

    def load(self, nodes, inputs, outputs, shared=()):
        """Loads a model and gives a contender. inputs: {name: array}; outputs: {name: shape}, the first of which is the
        result; shared: pairs (output, input) that are one and the same memory."""
        kinds = {"float32": ONNX_FLOAT, "int32": ONNX_INT32}
        described = [(name, kinds[array.dtype.name], array.shape) for name, array in inputs.items()]
        model = os.path.join(self.folder.name, "model.onnx")
        with open(model, "wb") as file:
            file.write(onnx_model(nodes, described, [(name, ONNX_FLOAT, shape) for name, shape in outputs.items()]))
        feeds = [{"name": name, "type": array.dtype.name, "dims": list(array.shape), "file": self.store(array)}
                 for name, array in inputs.items()]
        fetches = [{"name": name, "dims": list(shape), "shared": dict(shared).get(name)}
                   for name, shape in outputs.items()]
        number = self.ask(do="load", model=model, feeds=feeds, fetches=fetches)["id"]
        for feed in feeds:
            os.unlink(feed["file"])
        return OnnxContender(self, next(iter(outputs)), next(iter(outputs.values())), number)

    def close(self):
        if not self.missing:
            self.process.stdin.close()
            self.process.wait()
        self.folder.cleanup()


class OnnxContender:
    """Times itself, so that communication between the two processes does not count."""

    def __init__(self, peer, output, shape, number):
        self.peer, self.output, self.shape, self.number = peer, output, shape, number

    def timed(self):
        return self.peer.ask(do="run", id=self.number)["seconds"]

    def result(self):
        path = os.path.join(self.peer.folder.name, "result.bin")
        self.peer.ask(do="store", id=self.number, output=self.output, file=path)
        return numpy.fromfile(path, dtype=numpy.float32).reshape(self.shape)

    def forget(self):
        self.peer.ask(do="forget", id=self.number)


# ---- measuring ----


class Contender:
    def __init__(self, name, run):
        self.name, self.run = name, run

    def timed(self):
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start


def measure(contenders, sizes):
    """Seconds of every run, one list a contender; all take turns."""
    seconds = [[] for _ in contenders]
    order = list(range(len(contenders)))
    shuffled = random.Random(1)
    start = time.perf_counter()
    while len(seconds[0]) < sizes["rounds"] or time.perf_counter() - start < sizes["seconds"]:
        shuffled.shuffle(order)
        for i in order:
            seconds[i].append(contenders[i].timed())
    return seconds


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])


# Values of a case of rows, lengths of rows, prefill and decode; minimum number of rounds, and seconds; sizes of the package's cases.
SIZES = {
    "full": {"values": 4 << 20, "rows": (16, 256, 4096, 131072), "prefill": (1024, 4096, 8192),
             "decode": (4096, 32768, 131072), "rounds": 7, "seconds": 3, "python_rows": 4096, "python_train": 2048},
    "quick": {"values": 4 << 20, "rows": (16, 256, 4096, 131072), "prefill": (4096,),
              "decode": (32768, 131072), "rounds": 3, "seconds": 0.6, "python_rows": 4096, "python_train": 2048},
    "tiny": {"values": 1 << 13, "rows": (16, 4096), "prefill": (64,), "decode": (256,), "rounds": 1, "seconds": 0,
             "python_rows": 64, "python_train": 64},
}


class Bench:
    """The library, the peers, and the report."""

    def __init__(self, arguments):
        self.library = arguments.lib
        self.whet = Whet(arguments.lib)
        self.sizes = SIZES["tiny" if arguments.tiny else "quick" if arguments.quick else "full"]
        self.onnx = Onnx(arguments.node, arguments.node_modules or os.environ.get("NODE_PATH"))
        self.report = {
            "whet": self.whet.version,
            "isa": self.whet.isa,
            "torch": torch.__version__ if torch else None,
            "onnxruntime": self.onnx.version,
            "cases": [],
        }

    def announce(self):
        print(f"whet         {self.whet.version} ({self.whet.isa})")
        print(f"torch        {torch.__version__ if torch else 'not installed: apt-get install python3-torch'}")
        missing = (f"not installed: {self.onnx.missing}; npm install --ignore-scripts onnxruntime-node, and name its "
                   "folder with --node-modules or NODE_PATH")
        print(f"onnxruntime  {missing if self.onnx.missing else self.onnx.version}")

    def onnx_contender(self, name, expected, *model, **more):
        """A list with the contender, or nothing where onnxruntime is missing or refuses the model."""
        if self.onnx.missing:
            return []
        try:
            loaded = self.onnx.load(*model, **more)
            loaded.name = name
            loaded.timed()
            self.compare(name, loaded.result(), expected)
        except RuntimeError as error:
            print(f"  {name}: left out: {str(error).splitlines()[0][:100]}")
            return []
        return [loaded]

    def compare(self, name, result, expected):
        difference = float(numpy.max(numpy.abs(numpy.asarray(result).reshape(expected.shape) - expected)))
        largest = float(numpy.max(numpy.abs(expected)))
        if not difference <= 1e-4 * max(1.0, largest):
            print(f"  {name}: its result differs from whet's by {difference:.2g}")

    def run_case(self, section, label, work, unit, contenders, bars=None):
        """Measures and prints one case. Times are compared with those of whet plain or, for contenders with adaptive in
        their name, whet adaptive."""
        seconds = measure(contenders, self.sizes)
        of = {contender.name: list_ for contender, list_ in zip(contenders, seconds)}
        print(f"{label}\n{'':34}{unit:>16}{'times whet':>16}\n{'':34}" + 2 * f"{'best':>8}{'median':>8}")
        entries = []
        for name, times in of.items():
            ours = of["whet adaptive" if "adaptive" in name else "whet plain"]
            entry = {
                "name": name,
                "rounds": len(times),
                "seconds_best": min(times),
                "seconds_median": median(times),
                "rate_best": rate(unit, work, min(times)),
                "rate_median": rate(unit, work, median(times)),
                "times_whet_best": min(times) / min(ours),
                "times_whet_median": median([t / o for t, o in zip(times, ours)]),
            }
            digits = 3 if unit == "ns a value" else 1
            line = f"  {name:32}{entry['rate_best']:8.{digits}f}{entry['rate_median']:8.{digits}f}"
            if not name.startswith("whet"):
                line += f"{entry['times_whet_best']:8.2f}{entry['times_whet_median']:8.2f}"
            bar = (bars or {}).get(name)
            if bar:
                entry["at_least"] = bar
                entry["met"] = entry["times_whet_best"] >= bar
                line += f"  >={bar:.2f} {'met' if entry['met'] else 'missed'}"
            print(line, flush=True)
            entries.append(entry)
        self.report["cases"].append(
            {"section": section, "label": label, "unit": unit, "work": work, "entries": entries})
        for contender in contenders:
            if isinstance(contender, OnnxContender):
                contender.forget()


def rate(unit, work, seconds):
    return 1e9 * seconds / work if unit == "ns a value" else 1e-9 * work / seconds


# ---- cases ----


def bench_rows(bench):
    values = bench.sizes["values"]
    for n in bench.sizes["rows"]:
        source = normal((values // n, n), n, deviation_for(n))
        out = aligned(values, numpy.float32).reshape(source.shape)
        contenders = [Contender("numpy copy", lambda: numpy.copyto(out, source))]
        expected = {}
        for policy in ("plain", "adaptive"):
            run = bench.whet.softmax(source, out, policy)
            run()
            expected[policy] = out.copy()
            contenders.append(Contender(f"whet {policy}", run))
        if torch:
            logits, result = torch.from_numpy(source), torch.from_numpy(out)
            bench.compare("torch softmax", torch.softmax(logits, dim=-1), expected["plain"])
            bench.compare("torch adaptive, composed", torch_adaptive(logits), expected["adaptive"])
            contenders.append(Contender("torch softmax", torch_softmax(logits, result)))
            contenders.append(Contender("torch adaptive, composed", lambda: torch_adaptive(logits)))
        contenders += bench.onnx_contender(
            "onnxruntime Softmax", expected["plain"], [onnx_node("Softmax", ["x"], ["y"], axis=1)], {"x": source},
            {"y": source.shape})
        bars = {"torch adaptive, composed": 10.0} if n >= 256 else None
        bench.run_case("rows", f"rows n={n}", values, "ns a value", contenders, bars)


def torch_softmax(logits, result):
    """Writes into existing memory, if this version of torch can."""
    try:
        torch.softmax(logits, dim=-1, out=result)
    except TypeError:
        return lambda: torch.softmax(logits, dim=-1)
    return lambda: torch.softmax(logits, dim=-1, out=result)


def torch_attention_contenders(bench, q, k, v, scale, causal, expected):
    """Composed plain and adaptive, and fused if available; q is [heads][positions][dim]."""
    if not torch:
        return []
    with torch.no_grad():
        tensors = [torch.from_numpy(array) for array in (q, k, v)]
        runs = [("torch composed", torch_attention(*tensors, scale, False, causal), "plain"),
                ("torch adaptive, composed", torch_attention(*tensors, scale, True, causal), "adaptive")]
        fused = torch_fused()
        if fused:
            # It scales by 1 / sqrt(dim) itself.
            scaled = tensors[0] * (scale * math.sqrt(q.shape[-1]))
            runs.append(("torch scaled_dot_product", lambda: fused(scaled, *tensors[1:], is_causal=causal), "plain"))
        for name, run, kind in runs:
            bench.compare(name, run().numpy(), expected[kind])
    return [Contender(name, run) for name, run, _ in runs]


def bench_prefill(bench):
    for n in bench.sizes["prefill"]:
        for causal in (False, True):
            prefill_case(bench, n, 128, causal)


def prefill_case(bench, n, dim, causal):
    q, k, v = queries(1, n, dim, 1), normal((1, n, dim), 2), normal((1, n, dim), 3)
    out = normal((1, n, dim), 4)
    scale = deviation_for(n) / math.sqrt(dim)
    contenders, expected = whet_attention_contenders(bench, q, k, v, out, scale, causal)
    contenders += torch_attention_contenders(bench, q, k, v, scale, causal, expected)
    shape = q.shape
    contenders += bench.onnx_contender(
        "onnxruntime MultiHeadAttention", expected["plain"],
        [onnx_node("MultiHeadAttention", ["q", "k", "v"], ["y"], "com.microsoft", num_heads=1, scale=scale,
                   unidirectional=int(causal))],
        {"q": q, "k": k, "v": v}, {"y": shape})
    if causal:
        contenders += bench.onnx_contender("onnxruntime GroupQueryAttention", expected["plain"],
                                           *grouped_query_model(q, k, v, scale))
    pairs = n * (n + 1) / 2 if causal else n * n
    label = f"prefill d={dim} n={n}{' causal' if causal else ''}"
    bench.run_case("prefill", label, 4 * dim * pairs, "GFLOP/s", contenders)


def grouped_query_model(q, k, v, scale):
    """Causal attention over one head's positions, with an empty cache."""
    _, n, dim = q.shape
    node = onnx_node("GroupQueryAttention", ["q", "k", "v", "", "", "last", "total"], ["y", "present_k", "present_v"],
                     "com.microsoft", num_heads=1, kv_num_heads=1, scale=scale)
    inputs = {"q": q, "k": k, "v": v, "last": numpy.array([n - 1], numpy.int32), "total": numpy.array([n], numpy.int32)}
    return [node], inputs, {"y": q.shape, "present_k": (1, 1, n, dim), "present_v": (1, 1, n, dim)}


def whet_attention_contenders(bench, q, k, v, out, scale, causal):
    contenders, expected = [], {}
    for policy in ("plain", "adaptive"):
        run = bench.whet.attention(q, k, v, out, scale, policy, causal)
        run()
        expected[policy] = out.copy()
        contenders.append(Contender(f"whet {policy}", run))
    return contenders, expected


def bench_decode(bench):
    heads, kv_heads, dim = 8, 2, 128
    for n in bench.sizes["decode"]:
        q, out = queries(heads, 1, dim, 1), normal((heads, 1, dim), 4)
        k, v = normal((kv_heads, n, dim), 2), normal((kv_heads, n, dim), 3)
        scale = deviation_for(n) / math.sqrt(dim)
        contenders, expected = whet_attention_contenders(bench, q, k, v, out, scale, False)
        together = q.reshape(kv_heads, heads // kv_heads, dim)  # the query heads of a key head
        contenders += torch_attention_contenders(bench, together, k, v, scale, False, expected)
        composed = [
            onnx_node("FusedMatMul", ["q", "k"], ["e"], "com.microsoft", transB=1, alpha=scale),
            onnx_node("Softmax", ["e"], ["p"], axis=2),
            onnx_node("MatMul", ["p", "v"], ["y"]),
        ]
        contenders += bench.onnx_contender("onnxruntime composed", expected["plain"], composed,
                                           {"q": together, "k": k, "v": v}, {"y": together.shape})
        contenders += bench.onnx_contender("onnxruntime GroupQueryAttention", expected["plain"],
                                           *cached_query_model(q, k, v, scale),
                                           shared=[("present_k", "past_k"), ("present_v", "past_v")])
        bench.run_case("decode", f"decode f32 n={n}, 8 heads on 2, d=128", 2 * k.nbytes, "GB/s", contenders)


def cached_query_model(q, k, v, scale):
    """One new position; all others are in the cache, which is updated in place."""
    kv_heads, n, dim = k.shape
    node = onnx_node("GroupQueryAttention", ["q", "k", "v", "past_k", "past_v", "last", "total"],
                     ["y", "present_k", "present_v"], "com.microsoft", num_heads=q.shape[0], kv_num_heads=kv_heads,
                     scale=scale)
    inputs = {
        "q": q.reshape(1, 1, -1),
        "k": k[:, -1].reshape(1, 1, -1),
        "v": v[:, -1].reshape(1, 1, -1),
        "past_k": k[None],
        "past_v": v[None],
        "last": numpy.array([n - 1], numpy.int32),
        "total": numpy.array([n], numpy.int32),
    }
    return [node], inputs, {"y": (1, 1, q.size), "present_k": (1, *k.shape), "present_v": (1, *v.shape)}


# ---- the package ----


def microseconds(run, sizes):
    """The best mean of a hundred calls that take microseconds: few enough to fit between two interruptions."""
    calls = 100
    best = math.inf
    for _ in range(60 * sizes["rounds"]):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        best = min(best, (time.perf_counter() - start) / calls)
    return 1e6 * best


def bench_python(bench):
    """What calls through the package cost, and what they save beside torch's own operations, gradients included."""
    figures = bench.report["python"] = {}
    whet = bench.whet.package
    row = normal((16,), 1)
    figures["softmax_call_us"] = microseconds(lambda: whet.softmax(row), bench.sizes)
    report_bar("one call of softmax on 16 values", figures["softmax_call_us"], "us", 10, at_most=True)
    if not torch:
        return
    q, k, v = (normal((8, count, 64), seed) for seed, count in ((1, 1), (2, 16), (3, 16)))
    planned = bench.whet.attention(q, k, v, normal((8, 1, 64), 4), 0.125, "adaptive")
    tensors = [torch.from_numpy(array[None]) for array in (q, k, v)]
    figures["attention_call_us"] = microseconds(lambda: whet.attention(*tensors), bench.sizes)
    figures["attention_c_us"] = microseconds(planned.once, bench.sizes)
    over = figures["attention_call_us"] - figures["attention_c_us"]
    report_bar("one call of attention, over the call of C", over, "us", 30, at_most=True)

    n = bench.sizes["python_rows"]
    logits = torch.from_numpy(normal((n, n), 5, deviation_for(n)))
    seconds = measure([Contender("whet", lambda: whet.softmax(logits)), Contender("torch", lambda: torch_adaptive(logits))], bench.sizes)
    figures["softmax_times"] = min(seconds[1]) / min(seconds[0])
    report_bar(f"adaptive softmax of {n} rows of {n}, composed torch takes", figures["softmax_times"], "times as long", 7)
    bench_training(bench, figures)


# Of two passes with linear memory: two forward, and five backward, where the logits are computed once more.
TRAINING_PRODUCTS = 7


def bench_training(bench, figures):
    """Attention with gradients of q, k and v: times in turns, and peak memory in a process for each."""
    n = bench.sizes["python_train"]
    runs = training_runs(bench.whet.package, n)
    seconds = measure([Contender(name, run) for name, run in runs.items()], bench.sizes)
    best = {name: min(list_) for name, list_ in zip(runs, seconds)}
    peaks = {}
    for name in runs:
        command = [sys.executable, str(HERE / "peers.py"), "--lib", str(bench.library), "--peak-of", name, str(n)]
        peaks[name] = int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    figures["training"] = {name: {"seconds": best[name], "peak_bytes": peak} for name, peak in peaks.items()}
    figures["training_times"] = best["torch"] / best["whet"]
    figures["training_gflops"] = 1e-9 * TRAINING_PRODUCTS * 2 * 8 * n * n * 128 / best["whet"]
    figures["training_memory"] = peaks["whet"] / peaks["torch"]
    what = f"attention with gradients, 8 heads x {n} x 128, composed torch takes"
    report_bar(what, figures["training_times"], "times as long", 3)
    print(f"  whet's {TRAINING_PRODUCTS} matrix products run at {figures['training_gflops']:.3g} GFLOP/s; `whet bench` measures the peak")
    report_bar(f"  and its memory, {peaks['torch'] >> 20} MiB, is of whet's {peaks['whet'] >> 20} MiB", 1 / figures["training_memory"], "times", 4)


def training_runs(whet, n):
    """A forward and a backward pass of adaptive attention, by whet and composed."""
    q, k, v = (torch.from_numpy(normal((1, 8, n, 128), seed)).requires_grad_() for seed in (1, 2, 3))
    gradient = torch.from_numpy(normal((1, 8, n, 128), 4))
    composed = torch_attention(q, k, v, 128**-0.5, True, False)

    def backward_of(forward):
        return lambda: torch.autograd.grad(forward(), (q, k, v), gradient)

    return {"whet": backward_of(lambda: whet.attention(q, k, v)), "torch": backward_of(composed)}


def print_peak(name, n, library):
    """Prints the bytes that one of them adds to the memory of this process at most."""
    run = training_runs(Whet(library).package, n)[name]

    def status(field):
        for line in pathlib.Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return 1024 * int(line.split()[1])
        return 0

    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is in use
    except OSError:
        pass
    before = status("VmRSS")
    run()
    print(max(1, status("VmHWM") - before))


def report_bar(label, value, unit, bar, at_most=False):
    met = value <= bar if at_most else value >= bar
    print(f"{label}: {value:.3g} {unit}  {'<=' if at_most else '>='}{bar} {'met' if met else 'missed'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", default=HERE.parent / "build" / "release" / "libwhet.so", help="libwhet.so to load")
    parser.add_argument("--only", choices=("rows", "prefill", "decode", "python"), help="one section")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and sizes")
    parser.add_argument("--tiny", action="store_true", help="one round of tiny sizes, to test this script")
    parser.add_argument("--json", metavar="FILE", help="also write all figures to FILE")
    parser.add_argument("--node", default="node", help="the node program, for onnxruntime")
    parser.add_argument("--node-modules", metavar="FOLDER", help="where onnxruntime-node is installed (or NODE_PATH)")
    parser.add_argument("--peak-of", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak_of:
        name, n = arguments.peak_of
        print_peak(name, int(n), arguments.lib)
        return

    bench = Bench(arguments)
    bench.announce()
    sections = {"rows": bench_rows, "prefill": bench_prefill, "decode": bench_decode, "python": bench_python}
    try:
        for name, run in sections.items():
            if arguments.only in (None, name):
                print()
                run(bench)
    finally:
        bench.onnx.close()
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(bench.report, indent=1) + "\n")


if __name__ == "__main__":
    main()
