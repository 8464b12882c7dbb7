"""The harness of check.h for tests written in Python:

    from check import test, skip, check, check_near, main

    @test
    def rows_agree_with_torch():
        check_near(ours, theirs, 1e-6)

    main()

A failed check ends its test. tests/support is on the path when ctest runs a test; a line "# needs: numpy torch" in the
file makes it run under an interpreter that has these modules, or be listed as skipped where there is none.
"""

import math
import sys
import traceback

_tests = []


class _Skipped(Exception):
    pass


class _Failed(Exception):
    pass


def test(function):
    _tests.append(function)
    return function


def skip(reason):
    raise _Skipped(reason)


def check(condition, message="not true"):
    if not condition:
        raise _Failed(message)


def check_near(actual, expected, tolerance, message=""):
    same = actual == expected or (math.isnan(actual) and math.isnan(expected))
    if not same and not abs(actual - expected) <= tolerance:
        raise _Failed(f"{message} {actual!r}, expected {expected!r} within {tolerance!r}".strip())


def main():
    chosen = [t for t in _tests if len(sys.argv) < 2 or any(word in t.__name__ for word in sys.argv[1:])]
    if sys.argv[1:] == ["--list"]:
        print("\n".join(t.__name__ for t in _tests))
        sys.exit(0)
    passed = failed = skipped = 0
    for function in chosen:
        sys.stdout.flush()
        try:
            function()
        except _Skipped as reason:
            skipped += 1
            print(f"skip {function.__name__}: {reason}")
        except Exception as error:
            failed += 1
            details = traceback.format_exc() if not isinstance(error, _Failed) else _where(error)
            print("\n".join("     " + line for line in details.rstrip().splitlines()))
            print(f"FAIL {function.__name__}")
        else:
            passed += 1
            print(f"ok   {function.__name__}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


def _where(error):
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {error}"
