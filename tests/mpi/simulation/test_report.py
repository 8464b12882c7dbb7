"""The simulated cluster computes what one process does, and the guide shows what the record says."""

import copy
import json
import os
import pathlib
import re
import shutil
import sys
import xml.etree.ElementTree

from check import check, main, skip, test

SOURCE = pathlib.Path(os.environ["WHET_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["WHET_BUILD_DIR"])
sys.path.insert(0, str(SOURCE / "mpi/simulation"))
import report


def needs_simulation():
    if not shutil.which("smpirun") or not (BUILD / "mpi/simulation/simulate").exists():
        skip("needs SimGrid's smpicc and smpirun (make setup-all)")


@test
def simulated_ranks_have_the_results_of_one_process():
    needs_simulation()
    check(report.results_agree(BUILD))


@test
def a_quick_run_has_a_row_for_every_cluster():
    needs_simulation()
    results = report.Results(report.run(BUILD, report.QUICK))
    lines = report.table(results, "decode").splitlines()
    check(len(lines) == 2 + len(report.QUICK["nodes"]) * len(report.QUICK["keys"]), lines)
    for line in lines[2:]:
        check(re.fullmatch(r"\| [\d,]+ \| [\d,]+ (\| [\d,.]+ (µs|ms|s) ){3}\|", line), line)
    slow, fast = (results.find(what="decode", policy="adaptive", ranks=ranks) for ranks in (16, 64))
    check(fast["task_seconds"] < slow["task_seconds"], "four times the nodes: less work for each")
    check((slow["messages"], fast["messages"]) == (8, 12), "two reductions of log2 nodes messages")
    for entry in results.entries:
        check(entry["seconds"] > entry["task_seconds"] > 0, entry)
        check(entry["seconds"] > entry["messages"] * report.NETWORKS[entry["network"]]["latency"], entry)


def record():
    return json.loads(report.RECORD.read_text(encoding="utf-8"))


@test
def the_guide_and_its_picture_match_the_record():
    found = report.stale(record())
    check(not found, f"run mpi/simulation/report.py write; not up to date: {', '.join(map(str, found))}")


@test
def another_record_changes_both():
    changed = copy.deepcopy(record())
    for entry in changed["entries"]:
        entry["seconds"] *= 3
    check(len(report.stale(changed)) == 2)


@test
def the_record_is_complete_and_its_picture_well_formed():
    results = report.Results(record())
    for what, sizes in (("decode", len(report.FULL["nodes"]) * len(report.FULL["keys"])),
                        ("prefill", len(report.FULL["prefill"]))):
        check(len(list(report.rows(results, what))) == sizes, what)
    lines = xml.etree.ElementTree.fromstring(report.picture(results)).iter("{http://www.w3.org/2000/svg}polyline")
    check(len(list(lines)) == 2 * len(report.FULL["keys"]) * len(report.NETWORKS))


main()
