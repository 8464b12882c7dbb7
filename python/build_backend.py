"""The build backend of the package (PEP 517 and 660), with nothing but Python's own library.

A wheel holds the package and libwhet, and works with every Python 3: py3-none-<platform>. The library is compiled with CMake from
the sources around this folder (in a source archive: from the folder libwhet beside this file). Two variables choose otherwise:

    WHET_LIBRARY=FILE   put this library into the wheel; `none`: put none, for wheels that use an installed one (py3-none-any)
    WHET_PROGRAM=FILE   put the program whet into the wheel as well
"""

import base64
import functools
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import declare as declarations  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = ("CMakeLists.txt", "LICENSE", "cmake", "include", "src")
EPOCH = (2026, 1, 1, 0, 0, 0)


def declare():
    """Writes the package's declarations from whet.h; a package without sources brings them along."""
    source, file = clone(), HERE / "whet" / "_declarations.py"
    if source is not None:
        header = source / "include" / "whet.h"
        if not file.exists() or file.read_text(encoding="utf-8") != declarations.declare(header.read_text(encoding="utf-8")):
            declarations.write(header, file)


@functools.lru_cache(maxsize=None)
def version():
    declare()
    text = (HERE / "whet" / "_declarations.py").read_text(encoding="utf-8")
    return re.search(r'^VERSION = "(.*)"$', text, re.M).group(1)


def metadata():
    project = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    lines = ["Metadata-Version: 2.1", "Name: whet", f"Version: {version()}",
             "Summary: " + re.search(r'^description = "(.*)"$', project, re.M).group(1), "License: Apache-2.0",
             "Requires-Python: " + re.search(r'^requires-python = "(.*)"$', project, re.M).group(1)]
    for name in ("numpy", "torch"):
        lines += [f"Provides-Extra: {name}", f'Requires-Dist: {name} ; extra == "{name}"']
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", (HERE / "README.md").read_text(encoding="utf-8")])


# ---- the library ----


def clone():
    """The folder with the C sources, or None."""
    for folder in (HERE.parent, HERE / "libwhet"):
        if (folder / "include" / "whet.h").exists() and (folder / "CMakeLists.txt").exists():
            return folder
    return None


def run(command):
    print("+", *command, flush=True)
    try:
        subprocess.run(command, check=True)
    except OSError:
        sys.exit("whet: CMake 3.25 or newer is needed to compile the library (apt-get install cmake gcc). WHET_LIBRARY=FILE takes a "
                 "library that exists; WHET_LIBRARY=none makes a package that uses an installed one")
    except subprocess.CalledProcessError as error:
        sys.exit(f"whet: the library could not be compiled: {error}")


def library():
    """Path of the library that goes into the wheel, or None."""
    named = os.environ.get("WHET_LIBRARY")
    if named:
        return None if named == "none" else pathlib.Path(named).resolve()
    source = clone()
    if source is None:
        return None
    build = source / "build" / "release"
    if not (build / "CMakeCache.txt").exists():
        # Not built with make: the library alone, in a folder that is kept in a clone, so that the next time is short.
        build = source / "build" / "python" if source == HERE.parent else pathlib.Path(tempfile.mkdtemp(prefix="whet-build-"))
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        run(["cmake", "-S", str(source), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release", "-DWHET_BUILD_LAB=OFF",
             "-DWHET_BUILD_TESTS=OFF", "-DWHET_BUILD_PLUGIN=OFF", *generator])
    run(["cmake", "--build", str(build), "--target", "whet", "--parallel", str(os.cpu_count() or 1)])
    return (build / f"libwhet{'.dylib' if sys.platform == 'darwin' else '.so'}").resolve()


# ---- wheels ----


def package_files():
    """The package's own files, sorted."""
    found = [path for path in (HERE / "whet").rglob("*") if path.suffix == ".py" or path.name == "py.typed"]
    return sorted(path.relative_to(HERE) for path in found)


class Wheel:
    """A wheel being written; with the same files it has the same bytes."""

    def __init__(self, folder, tag):
        self.name = f"whet-{version()}-{tag}.whl"
        self.info = f"whet-{version()}.dist-info"
        self.file = zipfile.ZipFile(pathlib.Path(folder) / self.name, "w", zipfile.ZIP_DEFLATED)
        self.record = []
        self.tag = tag

    def add(self, name, data, is_program=False):
        entry = zipfile.ZipInfo(name, EPOCH)
        entry.external_attr = (0o100755 if is_program else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.file.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self):
        for name, text in info_files(self.tag).items():
            self.add(f"{self.info}/{name}", text.encode())
        self.record.append(f"{self.info}/RECORD,,")
        self.file.writestr(zipfile.ZipInfo(f"{self.info}/RECORD", EPOCH), "\n".join(self.record) + "\n")
        self.file.close()
        return self.name


def info_files(tag):
    purity = "true" if tag.endswith("any") else "false"
    license_file = next((path for path in (HERE / "LICENSE", HERE.parent / "LICENSE", HERE / "libwhet" / "LICENSE") if path.exists()), None)
    return {"METADATA": metadata(), "WHEEL": f"Wheel-Version: 1.0\nGenerator: whet\nRoot-Is-Purelib: {purity}\nTag: {tag}\n",
            **({"LICENSE": license_file.read_text(encoding="utf-8")} if license_file else {})}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    found = library()
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    wheel = Wheel(wheel_directory, f"py3-none-{platform}" if found else "py3-none-any")
    for path in package_files():
        wheel.add(path.as_posix(), (HERE / path).read_bytes())
    if found:
        wheel.add(f"whet/lib/libwhet{found.suffix if found.suffix == '.dylib' else '.so'}", found.read_bytes(), True)
    program = os.environ.get("WHET_PROGRAM")
    if program:
        wheel.add("whet/bin/whet", pathlib.Path(program).read_bytes(), True)
    return wheel.close()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel that points to this folder; the library is that of the clone's build, which is made here, or an installed one."""
    library()
    wheel = Wheel(wheel_directory, "py3-none-any")
    wheel.add("whet.pth", f"{HERE}\n".encode())
    return wheel.close()


def build_sdist(sdist_directory, config_settings=None):
    """The package with the sources of the library in the folder libwhet."""
    base = f"whet-{version()}"
    source = clone()
    files = {path: HERE / path for path in [*package_files(), *map(pathlib.Path, ("pyproject.toml", "build_backend.py", "declare.py", "README.md"))]}
    for name in SOURCES if source else ():
        for path in [source / name] if (source / name).is_file() else (source / name).rglob("*"):
            if path.is_file():
                files[pathlib.Path("libwhet") / path.relative_to(source)] = path
    archive = pathlib.Path(sdist_directory) / f"{base}.tar.gz"
    with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        contents = {name.as_posix(): path.read_bytes() for name, path in files.items()}
        for name, data in sorted({**contents, "PKG-INFO": metadata().encode()}.items()):
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return archive.name


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_sdist = get_requires_for_build_editable = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory) / f"whet-{version()}.dist-info"
    folder.mkdir(parents=True)
    for name, text in info_files("py3-none-any").items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
