#!/usr/bin/env python3
"""Simulates decode and prefill on clusters that are not here, and writes the tables and the picture of docs/guides/mpi.md.

    mpi/simulation/report.py run [--quick] [--build build/release]    simulate, then write (--quick: a minute, prints only)
    mpi/simulation/report.py write                                    write tables and picture from the record
    mpi/simulation/report.py check                                    report what does not match the record

The record is docs/performance/mpi-simulation.json. Every run is a process of SimGrid's smpirun, in which all ranks of one
cluster execute libwhet_mpi (simulate.c). Beside the simulated time stands a model on paper: the tasks' time on the smallest
cluster, divided by the nodes, and for every message the latency of the longest path and its bytes over the bandwidth of a
node's link; nothing else.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
from html import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECORD = ROOT / "docs/performance/mpi-simulation.json"
GUIDE = ROOT / "docs/guides/mpi.md"
PICTURE = ROOT / "docs/performance/mpi-simulation.svg"

CORES = 16
GROUP = 16  # nodes at one switch of the lower level
POLICIES = ("softmax", "adaptive")

# Bandwidth of a link in bytes a second, its latency, the CPU time of sending or receiving a message; and the switches of the
# upper level with the cables from each to a lower one. 16 switches are as many as nodes below: no path is shorter of
# bandwidth than another. One switch with four cables serves 16 nodes by the bandwidth of four.
NETWORKS = {
    "100 Gb/s fat tree": {"bandwidth": 12.5e9, "latency": 5e-7, "overhead": 5e-7, "switches": 16, "cables": 1},
    "10 Gb/s Ethernet": {"bandwidth": 1.25e9, "latency": 1e-5, "overhead": 5e-6, "switches": 1, "cables": 4},
}

FULL = {"nodes": (16, 64, 256, 1024), "keys": (1 << 20, 1 << 23, 1 << 26), "prefill": (16, 64, 256, 1024), "share": 4096,
        "networks": tuple(NETWORKS)}
QUICK = {"nodes": (16, 64), "keys": (1 << 20,), "prefill": (16,), "share": 1024, "networks": tuple(NETWORKS)[:1]}


# ---- running ----


def platform(network, nodes):
    return f"""<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="all" routing="Full">
    <cluster id="cluster" prefix="node-" suffix="" radical="0-{nodes - 1}" speed="1Gf" bw="{network['bandwidth']:.0f}Bps"
             lat="{network['latency']:.9f}s" topology="FAT_TREE"
             topo_parameters="2;{GROUP},{nodes // GROUP};1,{network['switches']};1,{network['cables']}"/>
  </zone>
