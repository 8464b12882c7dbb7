"""bench/structs.py, the structs of whet.h for Python, against the header itself."""

import ctypes
import os
import pathlib
import re
import subprocess
import sys

from check import check, main, skip, test

SOURCE = pathlib.Path(os.environ["WHET_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "bench"))
import structs


def recorded():
    """What tools/abi.sh says of the header: {struct: (size, {field: offset})}, and {constant: value}."""
    cache = (pathlib.Path(os.environ["WHET_BUILD_DIR"]) / "CMakeCache.txt").read_text(encoding="utf-8")
    if "CMAKE_SYSTEM_NAME:" in cache:
        skip("this is a cross build")
    compiler = re.search(r"^CMAKE_C_COMPILER:[^=]*=(.*)$", cache, re.M).group(1)
    text = subprocess.run([SOURCE / "tools/abi.sh", SOURCE / "include/whet.h", os.environ["WHET_LIB"], compiler],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    layouts, constants = {}, {}
    for line in text.splitlines():
        words = line.split()
        if words[0] == "struct":
            fields = {}
            layouts[words[1]] = (int(words[2]), fields)
        elif words[0] == "constant":
            constants[words[1]] = int(words[2])
        elif line.startswith("    "):
            fields[words[0]] = int(words[1])
    return layouts, constants


@test
def sizes_and_fields_are_those_of_the_header():
    layouts, _ = recorded()
    for ours in structs.ALL:
        for name in ours.whet:
            size, fields = layouts[name]
            places = {field: getattr(ours, field).offset for field, _ in ours._fields_}
            if "input" in places:
                places["in"] = places.pop("input")
            check(ctypes.sizeof(ours) == size, f"{name}: {ctypes.sizeof(ours)} bytes, the header's has {size}")
            check(places == fields, f"{name}: fields at {places}, the header's are at {fields}")


@test
def constants_are_those_of_the_header():
    _, constants = recorded()
    for name in ("F32", "F16", "BF16", "CAUSAL", "PHASES_MAX"):
        check(getattr(structs, name) == constants["WHET_" + name], f"{name} is {constants['WHET_' + name]}")


main()
