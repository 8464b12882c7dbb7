# needs: pytest venv pip
"""The package as users get it: wheels in fresh virtual environments, pip from a clone and from a source archive, and which library
it loads."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest
import whet

SOURCE = pathlib.Path(os.environ["WHET_SOURCE_DIR"])
PLATFORM = sysconfig.get_platform().replace("-", "_").replace(".", "_")
REPORT = "import whet, whet._library; print(whet.__file__, whet.version(), whet._library.path, sep='\\n')"


def run(*command, env=None, cwd="/", fails=False):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("WHET_", "PYTHON"))}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=cwd, env={**clean, **(env or {})})
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + (done.stderr if fails else "")


def environment(folder, *options):
    """A fresh one. Without its own pip, which takes seconds to put there: pip of the system installs into it."""
    run(sys.executable, "-m", "venv", "--without-pip", *options, folder)
    return folder / "bin" / "python"


def pip(python, *arguments, env=None, cwd="/"):
    return run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--disable-pip-version-check", "-q", *arguments,
               env=env, cwd=cwd)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import build_backend; print(build_backend.build_wheel({str(folder)!r}))"
    name = run(sys.executable, "-c", code, cwd=SOURCE / "python", env={"WHET_LIBRARY": os.environ["WHET_LIB"],
                                                                      "PYTHONDONTWRITEBYTECODE": "1"})
    return folder / name.strip()


def test_a_wheel_is_for_every_python_3_of_the_platform(wheel):
    assert wheel.name == f"whet-{whet.__version__}-py3-none-{PLATFORM}.whl"
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        assert file.read("whet/lib/libwhet.so") == pathlib.Path(os.environ["WHET_LIB"]).read_bytes()
    assert {"whet/py.typed", "whet/torch/__init__.py", f"whet-{whet.__version__}.dist-info/RECORD"} <= names
    assert not [name for name in names if "__pycache__" in name]


def test_a_wheel_works_in_a_fresh_environment_without_anything_else(wheel, tmp_path):
    python = environment(tmp_path / "venv")
    pip(python, wheel)
    module, version, library = run(python, "-c", REPORT).splitlines()
    assert module.startswith(str(tmp_path)) and library.startswith(str(tmp_path)) and version == whet.__version__
    assert run(python, "-c", "import whet; print(whet.Policy('exp:1').beta(entropy=1.0))") == "1.0\n"
    run(sys.executable, "-m", "pip", "--python", python, "uninstall", "-q", "-y", "whet")
    assert not list((tmp_path / "venv").rglob("libwhet*"))


def test_a_wheel_works_with_the_system_s_numpy_and_torch(wheel, tmp_path):
    pytest.importorskip("torch", reason="needs numpy and torch")
    python = environment(tmp_path / "venv", "--system-site-packages")
    pip(python, wheel)
    code = ("import numpy, torch, whet; x = numpy.arange(4, dtype=numpy.float32)\n"
            "print(whet.softmax(x).round(3).tolist() == [round(v, 3) for v in whet.softmax(torch.from_numpy(x)).tolist()] or whet.softmax(x))\n"
            "q = torch.ones(1, 1, 2, 4); print(whet.attention(q, q, q).shape, whet.__file__)")
    output = run(python, "-c", code)
    assert "torch.Size([1, 1, 2, 4])" in output and str(tmp_path) in output


def test_pip_installs_from_a_clone(tmp_path):
    if not (SOURCE / "build/release/CMakeCache.txt").exists():
        pytest.skip("needs build/release: without it, pip compiles the library for a minute")
    python = environment(tmp_path / "venv")
    pip(python, ".", cwd=SOURCE / "python")
    _, version, library = run(python, "-c", REPORT).splitlines()
    assert version == whet.__version__ and library.startswith(str(tmp_path))


def test_an_editable_installation_uses_the_library_of_the_clone(tmp_path):
    if not (SOURCE / "build/release/CMakeCache.txt").exists():
        pytest.skip("needs build/release: without it, pip compiles the library for a minute")
    python = environment(tmp_path / "venv")
    pip(python, "-e", ".", cwd=SOURCE / "python")
    module, _, library = run(python, "-c", REPORT).splitlines()
    assert module == str(SOURCE / "python/whet/__init__.py") and library == str(SOURCE / "build/release/libwhet.so")


def test_a_source_archive_has_the_library_s_sources(tmp_path):
    code = f"import build_backend; print(build_backend.build_sdist({str(tmp_path)!r}))"
    name = run(sys.executable, "-c", code, cwd=SOURCE / "python", env={"PYTHONDONTWRITEBYTECODE": "1"}).strip()
    shutil.unpack_archive(tmp_path / name, tmp_path)
    folder = tmp_path / f"whet-{whet.__version__}"
    assert (folder / "libwhet/include/whet.h").read_bytes() == (SOURCE / "include/whet.h").read_bytes()
    # It can be configured as it is; compiling takes a minute.
    run("cmake", "-S", folder / "libwhet", "-B", tmp_path / "build", "-DWHET_BUILD_LAB=OFF")


def test_without_the_library_inside_the_installed_one_is_found(tmp_path):
    python = environment(tmp_path / "venv")
    pip(python, ".", cwd=SOURCE / "python", env={"WHET_LIBRARY": "none"})
    assert "was not found" in run(python, "-c", REPORT, fails=True)
    (tmp_path / "lib").mkdir()
    soname = f"libwhet.so.{'.'.join(whet.__version__.split('.')[:2])}"
    shutil.copy(os.environ["WHET_LIB"], tmp_path / "lib" / soname)
    found = run(python, "-c", REPORT, env={"LD_LIBRARY_PATH": str(tmp_path / "lib")}).splitlines()
    assert found[1:] == [whet.__version__, soname]
    # As `make install PREFIX=...` of the environment would leave it.
    shutil.copy(os.environ["WHET_LIB"], tmp_path / "venv" / "lib" / soname)
    assert run(python, "-c", REPORT).splitlines()[2] == str(tmp_path / "venv" / "lib" / soname)


def test_another_version_is_refused_with_both_named(tmp_path):
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    needed = "and this package needs " + whet.__version__
    minor = whet.__version__.rpartition(".")[0]
    for version, message in (("0.2.9", "is libwhet 0.2.9, " + needed), (None, "is not libwhet"),
                             (minor + ".99", f"is libwhet {minor}.99 without whet_")):
        source = tmp_path / "other.c"
        source.write_text(f'const char *{"whet_version" if version else "another"}(void) {{ return "{version}"; }}\n')
        run(compiler, "-shared", "-fPIC", "-o", tmp_path / "libwhet.so", source)
        env = {"WHET_LIBRARY": str(tmp_path / "libwhet.so"), "PYTHONPATH": str(SOURCE / "python")}
        output = run(sys.executable, "-c", "import whet", env=env, fails=True)
        assert "ImportError" in output and message in output
    output = run(sys.executable, "-c", "import whet", env={**env, "WHET_LIBRARY": str(tmp_path / "none.so")}, fails=True)
    assert "was not found" in output and "none.so" in output


def test_hints_are_clean_for_mypy():
    if not shutil.which("mypy"):
        pytest.skip("needs mypy")
    output = run(shutil.which("mypy"), "--cache-dir=/dev/null", cwd=SOURCE / "python")
    assert "no issues found" in output
