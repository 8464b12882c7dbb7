#!/bin/sh
# Run the tests of the AVX-512 kernels on an emulated processor, for machines that have none of
# their own (where the processor has AVX-512, `make test` runs all of them natively). Takes a
# quarter of an hour and more. test_conversions is left out: the emulator rounds ties to half precision away from zero.
set -eu
cd "$(dirname "$0")/.."
build=build/static
cmake -S . -B "$build" -G Ninja -DCMAKE_EXE_LINKER_FLAGS=-static -DWHET_BUILD_TESTS=ON -DWHET_BUILD_LAB=OFF >/dev/null
programs='isa/test_panels isa/test_streams isa/test_kernels isa/test_maps row/test_maps row/test_backward attention/test_masks'
targets=$(for program in $programs; do echo "$program" | sed 's,\(.*\)/test_,test_\1_,'; done)
# shellcheck disable=SC2086
cmake --build "$build" --target $targets
WHET_ISA=avx512
WHET_EMULATOR_ENV=WHET_ISA
WHET_EMULATOR_MEMORY=2048
LIMIT=${LIMIT:-1800}
export WHET_ISA WHET_EMULATOR_ENV WHET_EMULATOR_MEMORY LIMIT
status=0
for program in $programs; do
    echo "== $program"
    tools/run-under-avx512.sh "$build/tests/$program" || status=1
done
exit $status
