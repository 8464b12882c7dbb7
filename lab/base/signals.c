/* Ctrl-C as a flag. The handler uses only what is async-signal-safe: atomics, the clock, write. */
#define _POSIX_C_SOURCE 200809L

#include "base/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const long long grace = 1000000000; /* nanoseconds within which signals count as one */

static atomic_llong first_at;    /* when the first one came, in nanoseconds; 0: none has */
static atomic_int first_number;  /* which one it was */
static atomic_bool ends_program; /* end the program at the first one */

static void end_at_once(int number) {
    static const char second[] = "\nwhet: second signal: ended at once, unsaved work is lost\n";
    static const char first[] = "\nwhet: stopped\n";
    bool is_first = atomic_load(&ends_program);
    ssize_t written = write(STDERR_FILENO, is_first ? first : second,
                            (is_first ? sizeof first : sizeof second) - 1);
    (void)written;
    signal(number, SIG_DFL);
    raise(number);
}

static void note_interrupt(int number) {
    int error = errno;
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    long long now = 1000000000LL * time.tv_sec + time.tv_nsec + 1, first = 0;
    bool is_first = atomic_compare_exchange_strong(&first_at, &first, now);
    bool is_later = !is_first && now - first > grace;
    if (is_first)
        atomic_store(&first_number, number);
    if (is_later || atomic_load(&ends_program))
        end_at_once(number);
    errno = error;
}

void lab_catch_interrupts(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = note_interrupt;
    action.sa_flags = SA_RESTART;
    atomic_store(&first_at, 0);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
}

void lab_end_on_interrupt(bool at_once) { atomic_store(&ends_program, at_once); }

int lab_interrupt_number(void) {
    int number = atomic_load(&first_number);
    return number ? number : SIGINT;
}

bool lab_interrupted(void) { return atomic_load_explicit(&first_at, memory_order_relaxed) != 0; }
