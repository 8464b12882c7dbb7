#!/usr/bin/env bash
# Proves that an installed copy is complete: installs to a folder of its own, moves it, and builds and runs a small program
# against it in every way a user may: find_package, pkg-config, pkg-config --static. Also looks at what the libraries export
# and need, and builds the library alone.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"

consumer=$WHET_SOURCE_DIR/tests/install/consumer
cc=$(sed -n 's/^CMAKE_C_COMPILER:[^=]*=//p' "$WHET_BUILD_DIR/CMakeCache.txt")

if [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "an installed copy works" "this build is instrumented ($WHET_INSTRUMENTED); the release build tests it"
    finish
fi

# Installed in one place and moved to another: nothing in it may depend on where it was first.
check "installs to a prefix" cmake --install "$WHET_BUILD_DIR" --prefix "$SCRATCH/first" || finish
prefix=$SCRATCH/moved
mv "$SCRATCH/first" "$prefix"

lib=$(dirname "$(find "$prefix" -name libwhet.a | head -n 1)")
export PKG_CONFIG_PATH="$lib/pkgconfig"
export LD_LIBRARY_PATH="$lib"
# What may change the interface is part of the soname: before 1.0 the minor version, later the major one alone.
version=$(pkg-config --modversion whet 2>/dev/null)
case $version in
0.*) soname=libwhet.so.${version%.*} ;;
*) soname=libwhet.so.${version%%.*} ;;
esac

every_file_is_there() {
    local file status=0
    for file in include/whet.h share/doc/whet/{LICENSE,README.md,CHANGELOG.md,docs/TESTING.md,examples/minimal.c} "${lib#"$prefix"/}"/{libwhet.a,libwhet.so,"$soname",pkgconfig/whet.pc} \
        "${lib#"$prefix"/}"/cmake/whet/{whetConfig,whetConfigVersion,whetTargets}.cmake; do
        [ -e "$prefix/$file" ] || { echo "$file is missing" && status=1; }
    done
    if [ -n "$WHET_BIN" ]; then
        [ -x "$prefix/bin/whet" ] || { echo "bin/whet is missing" && status=1; }
        if [ -e "$WHET_SOURCE_DIR/man/whet.1" ]; then
            [ -e "$prefix/share/man/man1/whet.1" ] || { echo "the man page is missing" && status=1; }
        fi
        if [ -e "$WHET_SOURCE_DIR/completions/whet.bash" ]; then
            [ -e "$prefix/share/bash-completion/completions/whet" ] || { echo "bash completion is missing" && status=1; }
        fi
        if [ -e "$WHET_SOURCE_DIR/completions/_whet" ]; then
            [ -e "$prefix/share/zsh/site-functions/_whet" ] || { echo "zsh completion is missing" && status=1; }
        fi
        if [ -e "$WHET_SOURCE_DIR/completions/whet.fish" ]; then
            [ -e "$prefix/share/fish/vendor_completions.d/whet.fish" ] || { echo "fish completion is missing" && status=1; }
        fi
    fi
    if [ -n "${WHET_PLUGIN:-}" ]; then
        [ -e "$lib/whet/libggml-whet.so" ] || { echo "the plug-in for llama.cpp is missing" && status=1; }
    fi
    return "$status"
}
check "every file is there" every_file_is_there

# A program works if it tells the version that pkg-config knows.
tells_version() {
    local output
    output=$("$@") || return 1
    echo "it printed \"$output\", and pkg-config says version \"$version\""
    [ -n "$version" ] && [ "${output%% *}" = "$version" ]
}

by_find_package() {
    cmake -G Ninja -S "$consumer" -B "$SCRATCH/consumer" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" &&
        cmake --build "$SCRATCH/consumer" && tells_version "$SCRATCH/consumer/with_shared" &&
        LD_LIBRARY_PATH='' tells_version "$SCRATCH/consumer/with_static"
}
check "a program finds it by find_package, shared and static" by_find_package

examples_alone() {
    cp -r "$WHET_SOURCE_DIR/examples" "$SCRATCH/examples" &&
        cmake -G Ninja -S "$SCRATCH/examples" -B "$SCRATCH/examples/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" &&
        cmake --build "$SCRATCH/examples/build" && "$SCRATCH/examples/build/minimal" && "$SCRATCH/examples/build/decode_loop"
}
check "a copy of the examples is a project of its own" examples_alone

