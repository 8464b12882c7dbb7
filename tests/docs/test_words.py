"""Plain English: phrases that the style guide replaced do not come back."""

import re

from check import check, main, test
from documents import SOURCE

# Phrase -> what to write instead.
REPLACED = {
    r"the way back|led back through": "backward pass, gradients",
    r"the way forth|goes forth": "forward pass",
    r"\b(?:the|of|other|these) rooms?\b": "module",
    r"\blearnt\b": "learned",
    r"\bmended\b": "fixed",
    r"\bodd rows?\b": "non-finite row",
    r"\b(?:lies?|lie) side by side\b": "contiguous, interleaved",
    r"\bas many fewer\b": "the number",
    r"\bsome \d+(?: | ?%)": "about",
    r"\bfor want of\b|want of memory": "out of memory",
    r"\bis no setting of\b": "unknown setting",
    r"neighbours? on the host": "noise from other virtual machines",
    r"\bis told\b|\bare told\b|\btold of\b|\bis said\b": "prints, reports, was measured",
    r"\bheads? of max retrieval\b": "max-retrieval head",
    r"\bnumbers of (?:a|the) polic(?:y|ies)\b": "parameters of a policy",
    r"\bnot short enough\b": "too long",
    r"until this is mended|as in no text": "a direct statement",
    r"\bexclude each other\b|\bnot together with\b": "cannot be combined",
    r"\bpolicy's numbers\b|\bnumbers of (?:its|their) polic(?:y|ies)\b": "parameters of a policy",
}

# What users read: options, messages, pages, guides. Here numbers are not parameters either.
USER_PARTS = ("README.md", "CHANGELOG.md", "cli", "man", "web", "python/whet", "docs/guides", "examples")

REPLACED_FOR_USERS = {
    r"\b(?:share|shares|sharing) (?:their|its) numbers?\b|\bone number for (?:all heads|each (?:layer|head))\b|\bno numbers gain\b":
        "parameters",
    r"\blearned numbers\b": "learned parameters",
    r"\ba map behind it\b": "a map after it",
    r"\bmissing argument\b": "missing MODEL, FIGURE, ...",
    r"must be \d+ to|is not between|is not above|is negative\b": "is out of range (A to B)",
}

# Parts of the tree that have been rewritten.
PARTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench", "cli", "cmake", "docs", "examples", "fuzz", "include", "lab",
         "llama", "mpi", "plugin", "python", "src", "tests/abi", "tests/attention", "tests/base", "tests/bench", "tests/digest",
         "tests/isa", "tests/mpi", "tests/parallel", "tests/plugin", "tests/python", "tests/row", "tests/support", "tests/web",
         "tools", "web")

EXCEPT = ("story.txt", "versions.txt", "text.txt", ".json", ".svg", ".png", ".csv", ".heads", ".gguf", ".ipynb", ".so", ".wasm", ".tgz")


def sources(parts):
    for part in parts:
        path = SOURCE / part
        files = [path] if path.is_file() else path.rglob("*")
        yield from (file for file in files if file.is_file() and not file.name.endswith(EXCEPT)
                    and not {"__pycache__", "corpus", "node_modules"} & set(file.parts))


def found_in(text, replaced):
    """(phrase, replacement) of every phrase, also where it spans two lines of a paragraph."""
    joined = re.sub(r"\n[ \t]*(?:[*#]|//)?[ \t]*", lambda m: " " if m.group().count("\n") == 1 else m.group(), text)
    for pattern, better in replaced.items():
        for match in re.finditer(pattern, joined, re.I):
            yield match.group(), better


@test
def replaced_phrases_do_not_come_back():
    wrong, count = [], 0
    for parts, replaced in ((PARTS, REPLACED), (USER_PARTS, REPLACED_FOR_USERS)):
        for path in sources(parts):
            count += 1
            wrong += [f"{path.relative_to(SOURCE)}: '{phrase}': {better}"
                      for phrase, better in found_in(path.read_text(encoding="utf-8"), replaced)]
    check(not wrong, "\n     ".join(["", *wrong]))
    check(count > 100, f"only {count} files were read")


@test
def a_phrase_that_spans_two_lines_is_found():
    check(list(found_in("/* goes through the way\n * back */", REPLACED)), "not found in a comment")
    check(list(found_in("what was\nlearnt", REPLACED)), "not found in a paragraph")
    check(not list(found_in("at room temperature, learned, on the way home", REPLACED)), "found where it is not")


main()
