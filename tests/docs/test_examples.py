"""Every code block of README.md and the guides is run: commands, programs, settings.

A block of `python` is run after those above it in the same document; a block of `text` right below it is what it prints.
A block of `console` has commands after "$ " and, below each, exactly what it prints. Commands of a block of `sh` have to
succeed. Commands run one after the other in a folder of the document's own, with the program and the library of this
build as if they were installed. Where a command would take minutes, need a network or change the system, STAND_INS has a
command of the same kind that does not. llama.cpp's programs are played by tests/plugin/driver, on libllama itself.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from check import check, main, skip, test
from documents import SOURCE, blocks, documents, read

BUILD = pathlib.Path(os.environ["WHET_BUILD_DIR"])
GUIDES = ("README.md", "CONTRIBUTING.md", "docs/CLRS_TEXT.md", "docs/INSTALL.md", "docs/LEAGUE.md", "docs/PERFORMANCE.md",
          "docs/RELEASING.md", "docs/REPRODUCTION.md", "docs/TESTING.md", "docs/TUNING.md", "docs/add-a-kernel.md",
          "docs/add-a-policy.md", "docs/embedding.md", "docs/guides/mpi.md", "docs/llama.cpp.md", "docs/mathematics.md",
          "docs/polynomial.md", "docs/python.md", "docs/ties.md",
          "docs/tutorial.md", "python/README.md")

# What is run instead of commands that match; None: not run, for the reason beside it.
STAND_INS = (
    (r"make (\S+).*", rf"make -C {SOURCE} -n \1"),
    (r"(python3 -m venv) (.*)", r"\1 --without-pip \2"),
    (r"env/bin/pip install .*", None),  # compiles the library; tests/python/test_wheel.py runs it
    (r"npm install .*|apt-get .*", None),  # fetches from a network
    (r"mpicc .*|mpirun .*", None),  # tests/mpi runs them, where there is an MPI
    (r"git worktree add .*|\(cd \.\./whet-before .*|cmake --build .*|tools/compare-builds .*", None),  # builds for minutes
    (r"tools/digest .*", None),  # runs for minutes
    (r"git (?:tag|push) .*|sha256sum build/dist/.*", None),  # publishes a release
    (r"(whet bench)(?: .*)?", r"\1 --help"),
    (r"(whet reproduce|whet figure|whet lm \w+|whet probe)(?: .*)?", r"\1 --help"),
    (r"(whet league) --list", r"\1 --list"),
    (r"(whet league) [\s\S]*", r"\1 --help"),  # tests/cli/test_league.sh runs it
    (r"(whet tune) .*", r"\1 --help"),  # tests/cli/test_tune.sh runs it; a file for the commands behind it is there
    (r"python3 bench/peers\.py.*", None),  # tests/bench/test_peers.py runs it
    (r"(python3 bench/performance\.py)(?: .*)?", r"\1 check"),
    (r"(build/fuzz/\S+) .*", None),  # needs another build
)


def without_remark(command):
    bare = re.sub(r"\s+#.*$", "", command).strip()
    return re.sub(r"\S*build/release/whet\b", "whet", bare)


def stand_in(command):
    """What to run for a command, or None."""
    place = without_remark(command)
    for pattern, replacement in STAND_INS:
        found = re.fullmatch(pattern, place)
        if found:
            return found.expand(replacement) if replacement else None
    return place


# ---- where commands run ----

PKG_CONFIG = """#!/bin/sh
echo "-I{source}/include -L{build} -lwhet"
"""

# -m MODEL, and -p PROMPT or -f FILE; the rest is for the real program.
LLAMA = """#!/bin/bash
while [ $# -gt 0 ]; do
    case $1 in
    -m) model=$2; shift ;;
    -p) mode=(greedy "$2"); shift ;;
    -f) mode=(text "$2"); shift ;;
    esac
    shift
