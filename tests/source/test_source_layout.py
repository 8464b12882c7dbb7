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

# What does not keep to the rules yet. These lists are to shrink: an entry that is no longer needed fails the test.
SAME_NAMES = {"backward.c"}
DECLARED_ELSEWHERE = {
    "whet_apply_beta",
    "whet_beta_path",
    "whet_beta_path_start",
    "whet_check_input",
    "whet_check_mask",
    "whet_check_output",
    "whet_check_stats",
    "whet_entmax_start",
    "whet_entmax_step",
    "whet_f32_row_backward",
    "whet_fill_description",
    "whet_map_entmax",
    "whet_map_hardmax",
    "whet_map_row",
    "whet_map_row_backward",
    "whet_map_sigmoid",
    "whet_map_softmax1",
    "whet_map_stick_breaking",
    "whet_map_topk",
    "whet_one_row",
    "whet_pipeline_rows",
    "whet_pipeline_takes",
    "whet_plan_backward",
    "whet_plan_decode",
    "whet_plan_prefill",
    "whet_policy_is_constant",
    "whet_policy_needs_count",
    "whet_policy_number_parse",
    "whet_policy_number_print",
    "whet_policy_weaken",
    "whet_row_backward",
    "whet_row_beta",
    "whet_row_block",
    "whet_row_describe",
    "whet_row_fill",
    "whet_row_finish_odd",
    "whet_row_flush",
    "whet_row_hold",
    "whet_row_load",
    "whet_row_max",
    "whet_row_moments",
    "whet_row_plan",
    "whet_row_store",
    "whet_rows_stream",
    "whet_run_backward_task",
    "whet_run_decode_task",
    "whet_run_prefill_task",
    "whet_shape_streams",
    "whet_short_rows",
    "whet_staged_rows",
    "whet_staged_take",
    "whet_stats_add",
    "whet_stats_after",
    "whet_stats_complete",
    "whet_stats_not_finite",
    "whet_target_start",
    "whet_target_step",
}


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


def compare(found, excepted, rule):
    check(not found - excepted, f"{rule}: {', '.join(sorted(found - excepted))}")
    check(not excepted - found, f"exceptions that are no longer needed: {', '.join(sorted(excepted - found))}")


@test
def the_functions_of_the_library_are_found():
    names = {name for name, _ in defined()}
    check(len(names) > 30 and "whet_kernels_get" in names, f"only {sorted(names)}")
    check(len(public()) > 40 and "whet_attention_run_task" in public(), f"only {sorted(public())}")


@test
def file_names_are_unique():
    count = collections.Counter(path.name for path in (SOURCE / "src").rglob("*.c"))
    compare({name for name, times in count.items() if times > 1}, SAME_NAMES, "more than one file in src/ is called")


@test
def functions_are_declared_in_the_header_of_their_file():
    headers = declared()
    wrong = set()
    for name, path in defined():
        allowed = {path.stem} | {word for word in PATH_HEADERS if re.match(rf"{word}(_|$)", path.stem)}
        if name not in CHOSEN_ELSEWHERE and not headers[name] & allowed:
            wrong.add(name)
    compare(wrong, DECLARED_ELSEWHERE, "not declared in the header named after the file that defines it")


main()
