#!/usr/bin/env python3
"""Makes the documentation site with mkdocs-material: from docs/, and a reference that nobody typed.

    tools/make-docs.py [--out build/docs] [--build build/release]

The reference to C comes from whet.h, that to Python from docstrings, that to the program from its --help, and the policies from
`whet policies`. Pages are Markdown with GitHub's links between files of the repository: those between pages stay links, others
become names. Nothing of the site is loaded from a network.
"""

import argparse
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

SOURCE = pathlib.Path(__file__).resolve().parent.parent



def title_of(path):
    """The first heading, up to a colon."""
    return path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ").partition(":")[0]


# Titles and files of the navigation; those in generated/ are written below.
NAVIGATION = [
    ("Home", "docs/index.md"),
    ("Tutorial", "docs/tutorial.md"),
    ("Guides", [
        ("Install", "docs/INSTALL.md"), ("Embed in C", "docs/embedding.md"), ("Python", "docs/python.md"),
        ("Sharpen a llama.cpp model", "docs/llama.cpp.md"), ("Tune a model's heads", "docs/TUNING.md"),
        ("CLRS-Text", "docs/CLRS_TEXT.md"), ("MPI", "docs/guides/mpi.md"),
        ("Add a policy", "docs/add-a-policy.md"), ("Add a kernel", "docs/add-a-kernel.md"),
        ("Reproduce the paper", "docs/REPRODUCTION.md")]),
    ("Reference", [
        ("C", "generated/reference/c.md"), ("Python", "generated/reference/python.md"),
        ("Program", "generated/reference/program.md"), ("Policies", "generated/reference/policies.md")]),
    ("Explanation", [
        ("The mathematics", "docs/mathematics.md"), ("Ties of bfloat16", "docs/ties.md"), ("The polynomial", "docs/polynomial.md"),
        ("The league of policies", "docs/LEAGUE.md"), ("Performance", "docs/PERFORMANCE.md"), ("Architecture", "docs/ARCHITECTURE.md")]),
    ("Notes", [
        ("Contributing", "CONTRIBUTING.md"), ("Testing", "docs/TESTING.md"), ("Releasing", "docs/RELEASING.md"),
        ("Changes", "CHANGELOG.md"), *((title_of(path), f"docs/notes/{path.name}") for path in sorted((SOURCE / "docs/notes").glob("*.md")))]),
]


def pages():
    """Every file of the navigation."""
    return [target for target, _ in named_pages()]


def named_pages(navigation=None):
    """Every file of the navigation, and its title there."""
    for title, target in navigation or NAVIGATION:
        if isinstance(target, str):
            yield target, title
        else:
            yield from named_pages(target)


def place(name):
    """Where a page is in the site's sources."""
    return name.removeprefix("docs/").removeprefix("generated/")


# ---- pages that are written ----


def with_lists(text):
    """Blank lines above lists: on GitHub a list may follow a paragraph at once, in mkdocs it would be part of it."""
    result, is_list = [], False
    for line in text.splitlines():
        is_item = re.match(r"(?:[-*]|\d+\.) ", line)
        if is_item and not is_list and result and result[-1].strip():
            result.append("")
        is_list = bool(line.strip()) and (is_list or bool(is_item))
        result.append(line)
    return "\n".join(result) + ("\n" if text.endswith("\n") else "")


def rewritten(name, text):
    """Links between pages as the site has them, of others the words remain; and lists as mkdocs takes them."""
    titles = dict(named_pages())
    known = {page: place(page) for page in pages()} | {"include/whet.h": "reference/c.md", "README.md": "index.md"}

    def link(found):
        bang, words, target = found.groups()
        path, _, anchor = target.partition("#")
        if re.match(r"\w+:", target) or not path:
            return found.group()
        linked = os.path.normpath(os.path.join(os.path.dirname(name), path))
        if bang or linked in known:
            there = place(linked) if bang else known[linked]
            shown = os.path.relpath(there, os.path.dirname(place(name)) or ".")
            # A file's name is a page's title here. A picture leads to itself: as large as it is.
            words = titles.get(linked, words) if re.fullmatch(r"[\w./-]+\.md", words) else words
            return f"[![{words}]({shown})]({shown})" if bang else f"[{words}]({shown}{'#' + anchor if anchor else ''})"
        return words if "`" in words or "/" in words or words in linked else f"{words} (`{linked}`)"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, with_lists(part)) for part in parts)


