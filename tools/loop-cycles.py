#!/usr/bin/env python3
"""Predicts the cycles of a kernel file's inner loops with llvm-mca, for instruction sets that this processor lacks.

    tools/loop-cycles.py [--set avx512] [--cpu icelake-server] [--functions REGEX] [--show] BUILD [SOURCE]

Compiles SOURCE (default: src/isa/kernels.c for --set) to assembly with the commands of a configured build and simulates every
innermost vector loop with all data in the first-level cache. Prints its cycles per iteration, the bottleneck that llvm-mca
names, the number of instructions, and how many of them access the stack. An iteration of an unrolled loop does several steps,
as the counts of its instructions show. Needs llvm-mca (Debian package llvm).
"""
import argparse
import collections
import json
import re
import shlex
import shutil
import subprocess
import sys

ROUNDS = 200
KERNELS = "src/isa/kernels.c"


def assembly_of(build, source, isa):
    with open(f"{build}/compile_commands.json", encoding="utf-8") as file:
        entries = [e for e in json.load(file) if e["file"].endswith("/" + (source or KERNELS))]
    if not source:
        entries = [e for e in entries if f"/whet_kernels_{isa}.dir/" in e["command"]]
    if not entries:
        sys.exit(f"{build} has no command for {source or f'{KERNELS} with {isa}'}")
    entry = entries[0]
    words = shlex.split(entry["command"])
    at = words.index("-o")
    words[at + 1] = "-"
    words[words.index("-c")] = "-S"
    return subprocess.run(words, cwd=entry["directory"], check=True, capture_output=True, text=True).stdout.splitlines()


def functions_of(lines):
    """(name, first line, end) of each."""
    starts = [(m.group(1), i) for i, line in enumerate(lines) if (m := re.match(r"([A-Za-z_][\w.]*):", line))]
    ends = [start for _, start in starts[1:]] + [len(lines)]
    return [(name, start, end) for (name, start), end in zip(starts, ends)]


def innermost_loops(lines, start, end):
    """From a label to a jump back to it, where no other such stretch lies within."""
    labels, loops = {}, []
    for i in range(start, end):
        if m := re.match(r"(\.L\d+):", lines[i]):
            labels[m.group(1)] = i
        m = re.match(r"\s+j\w+\s+(\.L\d+)", lines[i])
        if m and m.group(1) in labels:
            loops.append((labels[m.group(1)], i))
    return [a for a in loops if not any(b != a and b[0] >= a[0] and b[1] <= a[1] for b in loops)]


def simulate(mca, cpu, instructions):
    """Cycles a round, and the bound."""
    done = subprocess.run([mca, f"-mcpu={cpu}", f"-iterations={ROUNDS}", "-noalias=true"], input="\n".join(instructions) + "\n",
                          capture_output=True, text=True, check=False)
    cycles = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    bound = re.search(r"Block RThroughput:\s+([\d.]+)", done.stdout)
    return (int(cycles.group(1)) / ROUNDS, float(bound.group(1))) if cycles and bound else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("source", nargs="?")
    parser.add_argument("--set", default="avx512", help="of src/isa/sets.def")
    parser.add_argument("--cpu", default="icelake-server")
    parser.add_argument("--functions", default=".")
    parser.add_argument("--show", action="store_true", help="print the loops, too")
    options = parser.parse_args()
    mca = next((found for name in ("llvm-mca", "llvm-mca-14") if (found := shutil.which(name))), None)
    if not mca:
        sys.exit("llvm-mca is not installed")
    lines = assembly_of(options.build, options.source, options.set)
    for name, start, end in functions_of(lines):
        if not re.search(options.functions, name):
            continue
        for first, last in innermost_loops(lines, start, end):
            instructions = [line for line in lines[first:last + 1] if re.match(r"\s+[a-z]", line)]
            vectors = [line for line in instructions if re.search(r"%[yz]mm", line)]
            simulated = simulate(mca, options.cpu, instructions) if vectors else None
            if not simulated:
                continue
            counts = collections.Counter(line.split()[0] for line in vectors)
            stack = sum("%rsp" in line or "%rbp" in line for line in vectors)
            print(f"{name}: {simulated[0]:.1f} cycles, bound {simulated[1]:.1f}, {len(instructions)} instructions, {stack} on the stack")
            print("    " + " ".join(f"{count} {word}" for word, count in counts.most_common()))
            if options.show:
                print("\n".join(instructions))


main()
