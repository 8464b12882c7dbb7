#!/usr/bin/env python3
"""Measures whet and its peers and writes the tables of docs/PERFORMANCE.md and README.md.

    bench/performance.py measure    measure on this machine, then write (about eight minutes)
    bench/performance.py write      write tables and charts from the record
    bench/performance.py check      report which tables and charts do not match the record

The record is docs/performance/: the reports of `whet bench`, bench/peers.py and bench_ggml as these programs wrote
them, and run.json with the date, the machine and the commands. A table stands between the comments
`<!-- performance: NAME -->` and `<!-- end -->`; text outside of them is written by hand.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

import performance_chart

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = ("docs/PERFORMANCE.md", "README.md")
CHART = "docs/performance/performance.svg"

# The command that writes each report.
COMMANDS = {
    "bench": "build/release/whet bench --json docs/performance/bench.json",
    "long": "build/release/whet bench --only long --json docs/performance/long.json",
    "peers": "{python} bench/peers.py --json docs/performance/peers.json",
    "llama": "build/release/plugin/ggml/bench_ggml --json docs/performance/llama.json 0.5",
    "caches": "build/release/plugin/ggml/bench_ggml --json docs/performance/caches.json 0.5 cache",
}


# ---- the record ----


class Record:
    """The reports, each of which may be missing (None)."""

    def __init__(self, folder):
        def read(name):
            path = pathlib.Path(folder) / f"{name}.json"
            return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

        self.run = read("run")
        self.bench, self.long, self.peers, self.llama, self.caches = (read(name) for name in COMMANDS)

    def cases(self, section):
        """The cases of a section of `whet bench`, in order."""
        reports = [report for report in (self.bench, self.long) if report]
        return [case for report in reports for part in report["sections"] if part["name"] == section
                for case in part["cases"]]

    def peer_cases(self, section):
        return [case for case in (self.peers or {"cases": []})["cases"] if case["section"] == section]


def entry_of(case, name):
    return next((entry for entry in case["entries"] if entry["name"] == name), None)


# ---- Markdown ----


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + len(head) * "---|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def grouped(text):
    """Thousands separated in every number of a label: n=131072 becomes n = 131,072."""
    text = re.sub(r"\d{4,}", lambda m: f"{int(m.group()):,}", text)
    return re.sub(r"(\w)=(\d)", r"\1 = \2", text).replace(" x ", " × ")


def percent(value):
    return f"{100 * value:.0f} %"


def times(value):
    return f"{value:.2f}"


def figure(case, entry, column, show):
    """A ratio by the best and by the median of all rounds, and its target."""
    value = entry.get(column)
    if not value:
        return ""
    text = f"{show(value['best'])} ({show(value['median'])})"
    for word, sign in (("at_most", "≤"), ("at_least", "≥")):
        if word in value:
            result = "disturbed" if case.get("disturbed") else "met" if value["met"] else "**missed**"
            text += f", target {sign} {show(value[word])}: {result}"
    return text


def label(case):
    return grouped(case["label"]) + (" †" if case.get("disturbed") else "")


def footnote(cases):
    if not any(case.get("disturbed") for case in cases):
        return ""
    return "\n\n† Other programs used the processor for more than a tenth of the time of this case."


# ---- tables ----


def targets(record):
    """How many targets of `whet bench` are met, missed and undecided."""
    counts = {"met": 0, "missed": 0, "disturbed": 0}
    for section in record.bench["sections"]:
        for case in section["cases"]:
            for entry in case["entries"]:
                for value in entry.values():
                    if isinstance(value, dict) and "met" in value:
                        counts["disturbed" if case.get("disturbed") else "met" if value["met"] else "missed"] += 1
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def machine(record):
    run, bench = record.run, record.bench
    rows = [("date", run["date"]), ("processor", f"{bench['cpu']} ({run['processor']}), {run['cores']} cores"),
            ("caches", run["caches"]), ("system", run["system"]),
            ("library", f"whet {bench['version']}, {bench['isa']} kernels, {bench['compiler']}"),
            ("OpenBLAS", bench["blas"])]
    if record.peers:
        rows.append(("peers", ", ".join(f"{name} {record.peers[name]}" for name in ("torch", "onnxruntime")
                                        if record.peers[name])))
    rows += [("targets", targets(record)), ("commands", "<br>".join(f"`{command}`" for command in run["commands"]))]
    return table(("", ""), rows)


def limits(record):
    peaks = [entry_of(case, "FMA peak")["rate_best"] for case in record.cases("prefill")]
    rows = [("FMA peak, one core", f"{max(peaks):.1f} GFLOP/s")]
    for case in record.cases("decode"):
        if case["label"].startswith("f32"):
            read = entry_of(case, "read")
            size = read["work"] / 2**20
            rows.append((f"reading {size:,.0f} MiB, one core", f"{read['rate_best']:.1f} GB/s"))
    for case in record.cases("rows"):
        if case["label"] == "n=4096":
            rows.append(("copying 16 MiB, one core", f"{entry_of(case, 'copy')['rate_best']:.3f} ns a value"))
            rows.append(("exponentials in the first-level cache",
                         f"{entry_of(case, 'exp alone')['rate_best']:.3f} ns a value"))
    return table(("limit", "measured"), rows)


def prefill(record):
    cases = record.cases("prefill")
    rows = []
    for case in cases:
        plain, adaptive, sgemm = (entry_of(case, name) for name in ("plain", "adaptive", "sgemm"))
        rows.append((label(case), f"{plain['rate_best']:.1f}", figure(case, plain, "of_FMA_peak", percent),
                     f"{sgemm['rate_best']:.1f}" if sgemm else "", figure(case, adaptive, "times_plain", times)))
    head = ("case", "softmax, GFLOP/s", "of FMA peak", "sgemm, GFLOP/s", "adaptive, × softmax")
    return table(head, rows) + footnote(cases)


def maps(record):
    cases = record.cases("prefill maps")
    rows = [(entry["name"], f"{entry['rate_best']:.1f}", figure(case, entry, "times_plain", times))
            for case in cases for entry in case["entries"]]
    return table(("map", "GFLOP/s", "time, × softmax"), rows) + footnote(cases)


def decode(record):
    cases = record.cases("decode")
    rows = []
    for case in cases:
        read, plain, adaptive = (entry_of(case, name) for name in ("read", "plain", "adaptive"))
        rows.append((label(case), f"{plain['rate_best']:.1f}", f"{read['rate_best']:.1f}",
                     figure(case, plain, "of_read", percent), figure(case, adaptive, "times_plain", times)))
    head = ("cache", "softmax, GB/s", "reading, GB/s", "of reading", "adaptive, × softmax")
    return table(head, rows) + footnote(cases)


def rows_of_logits(record):
    cases = record.cases("rows")
    rows = []
    for case in cases:
        copy, plain, adaptive = (entry_of(case, name) for name in ("copy", "plain", "adaptive"))
        rows.append((label(case), f"{copy['rate_best']:.3f}", f"{plain['rate_best']:.3f}",
                     figure(case, plain, "times_copy", times), f"{adaptive['rate_best']:.3f}",
                     figure(case, adaptive, "times_copy", times)))
    head = ("rows", "copy, ns", "softmax, ns", "× copy", "adaptive, ns", "× copy")
    return table(head, rows) + footnote(cases)


def backward(record):
    cases = record.cases("backward")
    rows = []
    for case in cases:
        plain, adaptive = entry_of(case, "plain"), entry_of(case, "adaptive")
        rows.append((label(case), f"{plain['rate_best']:.1f}", figure(case, plain, "of_FMA_peak", percent),
                     figure(case, plain, "times_forward", times), figure(case, adaptive, "times_plain", times)))
    head = ("case", "softmax, GFLOP/s", "of FMA peak", "time, × forward pass", "adaptive, × softmax")
    return table(head, rows) + footnote(cases)


def threads(record):
    rows = []
    cases = []
    for section, unit in (("prefill threads", "GFLOP/s"), ("decode threads", "GB/s")):
        for case in record.cases(section):
            cases.append(case)
            for entry in case["entries"]:
                if "times_as_fast" in entry:
                    rows.append((section.split()[0], label(case), entry["name"].split(",")[0],
                                 f"{entry['rate_best']:.1f} {unit}", figure(case, entry, "times_as_fast", times)))
    count = record.bench["threads"]
    head = ("", "case", "", f"{count} threads", "times as fast as one")
    return table(head, rows) + footnote(cases)


def training(record):
    rows = []
    for section, unit in (("retrieval", "steps/s"), ("lm", "tokens/s")):
        for case in record.cases(section):
            for entry in case["entries"]:
                ratios = [f"{words} {figure(case, entry, column, show)}" for column, words, show in (
                    ("times_torch", "times torch", times), ("of_BLAS_alone", "of the products alone", percent),
                    ("times_softmax", "× softmax", times)) if column in entry]
                rows.append((section, grouped(case["label"]), entry["name"], f"{entry['rate_best']:,.0f} {unit}",
                             "<br>".join(ratios)))
    return table(("", "model", "", "best", "ratio"), rows)


def long(record):
    rows = []
    for section in ("long prefill", "long decode"):
        for case in record.cases(section):
            adaptive = entry_of(case, "adaptive")
            facts = case["facts"]
            memory = [f"{facts[name]:,.0f} MiB {name.split('_')[0]}" for name in
                      ("scratch_MiB", "workspace_MiB", "inputs_and_outputs_MiB") if facts.get(name, 0) >= 0.5]
            memory = [text.replace("inputs", "inputs and outputs") for text in memory]
            rows.append((section.split()[1], grouped(case["label"]), duration(adaptive["seconds_best"]),
                         ", ".join(memory), f"{facts['peak_memory_MiB']:,.0f} MiB"))
    return table(("", "case", "adaptive", "memory", "peak of the process"), rows)


def duration(seconds):
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"


# The best contender of each peer, whatever it is called.
PEERS = ("torch", "onnxruntime")


def best_of_peer(case, peer, adaptive=False):
    found = [entry for entry in case["entries"] if entry["name"].startswith(peer) and
             ("adaptive" in entry["name"]) == adaptive]
    return min(found, key=lambda entry: entry["seconds_best"], default=None)


def peers(record):
    rows = []
    for case in (record.peers or {"cases": []})["cases"]:
        digits = 3 if case["unit"] == "ns a value" else 1

        def show(entry, digits=digits):
            if not entry:
                return ""
            ratio = f" ({entry['times_whet_best']:.1f})" if not entry["name"].startswith("whet") else ""
            return f"{entry['rate_best']:.{digits}f}{ratio}"

        rows.append((grouped(case["label"]), case["unit"], show(entry_of(case, "whet plain")),
                     *(show(best_of_peer(case, peer)) for peer in PEERS), show(entry_of(case, "whet adaptive")),
                     show(best_of_peer(case, "torch", adaptive=True))))
    head = ("case", "unit", "whet", "torch", "onnxruntime", "whet, adaptive", "torch, adaptive")
    return table(head, rows)


def milliseconds(seconds):
    return f"{1e3 * seconds:#.3g}".rstrip(".") if seconds < 0.1 else f"{1e3 * seconds:,.0f}"


def llama(record):
    rows = []
    for case in record.llama or []:
        rows.append((f"{case['queries']}", f"{case['head_dim']}", f"{case['keys']:,}", f"{case['threads']}",
                     milliseconds(case["llama"]), milliseconds(case["softmax"]),
                     f"{case['llama'] / case['softmax']:.1f}", times(case["adaptive"] / case["softmax"]),
                     f"{case['llama_error']:.1e}", f"{case['whet_error']:.1e}"))
    head = ("queries", "head size", "keys", "threads", "llama.cpp, ms", "whet, ms", "times as fast",
            "adaptive, × softmax", "error of llama.cpp", "error of whet")
    return table(head, rows)


def caches(record):
    """A row for each type: times at every number of keys, and the errors at the largest."""
    cases = record.caches or []
    keys = sorted({case["keys"] for case in cases})
    rows = []
    for kind in dict.fromkeys(case["cache"] for case in cases):
        of_kind = {case["keys"]: case for case in cases if case["cache"] == kind}
        row = [kind]
        for n in keys:
            row += [milliseconds(of_kind[n]["llama"]), milliseconds(of_kind[n]["softmax"]),
                    f"{of_kind[n]['llama'] / of_kind[n]['softmax']:.1f}"]
        last = of_kind[keys[-1]]
        rows.append((*row, f"{last['llama_error']:.1e}", f"{last['whet_error']:.1e}"))
    head = [name for n in keys for name in (f"{n:,} keys: llama.cpp, ms", "whet, ms", "times as fast")]
    return table(("cache", *head, "error of llama.cpp", "error of whet"), rows)


def summary(record):
    """The short table of README.md."""
    def bench_case(section, name):
        return next(case for case in record.cases(section) if case["label"] == name)

    def beside(section, name):
        case = next((case for case in record.peer_cases(section) if case["label"].startswith(name)), None)
        found = [(peer, best_of_peer(case, peer)) for peer in PEERS] if case else []
        return ", ".join(f"{peer} {entry['times_whet_best']:.1f} ×" for peer, entry in found if entry)

    square, cache = bench_case("prefill", "d=128 n=4096"), bench_case("decode", "f32 n=131072")
    rows4096, back = bench_case("rows", "n=4096"), bench_case("backward", "d=128 n=4096")
    plain, adaptive = (entry_of(square, name) for name in ("plain", "adaptive"))
    rows = [("attention, 4,096 × 4,096, head size 128",
             f"{plain['rate_best']:.0f} GFLOP/s, {percent(plain['of_FMA_peak']['best'])} of FMA peak; "
             f"adaptive takes {times(adaptive['times_plain']['best'])} times as long as softmax",
             beside("prefill", "prefill d=128 n=4096"))]
    plain = entry_of(cache, "plain")
    rows.append(("decoding over 131,072 keys",
                 f"{plain['rate_best']:.1f} GB/s, {percent(plain['of_read']['best'])} of read bandwidth",
                 beside("decode", "decode f32 n=131072")))
    plain = entry_of(rows4096, "plain")
    rows.append(("softmax of rows of 4,096",
                 f"{plain['rate_best']:.2f} ns a value, {times(plain['times_copy']['best'])} times as long as a copy",
                 beside("rows", "rows n=4096")))
    plain = entry_of(back, "plain")
    rows.append(("backward pass, 4,096 × 4,096",
                 f"{plain['rate_best']:.0f} GFLOP/s, {percent(plain['of_FMA_peak']['best'])} of FMA peak", ""))
    for case in record.llama or []:
        if (case["queries"], case["head_dim"], case["keys"], case["threads"]) == (1, 128, 32768, 1):
            rows.append(("attention for one token in llama.cpp, 32,768 keys, f16", f"{1e3 * case['softmax']:.1f} ms",
                         f"llama.cpp {case['llama'] / case['softmax']:.1f} ×"))
    processor = (f"One core of a virtual {record.bench['cpu']}" if record.run["virtual"]
                 else f"One core of {record.bench['cpu']}")
    intro = (f"{processor} ({record.bench['isa']}), {record.run['date']}, f32 unless noted. FMA peak is the\n"
             "core's maximum rate of fused multiply-adds. The last column is from another run, in which whet and\n"
             "the others took turns:\n\n")
    return intro + table(("what", "whet", "time of others, relative to whet"), rows)


TABLES = {"machine": machine, "limits": limits, "prefill": prefill, "maps": maps, "decode": decode,
          "rows": rows_of_logits, "backward": backward, "threads": threads, "training": training, "long": long,
          "peers": peers, "llama": llama, "caches": caches, "summary": summary}


# ---- files ----


def filled(text, record):
    """A document with all its tables written anew."""
    def write(found):
        return f"{found.group(1)}\n{TABLES[found.group(2)](record)}\n{found.group(3)}"

    return re.sub(r"(<!-- performance: (\w+) -->)\n.*?(<!-- end -->)", write, text, flags=re.S)


def files(record):
    """(path, text as it should be) of every file that the record decides on."""
    for name in DOCUMENTS:
        path = ROOT / name
        yield path, filled(path.read_text(encoding="utf-8"), record)
    yield ROOT / CHART, performance_chart.draw(record)


def write(record):
    for path, text in files(record):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


def stale(record):
    return [path.relative_to(ROOT) for path, text in files(record)
            if not path.exists() or path.read_text(encoding="utf-8") != text]


# ---- measuring ----


def cpu_field(name):
    found = re.search(rf"^{name}\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    return found.group(1) if found else "unknown"


def processor_caches():
    sizes = {}
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if (index / "type").read_text().strip() != "Instruction":
            sizes[f"L{(index / 'level').read_text().strip()}"] = (index / "size").read_text().strip()
    return ", ".join(f"{level} {size[:-1]} KiB" for level, size in sizes.items())


def describe_run(commands):
    release = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
    name = re.search(r'^PRETTY_NAME="(.*)"$', release, re.M).group(1)
    virtual = " hypervisor " in cpu_field("flags") + " "
    return {"date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "processor": f"family {cpu_field('cpu family')}, model {cpu_field('model')}",
            "cores": os.cpu_count(), "virtual": virtual, "caches": processor_caches(),
            "system": f"{name}, Linux {'.'.join(platform.release().split('.')[:2])}{', virtual machine' if virtual else ''}",
            "commands": commands}


def measure(folder, node_modules):
    # OpenBLAS chooses its kernels and blocks by itself: settings meant for another machine would slow the peers down.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    if node_modules:
        environment["NODE_PATH"] = node_modules
    commands = []
    for name, command in COMMANDS.items():
        words = command.format(python=sys.executable).split()
        if not (ROOT / words[0]).exists():
            print(f"{words[0]} is missing; its tables will be empty")
            (folder / f"{name}.json").unlink(missing_ok=True)
            continue
        subprocess.run(words, cwd=ROOT, env=environment, check=True)
        commands.append(command.format(python="python3"))
    (folder / "run.json").write_text(json.dumps(describe_run(commands), indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("measure", "write", "check"))
    parser.add_argument("--node-modules", metavar="FOLDER", help="where onnxruntime-node is installed (or NODE_PATH)")
    arguments = parser.parse_args()
    folder = ROOT / "docs/performance"
    if arguments.action == "measure":
        measure(folder, arguments.node_modules)
    record = Record(folder)
    if arguments.action != "check":
        write(record)
        return
    found = stale(record)
    for path in found:
        print(f"{path} does not match docs/performance/; run: bench/performance.py write")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
