# Builds for 64-bit ARM Linux with Debian's cross compiler (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross). Where qemu-user is
# installed, programs of the build, tests above all, are run by it:
#
#     cmake --toolchain cmake/aarch64-linux-gnu.cmake -B build/arm -G Ninja      or: cmake --preset arm

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

# Debian keeps the target's libraries here; the compiler finds them by itself, the emulator needs the path.
set(whet_target_root /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${whet_target_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

find_program(whet_qemu qemu-aarch64)
mark_as_advanced(whet_qemu)
if(whet_qemu)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${whet_qemu} -L ${whet_target_root})
endif()
