// For the fault tests of the laboratory, on top of faults.h: repeats work while each of its
// allocations fails in turn, those of jansson included.
#ifndef WHET_TESTS_SUPPORT_LAB_FAULTS_H
#define WHET_TESTS_SUPPORT_LAB_FAULTS_H

#include "support/faults.h"

#include "support/check.h"

#include "base/json.h"

#include <string.h>

// Does the work with the first, second, third ... allocation failing, until none fails: each time
// it must report that memory ran out and leave no block allocated. `after`, which may be NULL, then
// checks what is left.
static inline void lab_faults_try(bool (*work)(lab_error *error), void (*after)(bool is_done)) {
    enum { ENOUGH = 20000 };
    json_error_t unimportant;
    json_decref(
        lab_json_parse("{}", 2, 0, &unimportant)); // jansson's allocations are ours from now
    for (long k = 1; k < ENOUGH; k++) {
        lab_error error = {.kind = LAB_NO_ERROR};
        faults_begin(k, k % 2 ? FAULT_ONCE : FAULT_FOR_GOOD);
        bool is_done = work(&error);
        faults_end();
        bool struck = faults_struck();
        if (!CHECK_MSG(faults_live() == 0, "allocation %ld: %ld blocks are left", k, faults_live()))
            return;
        if (!CHECK_MSG(is_done == !struck, "allocation %ld: %s", k,
                       is_done ? "nobody noticed" : error.text))
            return;
        if (struck && !CHECK_MSG(error.kind == LAB_SYSTEM && strstr(error.text, "memory"),
                                 "allocation %ld: '%s'", k, error.text))
            return;
        if (after)
            after(is_done);
        if (!struck)
            return;
    }
    CHECK_MSG(false, "more allocations than this test was made for");
}

#endif
