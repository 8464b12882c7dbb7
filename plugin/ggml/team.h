/*
 * The host's threads at work on one operation. All of them call it at the same time, each with its
 * number; between phases they wait for each other here, since a custom operation cannot reach the
 * host's own barrier. They spin, as the host does, and yield now and then in case there are more
 * threads than processors.
 */
#ifndef WHET_PLUGIN_TEAM_H
#define WHET_PLUGIN_TEAM_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define TEAM_SPINS 4096 /* then the thread yields */

/* Zero-initialised before the operation. */
typedef struct team {
    atomic_uint arrived;
    _Alignas(64) atomic_uint phase;  /* number of completed phases */
    _Alignas(64) atomic_size_t next; /* next task of this phase */
} team;

static inline void team_pause(unsigned spins) {
    if (spins % TEAM_SPINS == TEAM_SPINS - 1)
        sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Returns once all threads of the team have arrived; the next phase's tasks start from the first.
 */
static inline void team_wait(team *t, unsigned threads) {
    unsigned phase = atomic_load_explicit(&t->phase, memory_order_acquire);
    if (threads <= 1 || atomic_fetch_add(&t->arrived, 1) == threads - 1) {
        atomic_store(&t->arrived, 0);
        atomic_store(&t->next, 0);
        atomic_fetch_add_explicit(&t->phase, 1, memory_order_release);
        return;
    }
    for (unsigned spins = 0; atomic_load_explicit(&t->phase, memory_order_acquire) == phase;
         spins++)
        team_pause(spins);
}

/* Takes the next task of `count`; false when none is left. */
static inline bool team_take(team *t, size_t count, size_t *task) {
    *task = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
    return *task < count;
}

#endif