def from_contributing(text):
    """Fills in the recipes that a page takes from CONTRIBUTING.md."""
    contributing = (SOURCE / "CONTRIBUTING.md").read_text(encoding="utf-8")

    def recipes(found):
        result = []
        for title in found.group(1).split(", "):
            recipe = re.search(rf"^\*\*{title}\.?\*\*.*?(?=^\*\*[A-Z]|^## |\Z)", contributing, re.M | re.S)
            if not recipe:
                sys.exit(f"make-docs.py: CONTRIBUTING.md has no recipe '{title}'")
            # The page has its name as a heading, not in bold.
            words = re.sub(r"^\*\*(.*?)\*\*(?=(\s*))", lambda found: "" if "\n" in found[2] else found[1], recipe.group())
            result.append(f"## {title}\n\n{words.strip()}\n")
        return "\n".join(result)

    return re.sub(r"<!-- from CONTRIBUTING.md: (.*?) -->", recipes, text)


# ---- the reference ----


def escaped(text):
    """Plain text as Markdown; code in backticks stays as it is."""
    parts = re.split(r"(`[^`]*`)", text)
    escapes = {"<": "&lt;", ">": "&gt;"}
    return "".join(part if part.startswith("`") else re.sub(r"[<>*_|\[\]]", lambda c: escapes.get(c[0], "\\" + c[0]), part)
                   for part in parts)


def is_aligned(paragraph):
    """Whether white space means something in it."""
    lines = paragraph.splitlines()
    return any(line.startswith("  ") or "   " in line.strip() for line in lines)


def columns_of(lines, starts):
    """Rows of cells of lines whose columns begin there, or None. A line that begins blank continues the row above."""
    rows = []
    for line in lines:
        if any(line[max(start - 2, 0):start].strip() for start in starts):
            return None
        cells = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None])]
        if cells[0]:
            rows.append(cells)
        elif rows:
            rows[-1] = [" ".join(filter(None, both)) for both in zip(rows[-1], cells)]
        else:
            return None
    return rows if len(rows) > 1 and all(row[1] for row in rows) else None


def aligned(paragraph):
    """Aligned text as Markdown: a table if its first line has three columns or more, names and what they mean if it has two."""
    lines = textwrap.dedent(paragraph).rstrip().splitlines()
    starts = [found.start() for found in re.finditer(r"(?<!\S)(?<! )\S|(?<=  )\S", lines[0])]
    if len(starts) > 2 and (rows := columns_of(lines, starts)):
        head, *body = (f"| {' | '.join(map(escaped, row))} |" for row in rows)
        return "\n".join([head, "|---" * len(starts) + "|", *body])
    if len(starts) == 2 and (rows := columns_of(lines, starts)):
        return "\n\n".join(f"`{name}`\n:   {escaped(meaning)}" for name, meaning in rows)
    languages = {"import": "python", ">>>": "pycon", "#include": "c"}
    return f"```{languages.get(lines[0].split(' ')[0], 'text')}\n" + "\n".join(lines) + "\n```"


def prose(text):
    """Plain text with aligned tables as Markdown."""
    paragraphs = re.split(r"\n\s*\n", textwrap.dedent(text).strip("\n"))
    return "\n\n".join(aligned(paragraph) if is_aligned(paragraph) else heading_or_words(paragraph) for paragraph in paragraphs if paragraph.strip())


def heading_or_words(paragraph):
    """A line in capitals is a heading."""
    is_heading = re.fullmatch(r"[A-Z ]{4,}", paragraph.strip())
    return f"## {paragraph.strip().capitalize()}" if is_heading else escaped(paragraph)


