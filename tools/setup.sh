#!/usr/bin/env bash
# Installs the tools that a task needs.
#
#     tools/setup.sh [compile|build|test|check|fuzz|arm|wasm|deb|simulation|all]
#
#     compile   what a build needs: prints what is missing, installs nothing
#     build     what `make run` needs
#     test      the same, and a llama.cpp from npm for the tests of the plug-in
#     check     build, and the linters
#     fuzz      build, and clang with libFuzzer
#     arm       build, and a cross compiler for 64-bit ARM and qemu-user
#     wasm      build, and clang for WebAssembly and Node
#     deb       build, and debhelper and lintian
#     simulation   build, and SimGrid with its MPI
#     all       build, and what all checks and optional tests use (torch, Chromium, qemu, npm, a llama.cpp ...)
#
# On Debian and its derivatives, as root, missing packages are installed; elsewhere the script prints what to install. If
# nothing is missing it prints nothing and does not call the package manager. A package of `all` that cannot be installed is
# reported, and the tests that use it are skipped; so are those that need a llama.cpp if none can be fetched, or with
# WHET_FETCH_LLAMA=0.
set -u

group=${1:-build}
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

have() { command -v "$1" >/dev/null 2>&1; }

# Whether a program can be compiled and linked: a compiler without the headers of libc is not enough.
compiles() { # source compiler [flags ...]
    local source=$1 compiler=$2 folder status
    shift 2
    have "$compiler" || return 1
    folder=$(mktemp -d) || return 1
    printf '#include <math.h>\n#include <pthread.h>\n#include <stdint.h>\n%s\n' "$source" >"$folder/program.c"
    "$compiler" "$@" -o "$folder/program" "$folder/program.c" -lm -lpthread >/dev/null 2>&1
    status=$?
    rm -rf "$folder"
    return $status
}
cross_compiler="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
emulator=qemu-user
any_program='int main(void) { return 0; }'
any_fuzzer='int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return data != 0 && size > SIZE_MAX - 1; }'

