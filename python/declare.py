#!/usr/bin/env python3
"""Writes whet/_declarations.py: the constants, structs and functions of whet.h for ctypes.

    declare.py [WHET_H [FILE]]

It reads the header as it is written: one declaration a statement, comments in /* */. Whatever it does not recognise is an
error. Pointers are addresses (c_void_p), except for texts and for what a function returns. A field whose name is a keyword
of Python gets an underscore. The build and the package's build backend run it, so the file is not kept in git;
tests/python/test_declarations.py compares it with tests/abi/recorded.txt.
"""

import errno
import keyword
import os
import pathlib
import re
import sys

SIMPLE = {"double": "c_double", "float": "c_float", "int": "c_int", "unsigned": "c_uint", "unsigned char": "c_ubyte",
          "size_t": "c_size_t", "ptrdiff_t": "c_ssize_t", "int64_t": "c_int64", "uint64_t": "c_uint64",
          "uint32_t": "c_uint32", "void": "None"}


def fail(what):
    sys.exit(f"declare.py: do not understand: {' '.join(what.split())}")


def statements(text):
    """The declarations of a header, without comments and directives; those in braces stay whole."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r'^extern "C" \{$|^#.*\n', "", text, flags=re.M)
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if character == ";" and depth == 0:
            yield " ".join(text[start:at].split())
            start = at + 1


def class_name(name):
    return "".join(word.capitalize() for word in name.removeprefix("whet_").split("_"))


class Declarations:
    def __init__(self):
        self.enums, self.structs, self.callbacks = set(), set(), set()
        self.constants, self.lines, self.functions = {}, [], []

    def type_of(self, words, for_result=False):
        """The ctypes name of a C type."""
        is_text = words.startswith("const char *")
        words = " ".join(re.sub(r"\bconst\b", "", words).replace("*", " * ").split())
        if is_text:
            return "c_char_p"
        if words.endswith("*"):
            target = words.removesuffix(" *")
            return f"POINTER({class_name(target)})" if for_result and target in self.structs else "c_void_p"
        if words in self.callbacks:
            return "c_void_p"
        if words in self.enums:
            return "c_int"
        if words in self.structs:
            return class_name(words)
        return SIMPLE.get(words) or fail(words)

    def parameter(self, words):
        return self.type_of(re.sub(r"\w+$", "", words))

    def count(self, words):
        return eval(re.sub(r"WHET_\w+", lambda name: str(self.constants[name.group()]), words), {"__builtins__": {}})

    def fields(self, body, inner):
        """(name, type) of each field; a union inside goes to `inner` first."""
        for union in re.findall(r"union \{.*?\} \w+;", body):
            union_body, name = re.fullmatch(r"union \{(.*)\} (\w+);", union).groups()
            inner.append((name, list(self.fields(union_body, inner))))
            body = body.replace(union, f"union {name};")
        for field in filter(None, (part.strip() for part in body.split(";"))):
            union = re.fullmatch(r"union (\w+)", field)
            function = re.fullmatch(r"\w+ \(\*(\w+)\)\(.*\)", field)
            plain = re.fullmatch(r"(.*?[ *])((?:\w+(?:\[[^]]*\])?(?:, )?)+)", field)
            if union:
                yield union.group(1), class_name(union.group(1))
            elif function:
                yield function.group(1), "c_void_p"
            elif plain:
                for name, length in re.findall(r"(\w+)(?:\[([^]]*)\])?", plain.group(2)):
                    kind = self.type_of(plain.group(1))
                    yield name, f"{kind} * {self.count(length)}" if length else kind
            else:
                fail(field)

    def aggregate(self, base, name, fields):
        self.lines += ["", "", f"class {class_name(name)}({base}):", "    _fields_ = ["]
        for field, kind in fields:
            self.lines.append(f'        ("{field}_", {kind}),' if keyword.iskeyword(field) else f'        ("{field}", {kind}),')
        self.lines.append("    ]")

    def read(self, statement):
        enum = re.fullmatch(r"(?:typedef )?enum (\w*) ?\{(.*)\} ?(\w*)", statement)
        struct = re.fullmatch(r"(?:typedef )?struct (\w+) \{(.*)\} ?\w*", statement)
        callback = re.fullmatch(r"typedef (\w+) \(\*(\w+)\)\((.*)\)", statement)
        function = re.fullmatch(r"WHET_API (.*?[ *])(\w+)\((.*)\)", statement)
        if enum:
            self.enums.add(enum.group(3))
            for entry in filter(None, (entry.strip() for entry in enum.group(2).split(","))):
                name, value = entry.split(" = ")
                self.constants[name] = int(value.rstrip("u"))
        elif struct:
            inner = []
            fields = list(self.fields(struct.group(2), inner))
            for name, members in inner:
                self.aggregate("Union", name, members)
            self.structs.add(struct.group(1))
            self.aggregate("Structure", struct.group(1), fields)
        elif callback:
            result, name, parameters = callback.groups()
            self.callbacks.add(name)
            kinds = ", ".join([self.type_of(result)] + [self.parameter(words) for words in parameters.split(", ")])
            self.lines += ["", "", f"{class_name(name)} = CFUNCTYPE({kinds})"]
        elif function:
            result, name, parameters = function.groups()
            kinds = [] if parameters == "void" else [self.parameter(words) for words in parameters.split(", ")]
            listed = f"({kinds[0]},)" if len(kinds) == 1 else f"({', '.join(kinds)})"
            self.functions.append(f'    "{name}": ({self.type_of(result, True)}, {listed}),')
        elif not re.fullmatch(r"typedef struct \w+ \w+|\}?", statement):
            fail(statement)


def declare(header):
    """The text of the module."""
    found = Declarations()
    defines = dict(re.findall(r"^#define (WHET_\w+) (\d+)$", header, re.M))
    version = ".".join(defines.pop(f"WHET_VERSION_{part}") for part in ("MAJOR", "MINOR", "PATCH"))
    found.constants = {name: int(value) for name, value in defines.items()}
    for statement in statements(header):
        found.read(statement)
    names = sorted(set(re.findall(r"\b(?:c_\w+|POINTER|CFUNCTYPE|Structure|Union)\b", "\n".join(found.lines + found.functions))))
    constants = [f"{name.removeprefix('WHET_')} = {value}" for name, value in found.constants.items()]
    return "\n".join([
        '"""The constants, structs and functions of whet.h for ctypes.',
        "",
        "Written by python/declare.py when whet is built.",
        '"""', "", "from ctypes import (", *[f"    {name}," for name in names], ")", "from typing import Any, Dict, Tuple", "",
        f'VERSION = "{version}"', "", *constants, *found.lines, "", "",
        "# name: (result, parameters)", "FUNCTIONS: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {", *found.functions, "}", ""])


def write(header, file):
    """Writes the module, whole or not at all."""
    text = declare(header.read_text(encoding="utf-8"))
    part = file.with_name(f"{file.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def main():
    here = pathlib.Path(__file__).resolve().parent
    defaults = here.parent / "include" / "whet.h", here / "whet" / "_declarations.py"
    given = [pathlib.Path(argument) for argument in sys.argv[1:]]
    header, file = *given, *defaults[len(given):]
    try:
        write(header, file)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES):
            raise
        # Sources that cannot be written to are built elsewhere; only the package needs the file.
        print(f"declare.py: {file} was not written, so the Python package does not run from here: {error.strerror}", file=sys.stderr)


if __name__ == "__main__":
    main()