def uncommented(block):
    """The words of a comment."""
    lines = re.sub(r"^/\*|\*/$", "", block.strip()).splitlines()
    return "\n".join(re.sub(r"^ ?\* ?", "", line).rstrip() for line in lines)


def c_reference():
    """Sections, comments and declarations of whet.h in order; a declaration has a heading of its name."""
    header = (SOURCE / "include/whet.h").read_text(encoding="utf-8")
    body = header[header.index("*/") + 2:]
    result = ["# C reference", "Made from `include/whet.h`.", prose(uncommented(header[:header.index("*/")]))]
    token = re.compile(r"(?P<comment>/\*.*?\*/)|(?P<define>^#define WHET_\w+ \d+$)|(?P<skipped>^#.*?$(?:\n^.*\\$)*|^extern \"C\" \{$|^\}$)|"
                       r"(?P<code>^(?:typedef|struct|enum|WHET_API)[^;{]*(?:\{[^}\n]*\}[^;]*|\{.*?^\}[^;]*)?;)", re.M | re.S)
    titles = set()
    for found in token.finditer(body):
        if found["comment"]:
            text = uncommented(found["comment"])
            section = re.match(r"-{20,}\n *(\d+\. .*)\n-{20,}\n?", text.strip())
            if section:
                number, words = section.group(1).split(". ")
                # The text of a section is not that of its first declaration.
                result.append(f"## {number}. {words.capitalize()}\n\n{prose(text.strip()[section.end():])}")
            else:
                result.append(prose(text))
        elif found["define"] or found["code"]:
            code = found["define"] or found["code"]
            if "WHET_VERSION_" in code:
                continue
            title = c_name(code)
            if title and title not in titles:
                titles.add(title)
                # Its comment stands above it in the header, and below its name here.
                above = result.pop() if result and not result[-1].startswith(("#", "```c")) else None
                result.append(f"### {title}")
                if above:
                    result.append(above)
            result.append(f"```c\n{code}\n```")
    missing = set(re.findall(r"^(?:WHET_API [^;(]*?\b|struct |typedef struct )(whet_\w+)(?=\(| \{)", header, re.M)) - titles
    if missing:
        sys.exit(f"make-docs.py: not found in whet.h's declarations: {', '.join(sorted(missing))}")
    return "\n\n".join(part for part in result if part)


def c_name(code):
    """The name that a declaration declares, or None for an enum without one."""
    function = re.match(r"WHET_API .*?\b(whet_\w+)\(", code, re.S)
    pointer = re.match(r"typedef [^({]*\(\*(\w+)\)", code)
    define = re.match(r"#define (\w+)", code)
    struct = re.match(r"(?:typedef )?(?:struct|enum) (whet_\w+)", code)
    found = function or pointer or define or struct
    return found.group(1) if found else None


def python_reference():
    sys.path.insert(0, str(SOURCE / "python"))
    import whet
    import whet.clrs
    import whet.gguf
    import whet.retrieval
    import whet.torch
    import whet.transformers

    result = ["# Python reference", "Made from the package's docstrings."]
    named = {"whet.clrs": ["algorithms", "generate"], "whet.gguf": ["tensors", "TensorInfo"], "whet.retrieval": ["Head", "load", "seeds"],
             "whet.transformers": ["register"], "whet.torch": whet.torch.__all__, "whet": sorted(whet.__all__, key=importance)}
    for module in ("whet", "whet.torch", "whet.transformers", "whet.clrs", "whet.retrieval", "whet.gguf"):
        result += [f"## {module}", prose(inspect.getdoc(sys.modules[module]))]
        for name in named[module]:
            thing = getattr(sys.modules[module], name)
            if module != "whet" and name in ("softmax", "entropy", "attention"):
                continue  # whet's own explain them
            result += described(f"{module}.{name}", thing)
    return "\n\n".join(result)


def importance(name):
    """Of a name of whet's: what calls begin with, then the other functions, what they return, and what they raise."""
    import whet

    first = ("softmax", "entropy", "attention", "Policy", "policies", "fit_polynomial", "probe")
    thing = getattr(whet, name)
    kind = inspect.isclass(thing) + (inspect.isclass(thing) and issubclass(thing, Exception))
    return (0, first.index(name), "") if name in first else (1, kind, name)