by_pkg_config() {
    # shellcheck disable=SC2046 # one word a flag
    "$cc" -o "$SCRATCH/shared" "$consumer/main.c" $(pkg-config --cflags --libs whet) &&
        readelf -d "$SCRATCH/shared" | grep NEEDED | grep -qF "[$soname]" && tells_version "$SCRATCH/shared"
}
check "a program links the shared library by pkg-config" by_pkg_config

by_pkg_config_static() {
    local flags
    flags=$(pkg-config --static --cflags --libs whet) || return 1
    echo "pkg-config --static: $flags"
    # The archive by name, since -lwhet takes the shared library where both are there.
    # shellcheck disable=SC2086 # one word a flag
    "$cc" -o "$SCRATCH/static" "$consumer/main.c" ${flags/-lwhet/-l:libwhet.a} || return 1
    if readelf -d "$SCRATCH/static" | grep 'NEEDED.*whet'; then
        return 1
    fi
    LD_LIBRARY_PATH='' tells_version "$SCRATCH/static" || return 1
    # Some systems have no static libc.
    echo 'int main(void) { return 0; }' >"$SCRATCH/empty.c"
    "$cc" -static -o "$SCRATCH/empty" "$SCRATCH/empty.c" 2>/dev/null || return 0
    # shellcheck disable=SC2086
    "$cc" -static -o "$SCRATCH/all-static" "$consumer/main.c" $flags && tells_version "$SCRATCH/all-static"
}
check "a program links the archive by pkg-config --static" by_pkg_config_static

exports_only_whet() {
    local others
    others=$(nm -D --defined-only "$lib/libwhet.so" | awk '$3 !~ /^whet_/')
    [ -n "$(nm -D --defined-only "$lib/libwhet.so")" ] || { echo "it exports nothing" && return 1; }
    [ -z "$others" ] || { printf 'these too:\n%s\n' "$others" && return 1; }
}
check "the shared library exports whet_ symbols alone" exports_only_whet

# Hidden symbols are still global in an archive, where they could clash with a user's own.
archive_defines_only_whet() {
    local others
    others=$(nm -g --defined-only "$lib/libwhet.a" | awk 'NF == 3 && $3 !~ /^whet_/')
    [ -z "$others" ] || { printf 'these too:\n%s\n' "$others" && return 1; }
}
check "the archive defines whet_ symbols alone" archive_defines_only_whet

soname_is_right() {
    readelf -d "$lib/libwhet.so" | grep SONAME
    readelf -d "$lib/libwhet.so" | grep -qF "[$soname]"
}
check "the soname is $soname" soname_is_right

needs_libc_alone() { # library
    local others
    others=$(readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -v -e '^lib\(c\|m\|pthread\)\.so\.[0-9]*$' -e '^ld-linux[-_a-z0-9]*\.so\.[0-9]*$')
    [ -z "$others" ] || { printf 'it needs %s\n' "$others" && return 1; }
}
check "the shared library needs libc, libm and pthreads alone" needs_libc_alone "$lib/libwhet.so"

library_alone() {
    cmake -G Ninja -S "$WHET_SOURCE_DIR" -B "$SCRATCH/alone" -DCMAKE_C_COMPILER="$cc" -DWHET_BUILD_LAB=OFF \
        -DWHET_BUILD_TESTS=OFF -DCMAKE_INSTALL_PREFIX="$SCRATCH/alone-installed" -DCMAKE_INSTALL_LIBDIR=lib &&
        cmake --build "$SCRATCH/alone" && cmake --install "$SCRATCH/alone" || return 1
    [ ! -e "$SCRATCH/alone-installed/bin/whet" ] || { echo "the program was built too" && return 1; }
    needs_libc_alone "$SCRATCH/alone-installed/lib/libwhet.so" || return 1
    PKG_CONFIG_PATH=$SCRATCH/alone-installed/lib/pkgconfig LD_LIBRARY_PATH=$SCRATCH/alone-installed/lib by_pkg_config
}
check "the library is built alone with WHET_BUILD_LAB=OFF" library_alone

finish
