# The BLAS: the messages when it cannot be loaded or finds no memory, and what does not need it.
. "${WHET_SOURCE_DIR:?}/tests/cli/lib.sh"

cd "$SCRATCH" || exit 1
train() { # further arguments
    "$WHET_BIN" retrieval train --out trained --steps 2 --quiet "$@"
}

# The loader's own words are passed on.
echo 'not a library' >fake.so
WHET_BLAS=$SCRATCH/fake.so refused "a BLAS that is no library is named, with the loader's reason" 2 \
    "WHET_BLAS=$SCRATCH/fake.so: cannot load: " train
WHET_BLAS=$SCRATCH/none.so refused "so is one that is missing" 2 \
    "$SCRATCH/none.so: cannot load: cannot open shared object file: No such file or directory" train
mkdir broken
for name in libopenblas.so.0 libopenblas.so; do
    echo 'not a library, though a file of this name' >broken/$name
done
if [ -z "${WHET_INSTRUMENTED:-}" ]; then
    LD_LIBRARY_PATH=$SCRATCH/broken refused "an installed OpenBLAS that cannot be loaded is not called missing alone" 1 \
        "($SCRATCH/broken/libopenblas.so.0: " train
else
    skip "an installed OpenBLAS that cannot be loaded is not called missing alone" "the sanitizer's loader differs"
fi

# What is computed without products asks for none.
without_blas() {
    WHET_BLAS=$SCRATCH/none.so "$WHET_BIN" figure 5 --out figure5.svg --quiet && [ -s figure5.svg ]
}
check "figure 5 needs no BLAS" without_blas

# OpenBLAS waits for ever for memory that it does not get.
if [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "OpenBLAS without memory ends the program" "an instrumented build needs more memory"
elif ! train --threads 1 >/dev/null 2>&1; then
    skip "OpenBLAS without memory ends the program" "needs OpenBLAS"
else
    little_memory() { # kilobytes command ...
        ulimit -v "$1"
        shift
        exec timeout -s KILL 60 "$@"
    }
    for kilobytes in 150000 250000 300000; do
        refused "lm train says so in $kilobytes kB" 1 'out of memory: OpenBLAS needs 128 MiB' \
            bash -c "$(declare -f little_memory); little_memory $kilobytes '$WHET_BIN' lm train --out lm --steps 2 --threads 2 --quiet"
    done
    refused "retrieval train says so" 1 'out of memory: OpenBLAS needs 128 MiB' \
        bash -c "$(declare -f little_memory); little_memory 150000 '$WHET_BIN' retrieval train --out r --steps 2 --threads 1 --quiet"
fi

# Should it wait all the same, the first signal ends the program. A library that waits stands for it.
if have cc && [ -z "${WHET_INSTRUMENTED:-}" ]; then
    cat >waiting.c <<'C'
#include <stdio.h>
#include <unistd.h>
void cblas_sgemm(void) {}
void *blas_memory_alloc(int position) {
    (void)position;
    fclose(fopen("waiting", "w"));
    alarm(60);
    for (;;) pause();
}
void blas_memory_free(void *buffer) { (void)buffer; }
C
    cc -shared -fPIC -o waiting.so waiting.c
    ended_by() { # signal status
        rm -f waiting
        WHET_BLAS=$SCRATCH/waiting.so stopped_at "$1" waiting reproduce --out waits --quiet
        [ "$status" -eq "$2" ] && grep -qx 'whet: stopped' "$SCRATCH/err"
    }
    check "the first SIGTERM ends a wait for memory" ended_by TERM 143
    check "the first Ctrl-C does" ended_by INT 130
else
    skip "the first signal ends a wait for memory" "needs cc, and a build without sanitizers"
fi
finish
