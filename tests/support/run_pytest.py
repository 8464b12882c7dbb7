"""Runs one file of pytest's tests and reports as check.h does: one line a case, and a count.

    run_pytest.py FILE [part of a name ...]        or --list
"""

import contextlib
import io
import os
import pathlib
import sys

import pytest


class Report:
    def __init__(self):
        self.output = sys.stdout
        self.passed = self.failed = self.skipped = 0

    def pytest_collectreport(self, report):
        if report.failed:
            self.fail(report.nodeid, report)
        elif report.skipped:
            self.skip("all of it", report)

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.partition("::")[2]
        if report.failed:
            self.fail(name, report)
        elif report.skipped:
            self.skip(name, report)
        elif report.when == "call":
            self.passed += 1
            self.print(f"ok   {name}")

    def skip(self, name, report):
        self.skipped += 1
        self.print(f"skip {name}: {str(report.longrepr[2]).removeprefix('Skipped: ')}")

    def fail(self, name, report):
        self.failed += 1
        self.print("\n".join("     " + line for line in report.longreprtext.splitlines()))
        self.print(f"FAIL {name}")

    def print(self, text):
        print(text, file=self.output, flush=True)


def main():
    file, *words = sys.argv[1:]
    source = pathlib.Path(os.environ["WHET_SOURCE_DIR"])
    sys.path.insert(0, str(source / "python"))
    os.environ["PYTHONPATH"] = f"{source / 'python'}:{os.environ.get('PYTHONPATH', '')}"
    os.environ["WHET_LIBRARY"] = os.environ["WHET_LIB"]
    if words == ["--list"]:
        sys.exit(pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", file]))
    if os.environ.get("WHET_INSTRUMENTED"):
        print("skip all of it: a library built with sanitizers cannot be loaded into python\n0 passed, 0 failed, 1 skipped")
        return
    report = Report()
    chosen = ["-k", " or ".join(words)] if words else []
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["-p", "no:cacheprovider", "--tb=short", *chosen, file], plugins=[report])
    print(f"{report.passed} passed, {report.failed} failed, {report.skipped} skipped")
    sys.exit(1 if report.failed or not report.passed + report.skipped else 0)


main()
