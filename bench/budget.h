/*
 * The time of a quick run, divided among what it measures. Each case declares
 * its seconds and gets the corresponding share of the time left. What ends
 * early leaves time to the rest, what takes long takes from the rest, and a
 * part that is added later shortens the others instead of making the run
 * longer.
 */
#ifndef WHET_BENCH_BUDGET_H
#define WHET_BENCH_BUDGET_H

typedef struct budget {
    double end;      /* when everything must be over, by the caller's clock */
    double declared; /* seconds declared by the cases still to come */
} budget;

/* The time at which a case that declares this many seconds should end. Never later than the
 * budget's end, unless that has passed: then now. */
double bench_budget_take(budget *from, double now, double declared);

#endif
