"""Finds libwhet, loads it, and turns its statuses into exceptions."""

import ctypes
import ctypes.util
import os
import pathlib
import sys
from typing import Any, Iterator

from . import _declarations as c

HERE = pathlib.Path(__file__).resolve().parent
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"


class PolicyError(ValueError):
    """A policy's name cannot be parsed, or a parameter of it is out of range."""


class DtypeError(TypeError, ValueError):
    """An array or a tensor has an element type that the library does not compute with."""


def _compatible() -> str:
    """The versions that share the interface of this one: 0.3 for 0.3.0, 1 for 1.2.3."""
    major, minor, _ = c.VERSION.split(".")
    return f"{major}.{minor}" if major == "0" else major


def _candidates() -> Iterator[str]:
    """Where the library may be, the first that exists is taken: a wheel's own, the build of the clone that this file is
    part of (by make, or by pip), then wherever the system finds it."""
    clone = HERE.parent.parent
    builds = [clone / "build" / name for name in ("release", "python")] if (clone / "include" / "whet.h").exists() else []
    for folder in (HERE / "lib", *builds):
        path = folder / f"libwhet{SUFFIX}"
        if path.exists():
            yield str(path)
    found = ctypes.util.find_library("whet")
    if found:
        yield found
    soname = f"libwhet.{_compatible()}.dylib" if sys.platform == "darwin" else f"libwhet.so.{_compatible()}"
    yield soname
    for folder in (pathlib.Path(sys.prefix) / "lib", pathlib.Path("/usr/local/lib")):
        if (folder / soname).exists():
            yield str(folder / soname)


def _open() -> Any:
    named = os.environ.get("WHET_LIBRARY")
    reasons = []
    for path in [named] if named else _candidates():
        try:
            return ctypes.CDLL(path), path
        except OSError as error:
            reasons.append(str(error))
    raise ImportError(f"libwhet {c.VERSION} was not found ({reasons[-1]}): install it with make install, build it with make build, "
                      "or set WHET_LIBRARY to its path")


def _load() -> Any:
    found, where = _open()
    try:
        found.whet_version.restype = ctypes.c_char_p
        version = found.whet_version().decode()
    except AttributeError as error:
        raise ImportError(f"{where} is not libwhet: {error}") from None
    if not f"{version}.".startswith(f"{_compatible()}."):
        raise ImportError(f"{where} is libwhet {version}, and this package needs {c.VERSION}: install that version, "
                          "or set WHET_LIBRARY to the path of another library")
    for name, (result, parameters) in c.FUNCTIONS.items():
        function = getattr(found, name, None)
        if function is None:
            raise ImportError(f"{where} is libwhet {version} without {name}, and this package needs {c.VERSION}: install that version, "
                              "or set WHET_LIBRARY to the path of another library")
        function.restype = result
        function.argtypes = parameters
    return found, where


library, path = _load()
last_error = library.whet_last_error


def check(status: int) -> None:
    """Raises what a status stands for, in the library's words. WHET_NOT_FINITE is no error: the rows hold NaN."""
    if status <= c.NOT_FINITE:
        return
    message = last_error().decode() or library.whet_status_text(status).decode()
    if status == c.ERROR_MEMORY:
        raise MemoryError(message)
    raise (PolicyError if status == c.ERROR_POLICY else ValueError)(message)


def version() -> str:
    """The version of the library in use, such as "0.3.0"."""
    return str(library.whet_version().decode())


def isa() -> str:
    """The instruction set in use, such as "avx2" or "scalar"."""
    return str(library.whet_isa().decode())