def described(name, thing):
    """Heading, signature and docstring; of a class also its methods."""
    shown = signature(name, thing)
    result = [f"### {name}", "" if shown == name else f"```python\n{shown}\n```", prose(inspect.getdoc(thing) or "")]
    if inspect.isclass(thing) and not issubclass(thing, (BaseException, tuple, dict)):
        for method, own in vars(thing).items():
            function = own.fget if isinstance(own, property) else getattr(own, "__func__", own)
            # Not inspect.getdoc, which finds what a method that is replaced says.
            if method.startswith("_") and method != "__add__" or not getattr(function, "__doc__", None) or not callable(function):
                continue
            shown = "policy + other" if method == "__add__" else method if isinstance(own, property) else signature(method, function)
            result.append(f"**`{' '.join(shown.split())}`**: {' '.join(escaped(inspect.getdoc(function)).split())}")
    return result


def signature(name, thing):
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return name
    text = text.replace("whet.torch._policy.Policy", "TrainedPolicy").replace("torch.nn.modules.module.Module", "torch.nn.Module")
    text = re.sub(r", module\b", ", types.ModuleType", text).replace("NoneType", "None").replace(", whet.torch._policy.Chosen", "")
    text = re.sub(r"\b(?:typing|collections\.abc|whet\.\w+(?:\.\w+)*|whet\._policy)\.", "", text)
    text = re.sub(r"ForwardRef\('(.*?)'\)|(?<=-> )'(.*?)'", lambda found: found[1] or found[2], text)
    text = re.sub(r"^\((?:self|cls)(?:, )?", "(", text)
    text = text.replace("Callable[[RowStatistics], Union[float, Tuple[float, float]]]", "Callable").replace("TrainedPolicy", "whet.torch.Policy")
    return "\n".join(textwrap.wrap(name + text, 86, subsequent_indent="    ", break_long_words=False))


