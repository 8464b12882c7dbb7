"""What documents refer to exists: links, anchors, paths, make targets and options; and their lines are short."""

import functools
import os
import re
import subprocess

from check import check, main, skip, test
from documents import SOURCE, blocks, documents, read, without_blocks

WIDTH = 100

# Records of what was: they name files, commands and options that are gone, or that never came to be.
RECORDS = ("CHANGELOG.md", "docs/notes/structure.md")


def complain_of(wrong):
    check(not wrong, "\n     ".join(["", *wrong]))


# ---- links ----


def anchors(name):
    """The anchors of a document's headings, as GitHub makes them."""
    for title in re.findall(r"^#+ (.*)$", without_blocks(read(name)), re.M):
        title = re.sub(r"[`*]|\[(.*?)\]\(.*?\)", r"\1", title)
        yield re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@test
def links_lead_somewhere():
    wrong = []
    for name in documents():
        for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(read(name))):
            if re.match(r"\w+:", target):
                continue
            path, _, anchor = target.partition("#")
            linked = (SOURCE / name).parent / path if path else SOURCE / name
            if not linked.exists():
                wrong.append(f"{name}: {target} does not exist")
            elif anchor and anchor not in anchors(linked.resolve().relative_to(SOURCE.resolve())):
                wrong.append(f"{name}: {target}: no such heading")
    complain_of(wrong)


# ---- paths ----

FOLDERS = ("bench|cli|cmake|completions|docs|examples|fuzz|include|lab|llama|man|mpi|plugin|python|src|tests|tools")
ENDINGS = r"c|h|cpp|inc|def|py|js|sh|md|txt|json|csv|svg|png|cmake|bash|fish|1"


def named_paths(text):
    """Paths of the project in code spans. A name in angle brackets stands for any."""
    for span in re.findall(r"`([^`\n]+)`", text):
        for word in re.split(r"[\s,;:()]+", span):
            if re.fullmatch(rf"(?:{FOLDERS})/[\w<>*./\[\]-]*", word):
                yield word


def exists(word):
    pattern = re.sub(r"<[^>]*>", "*", word).rstrip("/.")
    if any(SOURCE.glob(pattern)):
        return True
    # `src/policy/beta` names a pair of files, `lab/clrs/golden` a test as ctest has it.
    folder, _, stem = pattern.rpartition("/")
    places = (f"{folder}/{stem}.*", f"{folder}/test_{stem}.*", f"tests/{folder}/test_{stem}.*")
    return any(any(SOURCE.glob(place)) for place in places)


@test
def paths_exist():
    wrong = []
    for name in documents():
        if str(name) in RECORDS:
            continue
        for word in named_paths(without_blocks(read(name))):
            if not exists(word):
                wrong.append(f"{name}: {word} does not exist")
    complain_of(wrong)


@test
def files_of_a_module_exist():
    """In ARCHITECTURE.md a table under a heading with a folder in brackets names files of that folder."""
    wrong, count, folder = [], 0, None
    for line in read("docs/ARCHITECTURE.md").splitlines():
        heading = re.match(r"#+ .*\(([a-z_/]+)\)$", line) or re.match(r"\*\*.*\*\* \(`([a-z_/]+)`\)", line)
        if heading:
            folder = heading.group(1)
        elif line.startswith("#"):
            folder = None
        cell = re.match(r"\| ((?:`[\w.]+`(?:, )?)+) \|", line)
        for stem in re.findall(r"`([\w.]+)`", cell.group(1)) if cell and folder else []:
            count += 1
            if not any((SOURCE / folder).rglob(stem if "." in stem else f"{stem}.*")):
                wrong.append(f"{folder} has no file {stem}")
    complain_of(wrong)
    check(count > 80, f"only {count} names were found")


# ---- commands ----


@functools.lru_cache
def targets():
    text = (SOURCE / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z0-9-]*)(?: [a-z0-9 -]+)?:", text, re.M))


def spans(name):
    """Code spans and lines of code blocks."""
    yield from re.findall(r"`([^`\n]+)`", without_blocks(read(name)))
    for language, text, _ in blocks(name):
        if language in ("sh", "console"):
            yield from text.splitlines()


@test
def make_targets_exist():
    wrong = [f"{name}: make {target}" for name in documents() for span in spans(name)
             for target in re.findall(r"(?:^|[\s;&])make ([a-z][a-z0-9-]*)", span.split("#")[0])
             if target not in targets()]
    complain_of(wrong)


VERBS = {"retrieval", "clrs", "lm"}


@functools.lru_cache
def help_of(command):
    done = subprocess.run([os.environ["WHET_BIN"], *command, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def used(span):
    """(command, options) for each use of the program in a code span."""
    for part in re.split(r"[|;&]", re.sub(r"\s+#\s.*", "", span)):
        found = re.search(r"(?:^|\s|/)whet ([a-z][a-z0-9]*)((?:\s.*)?)$", part.strip())
        if found:
            words = found.group(2).split()
            verb = found.group(1) in VERBS or (found.group(1) == "bench" and words[:1] == ["clrs"])
            command = (found.group(1), *(words[:1] if verb and words and words[0].isalpha() else ()))
            yield command, [word.split("=")[0] for word in words if word.startswith("--")]


@test
def commands_and_options_exist():
    if not os.environ.get("WHET_BIN"):
        skip("the program is not built")
    wrong, count = [], 0
    for name in documents():
        if str(name) in RECORDS:
            continue
        for span in spans(name):
            for command, options in used(span):
                text = help_of(command)
                count += 1
                if text is None:
                    wrong.append(f"{name}: whet {' '.join(command)}: no such command ({span})")
                    continue
                wrong += [f"{name}: whet {' '.join(command)} has no option {option}" for option in options
                          if not re.search(rf"{re.escape(option)}(?![\w-])", text)]
    complain_of(wrong)
    check(count > 50, f"only {count} commands were found")


# ---- form ----


@test
def lines_are_short():
    wrong = []
    for name in documents():
        for number, line in enumerate(read(name).splitlines(), 1):
            prose = re.sub(r"!?\[[^\]]*\]\([^)]*\)|https?:\S+", "", line)
            if len(prose) > WIDTH and not line.startswith("|"):
                wrong.append(f"{name}:{number}: {len(line)} columns")
    complain_of(wrong)


@test
def readme_is_short():
    lines = read("README.md").count("\n")
    check(lines < 120, f"{lines} lines")


@test
def every_block_has_a_language():
    wrong = [f"{name}:{line}: what language?" for name in documents() for language, _, line in blocks(name)
             if language not in ("c", "console", "json", "python", "sh", "text")]
    complain_of(wrong)


main()
