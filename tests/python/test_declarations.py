# needs: pytest
"""The declarations of the Python package are those of whet.h: the file is what the generator writes, and layouts, constants and
functions are those recorded in tests/abi."""

import ctypes
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
from whet import _declarations as declarations

SOURCE = pathlib.Path(os.environ["WHET_SOURCE_DIR"])


def load_generator():
    spec = importlib.util.spec_from_file_location("declare_python", SOURCE / "python/declare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()


def recorded():
    """tests/abi/recorded.txt: version, functions, {struct: (size, {field: offset})}, constants."""
    version, functions, structs, constants, fields = None, set(), {}, {}, {}
    for line in (SOURCE / "tests/abi/recorded.txt").read_text().splitlines():
        words = line.split()
        if words[0] == "version":
            version = words[1]
        elif words[0] == "symbol":
            functions.add(words[1])
        elif words[0] == "struct":
            fields = {}
            structs[words[1]] = (int(words[2]), fields)
        elif words[0] == "constant":
            constants[words[1]] = int(words[2])
        else:
            fields[words[0]] = int(words[1])
    return version, functions, structs, constants


def test_the_file_is_what_the_generator_writes():
    header = (SOURCE / "include/whet.h").read_text()
    written = (SOURCE / "python/whet/_declarations.py").read_text()
    assert GENERATOR.declare(header) == written, "whet.h has changed: build again"


def test_structs_have_the_recorded_layout():
    _, _, structs, _ = recorded()
    assert len(structs) > 12
    for name, (size, fields) in structs.items():
        struct = getattr(declarations, GENERATOR.class_name(name))
        assert ctypes.sizeof(struct) == size, name
        assert {field.rstrip("_"): getattr(struct, field).offset for field, _ in struct._fields_} == fields, name


def test_constants_have_the_recorded_values():
    _, _, _, constants = recorded()
    assert len(constants) > 30
    for name, value in constants.items():
        assert getattr(declarations, name.removeprefix("WHET_")) == value, name


def test_every_recorded_function_is_declared_and_no_other():
    version, functions, _, _ = recorded()
    assert set(declarations.FUNCTIONS) == functions
    assert declarations.VERSION.startswith(version + ".")


@pytest.mark.parametrize("line, change", [
    ("    size_t stats_stride;", "    size_t stats_stride, another;"),
    ("    WHET_ERROR_MEMORY = 7", "    WHET_ERROR_MEMORY = 9"),
    ("WHET_API double whet_policy_beta(", "WHET_API float whet_policy_beta("),
])
def test_a_change_of_the_header_is_noticed(line, change):
    header = (SOURCE / "include/whet.h").read_text()
    assert line in header
    assert GENERATOR.declare(header) != GENERATOR.declare(header.replace(line, change))


def test_what_the_generator_does_not_understand_is_an_error(tmp_path):
    strange = tmp_path / "strange.h"
    strange.write_text((SOURCE / "include/whet.h").read_text().replace(
        "WHET_API const char *whet_isa(void);", "WHET_API const char *whet_isa(void) __attribute__((pure));"))
    done = subprocess.run([sys.executable, SOURCE / "python/declare.py", strange], capture_output=True, text=True)
    assert done.returncode != 0 and "do not understand" in done.stderr
