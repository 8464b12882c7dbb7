/* Ctrl-C (also SIGTERM and SIGHUP) as a flag that long work polls. */
#ifndef WHET_LAB_SIGNALS_H
#define WHET_LAB_SIGNALS_H

#include <stdbool.h>

/* From here on the first signal sets the flag, so that work in progress can be saved. A signal more
 * than a second later ends the program at once, with a message on standard error; earlier ones
 * count as part of the first: timeout(1) sends two. SIGHUP stays ignored under nohup(1). */
void lab_catch_interrupts(void);

/* While at_once holds, the first signal ends the program: for waits that nothing else could end
 * and that have nothing to keep. */
void lab_end_on_interrupt(bool at_once);

/* Whether a signal has arrived. */
bool lab_interrupted(void);

/* The first signal that arrived; SIGINT if none has. */
int lab_interrupt_number(void);

#endif
