# Labels of tests, for `ctest -L` and `make test ARGS='-L ...'`:
#
#     row, cli, lab ...   the folder below tests/
#     fast                part of the first two minutes: make test ARGS='-L fast'
#     long                left out of `make test`; `make test-long` runs it
#
# `tools/slowest-tests.sh` lists what the last run spent its time on. A test of more than five seconds belongs in
# whet_slow_tests, one of more than a minute in whet_long_tests. docs/TESTING.md has the limits.

# Tests that build the project again or emulate a processor; and what Open MPI's ranks show within seconds, where those of
# MPICH keep waiting processors busy.
set(whet_long_tests
    "^arm/|^mpi/(backward|dealt|decode|prefill|slurm|training|tune)@mpich$|^source/archive$|^(install|packages)/install$")

# The plain C kernels take the longest and are also compared with the others kernel by kernel (isa/). Sanitizers run them.
set(whet_long_scalar_tests "^attention/(backward_additions|forward|invariant|maps|masks|skip)@scalar$")

set(whet_slow_tests
    "^attention/(backward(_plan)?|skip)@|^mpi/|^(install/install|memory/valgrind|python/wheel|python/examples|docs/site|docs/examples|web/library|web/playground|web/explorer|report/page|report/tune_page|reference/torch|plugin/llama/models)$"
    "^cli/(league|lm_train|reproduce|reproduce_clrs|retrieval|tune|tune_forward|tune_gradients)$|^lab/(league/league|lm/(gradients|torch|train)|retrieval/(torch|retrieval_faults))$|^lab/model/probe@|^lab/tune/llama_judge|^lab/tune/(calibrate|tune)$"
    # One instruction set is enough for a first look: that of most processors.
    "@(scalar|avx512|avx512-halves)$")
list(JOIN whet_slow_tests "|" whet_slow_tests)

# Where the processor has AVX-512, the tests run the kernels themselves; the same ones made of AVX2's operations add
# little outside of sanitizers, which check their loads and stores.
set(whet_has_avx512 FALSE)
if(NOT CMAKE_CROSSCOMPILING AND NOT WHET_SANITIZE AND avx512 IN_LIST whet_sets_built)
    include(CheckCSourceRuns)
    check_c_source_runs("int main(void) { return !(__builtin_cpu_supports(\"avx512f\") && __builtin_cpu_supports(\"avx512bw\")); }"
        WHET_HOST_HAS_AVX512)
    set(whet_has_avx512 ${WHET_HOST_HAS_AVX512})
endif()

function(whet_label_test name folder)
    set(labels ${folder})
    if(name MATCHES "${whet_long_tests}" OR (whet_has_avx512 AND name MATCHES "@avx512-halves$")
        OR (NOT CMAKE_CROSSCOMPILING AND NOT WHET_SANITIZE AND name MATCHES "${whet_long_scalar_tests}"))
        list(APPEND labels long)
    elseif(NOT name MATCHES "${whet_slow_tests}")
        list(APPEND labels fast)
    endif()
    set_property(TEST ${name} PROPERTY LABELS ${labels})
endfunction()
