/*
 * Shares of the remaining time; see budget.h.
 */
#include "budget.h"

double bench_budget_take(budget *from, double now, double declared) {
    double left = from->end > now ? from->end - now : 0;
    double share = declared < from->declared ? declared / from->declared : 1;
    from->declared = declared < from->declared ? from->declared - declared : 0;
    return now + left * share;
}
