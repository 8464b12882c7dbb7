/* Takes the place of attention's backward pass, which modules for JavaScript do not offer. No plan
 * of theirs has such a task. */
#include "attention/backward.h"

whet_status whet_run_backward_task(const whet_plan *plan, unsigned phase, size_t task,
                                   void *scratch, uint64_t *first_bad_row) {
    (void)plan;
    (void)phase;
    (void)task;
    (void)scratch;
    (void)first_bad_row;
    return WHET_ERROR_UNSUPPORTED;
}
