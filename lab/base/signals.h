/* Ctrl-C (and SIGTERM) as a flag that long work looks at. */
#ifndef WHET_LAB_SIGNALS_H
#define WHET_LAB_SIGNALS_H

#include <stdbool.h>

/* From here on the first signal sets the flag, and a second one of the same kind ends the program
 * at once. */
void lab_catch_interrupts(void);

/* Whether one has come in. */
bool lab_interrupted(void);

#endif
