#!/bin/sh
# Run the tests of the AVX-512 kernels on an emulated processor, for machines that have none of
# their own (where the processor has AVX-512, `make test` runs all of them natively). Takes about
# ten minutes. test_conversions is left out: the emulator rounds ties to half precision away from zero.
set -eu
cd "$(dirname "$0")/.."
build=build/static
cmake -S . -B "$build" -G Ninja -DCMAKE_EXE_LINKER_FLAGS=-static -DWHET_BUILD_TESTS=ON >/dev/null
cmake --build "$build"
WHET_ISA=avx512
WHET_EMULATOR_ENV=WHET_ISA
WHET_EMULATOR_MEMORY=2048
LIMIT=${LIMIT:-1800}
export WHET_ISA WHET_EMULATOR_ENV WHET_EMULATOR_MEMORY LIMIT
status=0
for program in isa/test_panels isa/test_streams isa/test_kernels attention/test_masks; do
    echo "== $program"
    tools/run-under-avx512.sh "$build/tests/$program" || status=1
done
exit $status
