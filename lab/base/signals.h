/* Ctrl-C (and SIGTERM, and a terminal that goes away) as a flag that long work looks at. */
#ifndef WHET_LAB_SIGNALS_H
#define WHET_LAB_SIGNALS_H

#include <stdbool.h>

/* From here on the first signal sets the flag, so that work under way can be kept. One that comes
 * more than a second later ends the program at once, after a word on standard error; those before
 * are part of the first: timeout(1) sends two. SIGHUP stays ignored where nohup(1) made it so. */
void lab_catch_interrupts(void);

/* While at_once holds, the first signal ends the program: for waits that nothing else could end
 * and that have nothing to keep. */
void lab_end_on_interrupt(bool at_once);

/* Whether a signal has come in. */
bool lab_interrupted(void);

#endif