done
for name in "${{!WHET_@}}"; do
    case $name in WHET_POLICY|WHET_STRENGTH|WHET_LAYERS|WHET_HEADS|WHET_CONFIG|WHET_STATS|WHET_STATS_ROWS|WHET_VERBOSE) ;;
    *) unset "$name" ;; esac
done
exec env LLAMA_LIBRARIES={libraries} {driver} "$model" "${{mode[@]}}" --tokens 8 --threads 1
"""


def write_program(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def model():
    """A small language model, or None."""
    path = pathlib.Path(os.environ.get("WHET_MODELS", "")) / "stories260K-f32.gguf"
    return path if os.environ.get("WHET_MODELS") and path.exists() else None


class Place:
    """A folder with what commands of a document find: programs on the path, a model, a text."""

    def __init__(self, folder, name):
        self.folder = pathlib.Path(folder)
        self.name = name
        programs = self.folder / "programs"
        programs.mkdir()
        (programs / "whet").symlink_to(os.environ["WHET_BIN"])
        write_program(programs / "pkg-config", PKG_CONFIG.format(source=SOURCE, build=BUILD))
        if os.environ.get("WHET_LLAMA_DRIVER"):
            text = LLAMA.format(driver=os.environ["WHET_LLAMA_DRIVER"], libraries=os.environ.get("WHET_LLAMA_LIB", ""))
            for program in ("llama-cli", "llama-perplexity"):
                write_program(programs / program, text)
        for link in ("Makefile", "bench", "tools"):
            (self.folder / link).symlink_to(SOURCE / link)
        if model():
            (self.folder / "model.gguf").symlink_to(model())
        shutil.copy(SOURCE / "tests/plugin/story.txt", self.folder / "text.txt")
        for file in sorted((SOURCE / "tests/docs/files").glob("*")):
            shutil.copy(file, self.folder / file.name)
        self.environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}", LC_ALL="C",
                                LD_LIBRARY_PATH=str(BUILD), PYTHONDONTWRITEBYTECODE="1")

    def run(self, command, line):
        """What a command prints on standard output; None if it needs a model and there is none."""
        if re.search(r"\bllama-|model\.gguf", command) and "--help" not in command:
            if not model() or not os.environ.get("WHET_LLAMA_DRIVER"):
                return None
        exported = re.fullmatch(r"export GGML_BACKEND_PATH=(\S+)", command)
        if exported:
            check(exported.group(1).endswith("/libggml-whet.so"), f"{self.name}:{line}: {command}")
            self.environment["GGML_BACKEND_PATH"] = os.environ.get("WHET_PLUGIN", "")
            return ""
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], cwd=self.folder, env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
        check(done.returncode == 0, f"{self.name}:{line}: {command}: status {done.returncode}\n{done.stderr}")
        if "llama-" in command:
            policy = "[1-9]" if re.search("WHET_POLICY|WHET_CONFIG", command) else "0"
            check(re.search(rf"whet: [1-9]\d* attention operations handled, {policy}", done.stderr),
                  f"{self.name}:{line}: {command}: nothing went through whet: {done.stderr}")
        return done.stdout


def commands_of(language, text, first):
    """(command, expected output or None, line) of a block."""
    if language == "sh":
        for number, line in enumerate(text.splitlines(), first):
            if line.strip() and not line.lstrip().startswith("#"):
                yield line, None, number
        return
    lines = text.splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)]):
        yield lines[start][2:].rstrip("\n"), "".join(lines[start + 1:end]), first + start


NUMBER = r"-?\d+\.\d+(?:e[-+]?\d+)?"


def same(printed, expected):
    """Whether texts are equal but for the last digits of numbers, in which instruction sets differ."""
    if re.split(NUMBER, printed) != re.split(NUMBER, expected):
        return False
    pairs = zip(re.findall(NUMBER, printed), re.findall(NUMBER, expected))
    return all(abs(float(a) - float(b)) <= 1e-6 * abs(float(b)) for a, b in pairs)


def run_blocks(name):
    """Runs all commands of a document; how many there were, and how many of them need a model that is missing."""
    count = left_out = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, name)
        for language, text, first in blocks(name):
            if language == "c" and re.search(r"\bint main\b", text):
                (place.folder / "example.c").write_text(text, encoding="utf-8")
            if language not in ("sh", "console"):
                continue
            for command, expected, line in commands_of(language, text, first):
                replaced = stand_in(command)
                if replaced is None:
                    continue
                printed = place.run(replaced, line)
                count += 1
                left_out += printed is None
                if expected is not None and printed is not None:
                    check(same(printed, expected), f"{name}:{line}: {command} printed:\n{printed}")
    return count, left_out


def runs(at_least, *names):
    """Runs the commands of documents, of all of them before it reports what could not be run."""
    if os.environ.get("WHET_INSTRUMENTED"):
        skip("a library built with sanitizers cannot be linked to an example")
    if not os.environ.get("WHET_BIN"):
        skip("the program is not built")
    counts = [run_blocks(name) for name in names]
    count, left_out = (sum(numbers) for numbers in zip(*counts))
    check(count >= at_least, f"{', '.join(names)}: only {count} commands were found")
    if left_out:
        skip(f"{left_out} of {count} commands need WHET_MODELS and llama.cpp's library; the others were run")


@test
def commands_of_the_readme():
    runs(9, "README.md")


@test
def commands_of_the_guide_to_llama_cpp():
    runs(5, "docs/llama.cpp.md")


@test
def commands_of_the_guide_to_clrs_text():
    runs(3, "docs/CLRS_TEXT.md")


@test
def commands_of_other_documents():
    runs(30, *(name for name in GUIDES if name not in ("README.md", "docs/llama.cpp.md", "docs/CLRS_TEXT.md")))


# ---- Python ----

MARK = "---- end of a block ----"


def python_blocks(name):
    """(code, what it prints, line) of each block of Python."""
    found = list(blocks(name))
    lines = read(name).splitlines()
    for i, (language, text, line) in enumerate(found):
        if language == "python":
            below = found[i + 1] if i + 1 < len(found) else ("", "", 0)
            end = line + text.count("\n")  # of the fence
            is_output = below[0] == "text" and not any(words.strip() for words in lines[end:below[2] - 2])
            yield text, below[1] if is_output else "", line


def run_python(name):
    """Runs the blocks of a document as one program; how many there were, or None where a module is missing."""
    found = list(python_blocks(name))
    program = "".join(f"{code}\nprint({MARK!r})\n" for code, _, _ in found)
    modules = {module for module in ("numpy", "torch") if f"import {module}" in program}
    if subprocess.run([sys.executable, "-c", "import " + ", ".join(modules or {"sys"})], capture_output=True, check=False).returncode:
        return None
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, name)
        place.environment.update(PYTHONPATH=f"{SOURCE / 'python'}:{SOURCE / 'tests/docs/stand_ins'}", WHET_LIBRARY=os.environ["WHET_LIB"], WHET_PROGRAM=os.environ["WHET_BIN"])
        for language, text, first in blocks(name):  # what commands above leave behind
            for command, _, line in commands_of(language, text, first) if language == "sh" and "retrieval.load" in program else ():
                if command.startswith("whet retrieval train"):
                    place.run(command, line)
        done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=place.environment, capture_output=True, text=True,
                              check=False, timeout=120)
        check(done.returncode == 0, f"{name}: {done.stderr}")
    for (_, expected, line), printed in zip(found, done.stdout.split(MARK + "\n")):
        check(same(printed, expected), f"{name}:{line} printed:\n{printed}")
    return len(found)


@test
def blocks_of_python_print_what_is_below_them():
    if os.environ.get("WHET_INSTRUMENTED") or not os.environ.get("WHET_BIN"):
        skip("needs the program and a library without sanitizers")
    counts = {name: run_python(name) for name in GUIDES if any(python_blocks(name))}
    if None in counts.values():
        skip("needs numpy and torch: " + ", ".join(name for name, count in counts.items() if count is None))
    check(sum(counts.values()) > 15, f"only {counts}")


@test
def every_document_with_commands_is_a_guide():
    with_commands = {str(name) for name in documents()
                     if any(language in ("sh", "console", "python", "c", "json") for language, _, _ in blocks(name))}
    check(with_commands <= set(GUIDES), f"not run: {with_commands - set(GUIDES)}")


@test
def every_stand_in_is_needed():
    """STAND_INS is the list of what is not run as it is written: nothing in it is out of date."""
    commands = [without_remark(command) for name in GUIDES for language, text, first in blocks(name) if language in ("sh", "console")
                for command, _, _ in commands_of(language, text, first)]
    for pattern, _ in STAND_INS:
        check(any(re.fullmatch(pattern, command) for command in commands), f"no document has a command such as {pattern}")
    not_run = [command for command in commands if stand_in(command) is None]
    check(len(not_run) < 0.3 * len(commands), f"{len(not_run)} of {len(commands)} commands are not run: {not_run}")


@test
def a_wrong_output_is_noticed():
    if not os.environ.get("WHET_BIN") or os.environ.get("WHET_INSTRUMENTED"):
        skip("the program is not built")
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, "none")
        (command, expected, _), = commands_of("console", "$ echo 0 0 | whet softmax\n0.5 0.5\n", 1)
        check(same(place.run(stand_in(command), 1), expected), "right output")
        (command, expected, _), = commands_of("console", "$ echo 0 1 | whet softmax\n0.5 0.5\n", 1)
        check(not same(place.run(stand_in(command), 1), expected), "wrong output")


# ---- settings ----


@test
def blocks_of_json_are_json():
    for name in GUIDES:
        for language, text, line in blocks(name):
            if language == "json":
                try:
                    json.loads(text)
                except ValueError as error:
                    check(False, f"{name}:{line}: {error}")


@test
def settings_files_are_taken_by_the_plug_in():
    if not model() or not os.environ.get("WHET_LLAMA_DRIVER"):
        skip("needs WHET_MODELS and llama.cpp's library")
    found = [text for language, text, _ in blocks("docs/llama.cpp.md") if language == "json"]
    check(found, "no settings were found")
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, "docs/llama.cpp.md")
        place.environment["GGML_BACKEND_PATH"] = os.environ["WHET_PLUGIN"]
        for text in found:
            (place.folder / "settings.json").write_text(text, encoding="utf-8")
            place.run('WHET_CONFIG=settings.json llama-cli -m model.gguf -p "Once upon a time"', 0)


# ---- fragments of C ----

FRAGMENT = """#include <stdint.h>
#include <stdlib.h>
#include <whet.h>

extern void *keys, *values;
extern size_t capacity, length, head_dim, kv_heads;
extern whet_attention attention;
extern whet_executor executor;

void fragment(void);
void fragment(void) {{
{text}}}
"""


@test
def fragments_of_c_compile():
    cache = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    compiler = re.search(r"^CMAKE_C_COMPILER:[^=]*=(.*)$", cache, re.M).group(1)
    count = 0
    for name in GUIDES:
        for language, text, line in blocks(name):
            if language != "c" or re.search(r"\bint main\b", text):
                continue
            count += 1
            done = subprocess.run([compiler, "-std=c17", "-Wall", "-Werror", "-fsyntax-only", f"-I{SOURCE / 'include'}",
                                   "-x", "c", "-"], input=FRAGMENT.format(text=text), text=True, stderr=subprocess.PIPE,
                                  check=False)
            check(done.returncode == 0, f"{name}:{line}: {done.stderr}")
    check(count > 0, "no fragments were found")


main()