cmake_is_new_enough() {
    local version
    version=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    # shellcheck disable=SC2086 # two words on purpose
    set -- $version
    [ $# -eq 2 ] && { [ "$1" -gt 3 ] || { [ "$1" -eq 3 ] && [ "$2" -ge 25 ]; }; }
}

jansson_is_there() { have pkg-config && pkg-config --atleast-version=2.12 jansson; }

# Loaded at run time for training: the library is enough, without headers.
openblas_is_there() {
    local cache folder
    for cache in ldconfig /sbin/ldconfig; do
        # grep reads all of it: with -q it would close the pipe early, which fails under pipefail.
        if have "$cache" && "$cache" -p 2>/dev/null | grep libopenblas >/dev/null; then
            return 0
        fi
    done
    for folder in /usr/lib /usr/lib64 /usr/lib/*-linux-gnu /opt/homebrew/opt/openblas/lib; do
        [ -e "$folder/libopenblas.so.0" ] || [ -e "$folder/libopenblas.so" ] || [ -e "$folder/libopenblas.dylib" ] || continue
        return 0
    done
    return 1
}

# For the figures of `whet reproduce`; the smallest build of gnuplot cannot write PNG.
gnuplot_is_there() {
    have gnuplot && printf 'set terminal svg\nset terminal pngcairo\n' | gnuplot >/dev/null 2>&1
}

# Prints the missing tools, one per line: what, then the packages of Debian, Fedora, Arch and Homebrew.
missing() {
    compiles "$any_program" "${CC:-cc}" || echo "a C compiler|gcc libc6-dev|gcc glibc-devel|gcc|gcc"
    cmake_is_new_enough || echo "CMake 3.25 or newer|cmake|cmake|cmake|cmake"
    have ninja || echo "Ninja|ninja-build|ninja-build|ninja|ninja"
    jansson_is_there || echo "jansson 2.12 or newer|libjansson-dev|jansson-devel|jansson|jansson"
    have pkg-config || echo "pkg-config|pkg-config|pkgconf-pkg-config|pkgconf|pkgconf"
    [ "$group" != compile ] || return 0
    openblas_is_there || echo "OpenBLAS|libopenblas0-pthread|openblas-serial|openblas|openblas"
    gnuplot_is_there || echo "gnuplot with svg and pngcairo|gnuplot-nox|gnuplot-minimal|gnuplot|gnuplot"
    if [ "$group" = check ]; then
        have clang-tidy || echo "clang-tidy|clang-tidy|clang-tools-extra|clang|llvm"
        have clang-format || echo "clang-format|clang-format|clang-tools-extra|clang|clang-format"
        have cppcheck || echo "cppcheck|cppcheck|cppcheck|cppcheck|cppcheck"
    elif [ "$group" = fuzz ]; then
        compiles "$any_fuzzer" clang -fsanitize=fuzzer,address,undefined ||
            echo "clang with libFuzzer|clang $(fuzzer_runtime)|clang compiler-rt|clang compiler-rt|llvm"
    elif [ "$group" = arm ]; then
        compiles "$any_program" aarch64-linux-gnu-gcc ||
            echo "a cross compiler for 64-bit ARM|$cross_compiler|gcc-aarch64-linux-gnu|aarch64-linux-gnu-gcc|"
        have qemu-aarch64 || echo "qemu-user|$emulator|qemu-user|qemu-user|"
    elif [ "$group" = wasm ]; then
        compiles_wasm || echo "clang for WebAssembly|$(wasm_compiler)|clang lld wasi-libc-static compiler-rt|clang lld wasi-libc wasi-compiler-rt|llvm wasi-libc wasi-runtimes"
        have node || echo "Node 18 or newer|nodejs|nodejs|nodejs|node"
    elif [ "$group" = deb ]; then
        have dpkg-buildpackage || echo "dpkg-dev|dpkg-dev|dpkg-dev|dpkg|dpkg"
        have dh || echo "debhelper 13|debhelper|debhelper|debhelper|"
        have fakeroot || echo "fakeroot|fakeroot|fakeroot|fakeroot|"
        have lintian || echo "lintian|lintian|||"
    elif [ "$group" = simulation ]; then
        { have smpicc && have smpirun; } || echo "SimGrid with SMPI|libsimgrid-dev|simgrid||simgrid"
        have python3 || echo "Python 3|python3|python3|python|python"
    fi
}

# Debian's packages of clang's run-time library have clang's version in their names.
clang_version() {
    local version
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
    echo "${version:-14}"
}
fuzzer_runtime() { echo "libclang-rt-$(clang_version)-dev"; }
wasm_compiler() { echo "clang lld wasi-libc libclang-rt-$(clang_version)-dev-wasm32"; }

# Without pthreads, which the other compilers are asked for.
compiles_wasm() {
    local folder status
    have clang || return 1
    folder=$(mktemp -d) || return 1
    printf '#include <math.h>\n%s\n' "$any_program" >"$folder/program.c"
    clang --target=wasm32-wasi -o "$folder/program.wasm" "$folder/program.c" >/dev/null 2>&1
    status=$?
    rm -rf "$folder"
    return $status
}

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

may_install() { have apt-get && have dpkg-query && [ "$(id -u)" -eq 0 ]; }

# Installs packages; fetches apt's lists only if that fails, as it does in a fresh system.
updated=no
install_packages() {
    local log status
    log=$(mktemp)
    try() {
        DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@" \
            >"$log" 2>&1 </dev/null
    }
    try "$@"
    status=$?
    if [ $status -ne 0 ] && [ $updated = no ]; then
        updated=yes
        apt-get -qq -o DPkg::Lock::Timeout=300 update >"$log" 2>&1 </dev/null
        try "$@"
        status=$?
    fi
    if [ $status -ne 0 ]; then
        tail -n 5 "$log" >&2
    fi
    rm -f "$log"
    return $status
}

# Prints one column of what is missing, each word once.
column() { printf '%s\n' "$needed" | cut -d '|' -f "$1" | tr ' ' '\n' | sort -u | paste -s -d ' ' -; }

needed=$(missing)
if [ -n "$needed" ] && [ "$group" != compile ] && may_install; then
    packages=$(column 2)
    echo "installing: $packages"
    # shellcheck disable=SC2086 # one word a package
    install_packages $packages
    hash -r
    needed=$(missing)
fi
if [ -n "$needed" ]; then
    {
        echo "missing: $(printf '%s\n' "$needed" | cut -d '|' -f 1 | paste -s -d ',' - | sed 's/,/, /g')"
        [ "$group" != compile ] || echo "make setup installs it on Debian, as root; or:"
        [ "$group" = compile ] || echo "install with:"
        echo "  Debian, Ubuntu   apt-get install $(column 2)"
        echo "  Fedora           dnf install $(column 3)"
        echo "  Arch             pacman -S $(column 4)"
        echo "  Homebrew         brew install $(column 5)"
    } >&2
    exit 1
fi

# Unless the tests use another one. Only `all` tries again what failed to download earlier.
fetch_llama() {
    [ "${WHET_FETCH_LLAMA:-1}" != 0 ] || return 0
    ! grep -qs '^LLAMA_CPP_DIR:[A-Z]*=.' build/release/CMakeCache.txt || return 0
    tools/fetch-llama.sh --for-tests build "$@"
}

if [ "$group" = test ]; then
    fetch_llama
    exit 0
elif [ "$group" != all ]; then
    exit 0
fi

install_optional() {
    local package wanted=()
    optional="python3 python3-numpy python3-torch python3-pytest mypy python3-matplotlib
        python3-venv python3-pip python3-setuptools python3-wheel python3-build mkdocs-material openmpi-bin libopenmpi-dev mpich libmpich-dev slurm-wlm munge libsimgrid-dev g++ chromium git nodejs npm $cross_compiler $emulator
        clang clang-tidy clang-format cppcheck valgrind zsh fish shellcheck mandoc groff man-db jq librsvg2-bin locales
        dpkg-dev debhelper fakeroot lintian mmdebstrap"
    if ! have dpkg-query; then
        # shellcheck disable=SC2086 # one word a package
        echo "optional, as named in Debian:" $optional
        return 0
    fi
    for package in $optional $(fuzzer_runtime) $(wasm_compiler); do
        installed "$package" || wanted+=("$package")
    done
    if [ ${#wanted[@]} -eq 0 ]; then
        return 0
    fi
    if ! may_install; then
        echo "optional, not installed: ${wanted[*]}"
        return 0
    fi
    echo "installing: ${wanted[*]}"
    if ! install_packages "${wanted[@]}" 2>/dev/null; then
        # One that cannot be installed must not stop the others.
        for package in "${wanted[@]}"; do
            installed "$package" || install_packages "$package" 2>/dev/null ||
                echo "could not install $package: the tests that use it will be skipped"
        done
    fi
}
# Below build/: playwright-core, which drives the system's Chromium in tests of pages, and typescript for those of the package.
fetch_from_npm() { # folder package[@version] program it needs
    [ ! -d "build/$1/node_modules/${2%@*}" ] && have npm && have "$3" || return 0
    npm install --silent --no-audit --no-fund --prefix "build/$1" "$2" >/dev/null 2>&1 ||
        echo "could not fetch ${2%@*}: the tests that use it will be skipped"
}

install_optional
fetch_from_npm playwright playwright-core chromium
fetch_from_npm typescript typescript@5 node
fetch_llama again
exit 0
