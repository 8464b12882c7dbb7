# Builds for WebAssembly with Debian's clang, wasi-libc, lld and libclang-rt-*-dev-wasm32: the library as whet.wasm, and its
# tests, which Node runs.
#
#     cmake --toolchain cmake/wasm32-wasi.cmake -B build/wasm -G Ninja      or: cmake --preset wasm

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang)
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
# What every engine with vectors has besides; bulk memory would need thread-local storage, which wasi-libc lacks.
set(CMAKE_C_FLAGS_INIT "-mmutable-globals -mnontrapping-fptoint -msign-ext")
set(CMAKE_EXECUTABLE_SUFFIX_C .wasm)
set(CMAKE_FIND_ROOT_PATH /usr/lib/wasm32-wasi)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

# The library needs 144 KiB of stack, more than the linker's default; below the data, an overflow traps. -O0 concerns the
# linker only: with any other, clang runs wasm-opt if that is installed, and results would depend on it.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-O0 -Wl,-z,stack-size=1048576 -Wl,--stack-first")

find_program(whet_node node)
mark_as_advanced(whet_node)
if(whet_node)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${whet_node} --no-warnings ${CMAKE_CURRENT_LIST_DIR}/../tools/run-wasm.mjs)
endif()