def program_reference(program):
    def help_of(*words):
        return subprocess.run([program, *words, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout

    def commands(text, heading):
        listed = re.search(rf"^{heading}:\n(.*?)^$", text + "\n", re.M | re.S)
        return re.findall(r"^  ([a-z]+) ", listed.group(1), re.M) if listed else []

    overview = help_of()
    result = ["# Program reference", "Made from the program's `--help`.", f"```text\n{overview}```"]
    for command in commands(overview, "commands"):
        text = help_of(command)
        result += [f"## whet {command}", f"```text\n{text}```"]
        for verb in commands(text, "subcommands"):
            result += [f"### whet {command} {verb}", f"```text\n{help_of(command, verb)}```"]
    return "\n\n".join(result)


def policies_reference(program):
    listed = json.loads(subprocess.run([program, "policies", "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    both = next(entry for entry in listed if "+" in entry["syntax"])
    listed.remove(both)
    result = ["# Policies", f"Made from `whet policies`. `{both['syntax']}`, such as `{both['example']}`, combines two of them: {both['summary']}."]

    def code(text):
        """With places where a narrow column may break it."""
        return "<code>" + re.sub(r"(?=\[:)|(?<!\[)(?=:\w{4})", "<wbr>", escaped(text).replace("\\", "")) + "</code>"

    for heading, is_temperature in (("Temperatures", True), ("Maps", False)):
        result.append(f"## {heading}")
        rows = ["| name | what it does | parameters | example |", "|---|---|---|---|"]
        for entry in listed:
            if entry["temperature"] == is_temperature:
                parameters = ", ".join(entry["parameters"])
                rows.append(f"| {code(entry['syntax'])} | {escaped(entry['summary'])} | {parameters} | {code(entry['example'])} |")
        result.append("\n".join(rows))
    return "\n\n".join(result)


# ---- the site ----


def configuration(folder, out):
    def listed(navigation):
        return [{title: place(target) if isinstance(target, str) else listed(target)} for title, target in navigation]

    def palette(scheme, media, icon, other):
        return {"media": f"(prefers-color-scheme: {media})", "scheme": scheme, "primary": "blue grey", "accent": "teal",
                "toggle": {"icon": icon, "name": f"Switch to {other}"}}

    return {
        "site_name": "whet", "docs_dir": str(folder), "site_dir": str(out), "use_directory_urls": False,
        "theme": {"name": "material", "font": False, "features": ["navigation.sections", "navigation.top"],
                  "palette": [palette("default", "light", "material/weather-night", "dark"),
                              palette("slate", "dark", "material/weather-sunny", "light")]},
        "plugins": ["search"], "extra": {"generator": False}, "extra_css": ["whet.css"],
        "markdown_extensions": ["tables", "pymdownx.superfences", "attr_list", "def_list", {"toc": {"permalink": True}}, {"pymdownx.highlight": {"anchor_linenums": False}}],
        "nav": listed(NAVIGATION)}


STYLE = """/* Tables and code scroll inside themselves; pictures have a light ground in the dark. */
.md-grid { max-width: 76rem; }
.md-typeset h3, .md-typeset p, .md-typeset li, .md-typeset :not(pre) > code { overflow-wrap: anywhere; }
.md-typeset :not(pre) > code { box-decoration-break: clone; white-space: normal; }
.md-typeset td > code { overflow-wrap: normal; word-break: normal; }
.md-typeset table:not([class]) th { min-width: 3rem; padding: .6em .8em; }
.md-typeset table:not([class]) td { padding: .6em .8em; }
.md-typeset pre > code { font-size: .62rem; }
.md-typeset h1 { color: inherit; }
.md-typeset thead:not(:has(th:not(:empty))) { display: none; }
@media screen and (max-width: 44em) {
  /* On a narrow screen pictures scroll sideways rather than shrink until nothing can be read. */
  .md-typeset p:has(> a > img) { overflow-x: auto; }
  .md-typeset p > a > img { max-width: none; width: 36rem; }
}
.md-typeset dl { margin: 1em 0; }
.md-typeset dd { margin: .1em 0 .5em 1.5em; }
[data-md-color-scheme="slate"] { --md-typeset-a-color: #6cc3b9; --md-primary-fg-color--light: #6cc3b9; }
[data-md-color-scheme="slate"] .md-nav__link--active { color: #6cc3b9; }
/* In a file there is no search, which the theme hides, but not its button. */
label[for="__search"]:has(+ .md-search[hidden]) { display: none; }
[data-md-color-scheme="slate"] .md-typeset img { background: #fff; border-radius: .2rem; }
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=SOURCE / "build/docs", type=pathlib.Path)
    parser.add_argument("--build", default=SOURCE / "build/release", type=pathlib.Path)
    arguments = parser.parse_args()
    os.environ["WHET_LIBRARY"] = str((arguments.build / "libwhet.so").resolve())
    out = arguments.out.resolve()
    folder = out.with_name(out.name + "-source")
    shutil.rmtree(folder, ignore_errors=True)
    program = str((arguments.build / "whet").resolve())
    written = {"reference/c.md": c_reference(), "reference/python.md": python_reference(),
               "reference/program.md": program_reference(program), "reference/policies.md": policies_reference(program), "whet.css": STYLE}
    for name in pages():
        if not name.startswith("generated/"):
            text = from_contributing((SOURCE / name).read_text(encoding="utf-8"))
            written[place(name)] = rewritten(name, text)
    for name, text in written.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    for path in (SOURCE / "docs").rglob("*"):
        if path.suffix in (".svg", ".png"):
            target = folder / path.relative_to(SOURCE / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    settings = out.with_name(out.name + ".yml")
    settings.write_text(json.dumps(configuration(folder, out), indent=1), encoding="utf-8")  # JSON is YAML
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--clean", "--config-file", str(settings)], check=False)
    if done.returncode:
        sys.exit(f"make-docs.py: mkdocs failed; its input is {folder}")
    print(out / "index.html")


if __name__ == "__main__":
    main()
