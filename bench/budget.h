/*
 * The time that a quick run may take, divided among what it measures. Whoever
 * comes gets the share of the time left that it declared of all that is still
 * to come: what is done early leaves time to the rest, what takes long takes
 * from the rest, and a part that is added later shortens the others instead of
 * making the run longer.
 */
#ifndef WHET_BENCH_BUDGET_H
#define WHET_BENCH_BUDGET_H

typedef struct budget {
    double end;      /* when all must be over, by the clock that the caller reads */
    double declared; /* seconds declared by those still to come */
} budget;

/* For one that declares so many seconds: when it ought to be over. Never later than the budget's
 * own end, unless that has passed: then now. */
double bench_budget_take(budget *from, double now, double declared);

#endif