</platform>
"""


def simulate(build, network, nodes, ranks, *arguments, computed=False, timed=False):
    """One line of simulate's JSON. `computed`: everything is computed, in memory of each rank's own. `timed`: SMPI times what
    is not a task."""
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder)
        (files / "platform.xml").write_text(platform(network, nodes), encoding="utf-8")
        (files / "hosts").write_text("".join(f"node-{i}\n" for i in range(nodes)), encoding="utf-8")
        overhead = f"0:{network['overhead']}:0"
        settings = {"smpi/host-speed": "1Gf", "smpi/shared-malloc": "off" if computed else "global",
                    "smpi/shared-malloc-blocksize": 1 << 26, "smpi/bw-factor": "0:1", "smpi/lat-factor": "0:1",
                    "smpi/cpu-threshold": 1e-6 if timed else 1e9, "smpi/os": overhead, "smpi/or": overhead, "smpi/tmpdir": folder}
        command = ["smpirun", "-no-privatize", "-platform", str(files / "platform.xml"), "-hostfile", str(files / "hosts"), "-np", str(ranks),
                   *(f"--cfg={name}:{value}" for name, value in settings.items()), "--log=root.thresh:critical",
                   str(pathlib.Path(build).resolve() / "mpi/simulation/simulate"), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if len(lines) != 1:
        sys.exit(f"report.py: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(lines[0])


def results_agree(build):
    """Whether several ranks have the bits of one, and nearly those of libwhet without MPI. Prints each comparison."""
    network, good = NETWORKS["100 Gb/s fat tree"], True
    for what, positions in (("decode", 4096), ("prefill", 1024)):
        for policy in POLICIES:
            runs = [simulate(build, network, GROUP, ranks, what, policy, positions, computed=True) for ranks in (1, 7, 16)]
            same = len({run["digest"] for run in runs}) == 1
            off = max(run["difference"] for run in runs)
            good = good and same and 0 < off < 1e-5
            print(f"{what}, {policy}: 1, 7 and 16 ranks {'agree' if same else 'DIFFER'}; {off:.1e} from one process")
    return good


def overheads(build):
    """Seconds of decode that are not in tasks: for an execution, and for each message of a reduction. They are timed on two
    and on four ranks: the memory of hundreds, in one process, would not be in the caches where that of a node is."""
    network = {**NETWORKS["100 Gb/s fat tree"], "overhead": 0}

    def rest(ranks):
        runs = [simulate(build, network, GROUP, ranks, "decode", "adaptive", ranks << 14, CORES, timed=True) for _ in range(7)]
        runs.sort(key=lambda entry: entry["seconds"] - entry["task_seconds"])
        return runs[3], runs[3]["seconds"] - runs[3]["task_seconds"]

    two, four = rest(2), rest(4)
    messages = two[0]["messages"]  # half of four's
    each = max((four[1] - two[1]) / messages, 0)
    sent = 2 * network["latency"] + two[0]["bytes"] / messages / network["bandwidth"]
    return max(two[1] - messages * each, 0), max(each - sent, 0)


def run(build, scale):
    entries = []
    execution, message = overheads(build)
    for name in scale["networks"]:
        cases = [("decode", nodes, keys) for keys in scale["keys"] for nodes in scale["nodes"]]
        cases += [("prefill", nodes, nodes * scale["share"]) for nodes in scale["prefill"]]
        for what, nodes, positions in cases:
            for policy in POLICIES:
                entry = simulate(build, NETWORKS[name], nodes, nodes, what, policy, positions, CORES,
                                 *([execution, message] if what == "decode" else []))
                entries.append({"network": name, **entry})
                print(f"{name}: {what}, {policy}, {nodes} nodes, {positions:,} positions: {entry['seconds'] * 1e6:,.0f} us",
                      file=sys.stderr)
    return {"cores": CORES, "execution_seconds": execution, "message_seconds": message, "entries": entries}


# ---- the model on paper ----


class Results:
    def __init__(self, record):
        self.entries = record["entries"]
        self.networks = list(dict.fromkeys(entry["network"] for entry in self.entries))

    def find(self, **wanted):
        return next((entry for entry in self.entries if all(entry[key] == value for key, value in wanted.items())), None)

    def values(self, what, key):
        return sorted({entry[key] for entry in self.entries if entry["what"] == what})

    def model(self, entry):
        """Seconds on paper."""
        network, ranks = NETWORKS[entry["network"]], entry["ranks"]
        latency = 4 * network["latency"] + 2 * network["overhead"]
        messages = entry["messages"] * latency + entry["bytes"] / network["bandwidth"]
        alike = [other for other in self.entries if all(other[key] == entry[key] for key in ("what", "policy", "network"))]
        if entry["what"] == "decode":
            first = min((other for other in alike if other["positions"] == entry["positions"]), key=lambda x: x["ranks"])
            return first["task_seconds"] * first["ranks"] / ranks + messages
        first = min(alike, key=lambda x: x["ranks"])
        return max(first["task_seconds"] * ranks / first["ranks"], messages)


# ---- tables and picture ----


def seconds(value):
    return f"{value * 1e6:,.0f} µs" if value < 1e-3 else f"{value * 1e3:,.2f} ms" if value < 1 else f"{value:,.2f} s"


def rows(results, what):
    for positions in results.values(what, "positions"):
        for ranks in results.values(what, "ranks"):
            cells = [f"{positions:,}", f"{ranks:,}"]
            for network in results.networks:
                found = [results.find(what=what, positions=positions, ranks=ranks, network=network, policy=policy)
                         for policy in POLICIES]
                if not all(found):
                    break
                cells += [*(seconds(entry["seconds"]) for entry in found), seconds(results.model(found[1]))]
            else:
                yield cells


def table(results, what):
    titles = ["keys" if what == "decode" else "positions", "nodes"]
    for network in results.networks:
        titles += [f"{network}: softmax", "adaptive", "on paper"]
    lines = [titles, ["--:"] * len(titles), *rows(results, what)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP = 860, 420, 62, 56, 52, 70
COLOURS = ("#1f5fa8", "#d9822b", "#5b8c3a")


def text(x, y, words, size=12, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="#222">{escape(words)}</text>'


def line(points, colour, dashed=False):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"'
            f'{" stroke-dasharray=" + chr(34) + "5 4" + chr(34) if dashed else ""}/>')


def panel(results, network, left, width):
    """Decode with adaptive temperature: time over nodes, both in powers."""
    found = [entry for entry in results.entries if entry["what"] == "decode" and entry["policy"] == "adaptive"]
    nodes = sorted({entry["ranks"] for entry in found})
    times = [value for entry in found for value in (entry["seconds"], results.model(entry))]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    height = HEIGHT - TOP - BOTTOM

    def place(ranks, value):
        across = math.log(ranks / nodes[0]) / math.log(nodes[-1] / nodes[0]) if len(nodes) > 1 else 0.5
        return left + width * across, TOP + height * (high - math.log10(value)) / (high - low)

    yield text(left + width / 2, TOP - 12, network, 13)
    for power in range(low, high + 1):
        y = place(nodes[0], 10.0 ** power)[1]
        yield f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#d8dbe0"/>'
        yield text(left - 6, y + 4, seconds(10.0 ** power).replace(".00", ""), 11, "end")
    for ranks in nodes:
        yield text(place(ranks, 1)[0], HEIGHT - BOTTOM + 18, f"{ranks:,}", 11)
    yield text(left + width / 2, HEIGHT - 12, "nodes")
    for keys, colour in zip(results.values("decode", "positions"), COLOURS):
        own = sorted((e for e in found if e["positions"] == keys and e["network"] == network), key=lambda e: e["ranks"])
        yield line([place(e["ranks"], e["seconds"]) for e in own], colour)
        yield line([place(e["ranks"], results.model(e)) for e in own], colour, True)
        yield text(left + 12, place(nodes[0], own[0]["seconds"])[1] - 6, f"{keys:,} keys", 11, "start")


def picture(results):
    width = (WIDTH - LEFT - GAP - 16) / 2
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             text(WIDTH / 2, 22, "One token's attention, adaptive: simulated (lines) and on paper (dashed)", 14)]
    for i, network in enumerate(results.networks):
        parts += panel(results, network, LEFT + i * (width + GAP), width)
    return "\n".join([*parts, "</svg>\n"])


def written(record):
    """The files as they should be: {path: content}."""
    results, guide = Results(record), GUIDE.read_text(encoding="utf-8")
    for what in ("decode", "prefill"):
        before, begin, rest = guide.partition(f"<!-- mpi-simulation: {what} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not end:
            sys.exit(f"report.py: {GUIDE}: no place for the table of {what}")
        guide = before + begin + table(results, what) + end + after
    return {GUIDE: guide, PICTURE: picture(results)}


def stale(record):
    return [path for path, content in written(record).items()
            if not path.exists() or path.read_text(encoding="utf-8") != content]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "write", "check"))
    parser.add_argument("--quick", action="store_true", help="small clusters; prints and writes nothing")
    parser.add_argument("--build", default=ROOT / "build/release", help="folder of the build (default build/release)")
    given = parser.parse_args()
    if given.action == "run":
        if not results_agree(given.build):
            sys.exit("report.py: results of simulated ranks are wrong")
        record = run(given.build, QUICK if given.quick else FULL)
        if given.quick:
            results = Results(record)
            print(table(results, "decode"), table(results, "prefill"), picture(results), sep="\n", end="")
            return
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    if given.action == "check":
        found = stale(record)
        if found:
            sys.exit("report.py: run mpi/simulation/report.py write; not up to date: " + ", ".join(map(str, found)))
        return
    for path, content in written(record).items():
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
