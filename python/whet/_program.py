"""The program `whet`, for what the library alone does not have: data, models and experiments."""

import os
import pathlib
import shutil
import subprocess
from typing import Any, Dict, Iterator, List

from . import _library


def find() -> str:
    """Path of the program: WHET_PROGRAM, the wheel's own, the one beside the library, or the one on the path."""
    named = os.environ.get("WHET_PROGRAM")
    if named:
        return named
    beside = pathlib.Path(_library.path).parent
    for path in (_library.HERE / "bin" / "whet", beside / "whet", beside.parent / "bin" / "whet"):
        if beside.is_absolute() and os.access(path, os.X_OK) and path.is_file():
            return str(path)
    found = shutil.which("whet")
    if found is None:
        raise FileNotFoundError("the program whet was not found: install it with make install, or set WHET_PROGRAM to its path")
    return found


def _raise(status: int, errors: str) -> None:
    """What an exit status stands for, in the program's words."""
    if status == 130:
        raise KeyboardInterrupt
    if status:
        raise (ValueError if status == 2 else RuntimeError)(errors.strip() or f"whet ended with status {status}")


def run(*arguments: str) -> bytes:
    """What the program prints."""
    done = subprocess.run([find(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    _raise(done.returncode, done.stderr.decode(errors="replace"))
    return done.stdout


def lines(*arguments: str) -> Iterator[bytes]:
    """The lines that the program prints, while it runs; it ends with the iterator."""
    with subprocess.Popen([find(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            yield from process.stdout
        except GeneratorExit:
            process.kill()
            raise
        errors = process.stderr.read().decode(errors="replace")
    _raise(process.returncode, errors)


def as_options(given: Dict[str, Any]) -> List[str]:
    """Options of a command line: count=3 is --count 3, True a flag, a list a comma-separated list."""
    result = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            result.append(option)
        elif value is not None and value is not False:
            result.append(f"{option}={','.join(map(str, value)) if isinstance(value, (list, tuple, range)) else value}")
    return result
