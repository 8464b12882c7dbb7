// For programs that test one instruction set at a time: the build runs them once for each, with
// WHET_ISA set. Including this header is enough. If the processor lacks the set, so that the
// library uses another one, every test is listed as skipped.
#ifndef WHET_TESTS_SUPPORT_ISA_H
#define WHET_TESTS_SUPPORT_ISA_H

#include "support/check.h"
#include "whet.h"

#include <stdlib.h>
#include <string.h>

static void isa_skip_if_missing(void) {
    const char *wanted = getenv("WHET_ISA");
    if (wanted && strcmp(wanted, whet_isa()) != 0) {
        SKIP("needs a processor with %s", wanted);
    }
}

__attribute__((constructor)) static void isa_watch(void) { check_before_each(isa_skip_if_missing); }

#endif
