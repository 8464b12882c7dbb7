"""What the tests of documents share: the Markdown files of the project and their fenced blocks."""

import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ["WHET_SOURCE_DIR"])


def documents():
    """Every Markdown file, relative to the project."""
    found = [*SOURCE.glob("*.md"), *(SOURCE / "docs").rglob("*.md")]
    return sorted(path.relative_to(SOURCE) for path in found)


def read(name):
    return (SOURCE / name).read_text(encoding="utf-8")


def blocks(name):
    """(language, text, line number of its first line) of each fenced block."""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", read(name), re.M | re.S):
        yield found.group(1), found.group(2), read(name)[:found.start(2)].count("\n") + 1


def without_blocks(text):
    """The same lines, those of fenced blocks empty."""
    return re.sub(r"^```.*?^```$", lambda m: "\n" * m.group().count("\n"), text, flags=re.M | re.S)
