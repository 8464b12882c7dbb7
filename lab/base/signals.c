/* Ctrl-C as a flag. */
#define _POSIX_C_SOURCE 200809L

#include "base/signals.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

/* The one thing that a signal handler may write; threads only read it. */
static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal) {
    (void)signal;
    interrupted = 1;
}

void lab_catch_interrupts(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = note_interrupt;
    action.sa_flags = (int)(SA_RESETHAND | SA_RESTART);
    interrupted = 0;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool lab_interrupted(void) { return interrupted != 0; }
