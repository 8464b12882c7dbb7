// Calling a function that can be ended from within, at any depth: setjmp and longjmp, or where
// WebAssembly has neither, functions of tools/run-wasm.mjs.
#ifndef WHET_TESTS_SUPPORT_EARLY_END_H
#define WHET_TESTS_SUPPORT_EARLY_END_H

#if defined(__wasm__)
__attribute__((import_module("whet"), import_name("call"))) void early_end_call(void (*run)(void));
__attribute__((import_module("whet"), import_name("end_call"))) _Noreturn void early_end(void);
#else
#include <setjmp.h>

static jmp_buf early_end_place;

static inline void early_end_call(void (*run)(void)) {
    if (setjmp(early_end_place) == 0) {
        run();
    }
}

static inline _Noreturn void early_end(void) { longjmp(early_end_place, 1); }
#endif

#endif
