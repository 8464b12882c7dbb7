"""Every sentence with which the library refuses a call is one that tests/base/test_last_error_faults.c has caused."""

import os
import pathlib
import re
import subprocess
import tempfile

from check import check, main, skip, test

SOURCE = pathlib.Path(os.environ["WHET_SOURCE_DIR"])
PROGRAM = pathlib.Path(os.environ["WHET_BUILD_DIR"]) / "tests/base/test_last_error_faults"

# Sentences that no test can cause here, and why.
UNREACHED = {
    "queries is %zu: too many rows with %zu heads": "needs sizes of 32 bits",
    "%skeys is %zu: with %zu batches, %zu heads and %zu queries the workspace is larger than memory can be":
        "tensors that large do not fit the address range, which is checked first",
    "this processor lacks WHET_ISA '%.60s'; supported here: %s": "depends on the processor",
}
CALL = re.compile(r"\b(?:whet_refuse|whet_policy_refuse|refuse_beta)\(")
LITERALS = re.compile(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*')
CONVERSION = re.compile(r"%(?:\.\d+)?(?:zu|td|lld|lu|lx|u|d|g|s)")


def arguments(text, start):
    """The text between a call's parentheses."""
    depth, i = 1, start
    while depth > 0:
        if text[i] == '"':
            i = re.compile(r'"(?:[^"\\]|\\.)*"').match(text, i).end()
            continue
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        i += 1
    return text[start:i - 1]


def sentences():
    """Formats of all refusals in src/."""
    found = set()
    for path in sorted(SOURCE.glob("src/**/*.c")):
        text = path.read_text(encoding="utf-8").replace("FORWARD ", '"attention." ')
        for call in CALL.finditer(text):
            for literal in LITERALS.finditer(arguments(text, call.end())):
                joined = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literal.group()))
                if " " in joined:
                    found.add(joined)
    return found


@test
def every_refusal_is_caused_by_a_test():
    if not PROGRAM.exists():
        skip("test_last_error_faults is not built")
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder) / "sentences"
        run = subprocess.run([PROGRAM], env=dict(os.environ, WHET_TEST_SENTENCES=str(record)),
                             stdout=subprocess.PIPE, text=True, check=False)
        check(run.returncode == 0, run.stdout)
        caused = record.read_text(encoding="utf-8").splitlines()
    formats = sentences()
    check(len(formats) > 60, f"only {len(formats)} refusals found in src/")
    check(set(UNREACHED) <= formats, "UNREACHED names sentences that are not in src/")
    for sentence in sorted(formats):
        pattern = re.compile(".*".join(re.escape(part) for part in CONVERSION.split(sentence)))
        is_caused = any(pattern.search(text) for text in caused)
        check(is_caused or sentence in UNREACHED, f"no test causes: {sentence}")


main()
