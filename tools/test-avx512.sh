#!/bin/sh
# Runs the tests of the AVX-512 kernels on an emulated processor. On a processor with AVX-512 `make
# test` runs them natively. On others it runs the same source with each operation made of two of
# AVX2's, and this script tests the real instructions that the compiler chose.
#
#   tools/test-avx512.sh [PROGRAM[:PART-OF-A-NAME]...]
#
# Default: all programs below, the short ones first, which takes more than an hour. Arguments such as
# isa/test_panels or attention/test_backward:awkward run these only. test_conversions is left out: the
# emulator rounds ties to half precision away from zero.
set -eu
cd "$(dirname "$0")/.."
build=build/static
cmake -S . -B "$build" -G Ninja -DCMAKE_EXE_LINKER_FLAGS=-static -DWHET_BUILD_TESTS=ON -DWHET_BUILD_LAB=OFF >/dev/null
[ $# -gt 0 ] || set -- isa/test_maps isa/test_panels isa/test_kernels isa/test_cache attention/test_bad_rows \
    row/test_properties row/test_target attention/test_masks attention/test_policies row/test_maps attention/test_maps \
    row/test_many_rows row/test_special_rows row/test_row_layouts attention/test_forward row/test_rows row/test_backward \
    attention/test_backward:sizes
targets=$(for program; do echo "${program%%:*}" | sed 's,\(.*\)/test_,test_\1_,'; done)
# shellcheck disable=SC2086
cmake --build "$build" --target $targets
WHET_ISA=avx512
WHET_TEST_EMULATED=1 # fewer or smaller of the longest examples
WHET_TEST_F16_TIES_AWAY=1
WHET_EMULATOR_ENV='WHET_ISA WHET_TEST_EMULATED WHET_TEST_F16_TIES_AWAY'
WHET_EMULATOR_MEMORY=2048
LIMIT=${LIMIT:-3600}
export WHET_ISA WHET_TEST_EMULATED WHET_TEST_F16_TIES_AWAY WHET_EMULATOR_ENV WHET_EMULATOR_MEMORY LIMIT
status=0
for program; do
    echo "== $program"
    name=${program#*:}
    [ "$name" != "$program" ] || name=
    # shellcheck disable=SC2086
    tools/run-under-avx512.sh "$build/tests/${program%%:*}" $name || status=1
done
exit $status
