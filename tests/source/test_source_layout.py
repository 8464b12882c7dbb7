"""Where things stand in src/: file names are unique, and a function is declared in the header named after its file."""

import collections
import os
import pathlib
import re

from check import check, main, test

SOURCE = pathlib.Path(os.environ["WHET_SOURCE_DIR"])

# Headers of one path through the library: prefill.h may declare what prefill_rows.c defines.
PATH_HEADERS = ("prefill", "decode", "backward")

# The header of the tables declares the functions that choose among them.
CHOSEN_ELSEWHERE = {"whet_kernels_get", "whet_kernels_named"}


def without_comments_and_strings(text):
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    text = re.sub(pattern, lambda m: '""' if m.group()[0] in "\"'" else " ", text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", text, flags=re.M)


def top_level(text):
    """The text outside of braces, each outermost pair of which is left as {}."""
    result, depth = [], 0
    for part in re.split(r"([{}])", without_comments_and_strings(text)):
        if part == "{":
            depth += 1
            if depth == 1:
                result.append("{")
        elif part == "}":
            depth -= 1
            if depth == 0:
                result.append("}")
        elif depth == 0:
            result.append(part)
    return "".join(result)


def functions(path, end):
    """Names of the functions that are not static and whose declarators are followed by `end`."""
    for found in re.finditer(r"([^;{}()]*?)\b(whet_\w+)\s*\([^{};]*\)\s*" + end, top_level(path.read_text(encoding="utf-8"))):
        before, name = found.groups()
        if not re.search(r"\b(static|typedef|return)\b|=", before) and before.strip():
            yield name


def public():
    """Without comments, everything from WHET_API to the bracket ends in a name."""
    text = without_comments_and_strings((SOURCE / "include/whet.h").read_text(encoding="utf-8"))
    return set(re.findall(r"WHET_API\s[^;(]*?(whet_\w+)\s*\(", text))


def defined():
    """(function, file) for each function of the library that only the library sees."""
    known = public()
    for path in sorted((SOURCE / "src").rglob("*.c")):
        for name in functions(path, r"\{"):
            if name not in known:
                yield name, path


def declared():
    result = collections.defaultdict(set)
    for path in (SOURCE / "src").rglob("*.h"):
        for name in functions(path, ";"):
            result[name].add(path.stem)
    return result


@test
def the_functions_of_the_library_are_found():
    names = {name for name, _ in defined()}
    check(len(names) > 30 and "whet_kernels_get" in names, f"only {sorted(names)}")
    check(len(public()) > 40 and "whet_attention_run_task" in public(), f"only {sorted(public())}")


@test
def file_names_are_unique():
    count = collections.Counter(path.name for path in (SOURCE / "src").rglob("*.c"))
    same = sorted(name for name, times in count.items() if times > 1)
    check(not same, f"more than one file in src/ is called: {', '.join(same)}")


@test
def functions_are_declared_in_the_header_of_their_file():
    headers = declared()
    wrong = []
    for name, path in defined():
        allowed = {path.stem} | {word for word in PATH_HEADERS if re.match(rf"{word}(_|$)", path.stem)}
        if name not in CHOSEN_ELSEWHERE and not headers[name] & allowed:
            wrong.append(name)
    check(not wrong, f"not declared in the header named after the file that defines it: {', '.join(sorted(wrong))}")


main()
