# needs: numpy
"""bench/peers.py from end to end, at sizes that take no time."""

import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from check import check, main, skip, test

SOURCE = pathlib.Path(os.environ["WHET_SOURCE_DIR"])


@functools.lru_cache
def run_peers():
    """What it prints, and its report."""
    if os.environ.get("WHET_INSTRUMENTED"):
        skip("a library built with sanitizers cannot be loaded into python")
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "peers.json"
        command = [sys.executable, SOURCE / "bench/peers.py", "--tiny", "--lib", os.environ["WHET_LIB"], "--json", report]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        check(done.returncode == 0, f"status {done.returncode}: {done.stdout}")
        return done.stdout, json.loads(report.read_text(encoding="utf-8"))


@test
def every_section_is_measured():
    _, report = run_peers()
    sections = {case["section"] for case in report["cases"]}
    check(sections == {"rows", "prefill", "decode"}, f"only {sections}")
    for case in report["cases"]:
        names = {entry["name"] for entry in case["entries"]}
        check({"whet plain", "whet adaptive"} <= names, f"{case['label']}: only {names}")
        check(all(entry["seconds_best"] > 0 for entry in case["entries"]), f"{case['label']}: no time was taken")


@test
def the_package_is_measured():
    output, report = run_peers()
    figures = report["python"]
    check(figures["softmax_call_us"] > 0 and "one call of softmax on 16 values" in output, str(figures))
    if not report["torch"]:
        skip("needs torch")
    check(figures["attention_call_us"] > figures["attention_c_us"] > 0, str(figures))
    check(all(figures["training"][name]["seconds"] > 0 for name in ("whet", "torch")), str(figures))
    check(figures["training_gflops"] > 0, str(figures))


@test
def results_agree_with_torch_where_it_is_installed():
    output, report = run_peers()
    if not report["torch"]:
        skip("needs torch")
    check("differs" not in output, output)
    names = {entry["name"] for case in report["cases"] for entry in case["entries"]}
    check({"torch softmax", "torch composed", "torch adaptive, composed"} <= names, f"only {names}")


main()
