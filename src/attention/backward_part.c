/* Sums of rows in parts: see backward_part.h. */
#include "attention/backward.h"
#include "base/sums.h"

void whet_backward_raise(backward_sums *sums, double exp2_scale, double exp2_scale0, double peak,
                         double base) {
    if (sums->peak > -(double)INFINITY) {
        double shift = sums->peak - peak, factor = exp2(exp2_scale * shift);
        double base_shift = base - sums->base;
        sums->a -= base_shift * sums->z;
        sums->b -= base_shift * sums->s;
        sums_shift(shift, factor, &sums->a, &sums->b, NULL);
        sums_shift(shift, factor, &sums->z, &sums->s, NULL);
        sums_shift(shift, exp2(exp2_scale0 * shift), &sums->z0, &sums->s0, &sums->q0);
    }
    sums->peak = peak;
    sums->base = base;
}

void whet_backward_add_sums(backward_sums *into, const backward_sums *more, double exp2_scale,
                            double exp2_scale0) {
    backward_sums other = *more;
    if (other.peak > into->peak)
        whet_backward_raise(into, exp2_scale, exp2_scale0, other.peak, other.base);
    else
        whet_backward_raise(&other, exp2_scale, exp2_scale0, into->peak, into->base);
    into->z += other.z;
    into->s += other.s;
    into->a += other.a;
    into->b += other.b;
    into->z0 += other.z0;
    into->s0 += other.s0;
    into->q0 += other.q0;
}

backward_sums whet_backward_lane_sums(const backward_panel *p, size_t lane) {
    return (backward_sums){.peak = (double)p->peak[lane],
                           .base = (double)p->to_logits.base[lane],
                           .z = p->z[lane],
                           .s = p->s[lane],
                           .a = p->a[lane],
                           .b = p->b[lane],
                           .z0 = p->z0[lane],
                           .s0 = p->s0[lane],
                           .q0 = p->q0[lane]};
}

void whet_backward_set_lane(backward_panel *p, size_t lane, const backward_sums *sums) {
    p->peak[lane] = p->to_logits.max[lane] = (float)sums->peak;
    p->to_logits.base[lane] = (float)sums->base;
    p->z[lane] = sums->z;
    p->s[lane] = sums->s;
    p->a[lane] = sums->a;
    p->b[lane] = sums->b;
    p->z0[lane] = sums->z0;
    p->s0[lane] = sums->s0;
    p->q0[lane] = sums->q0;
}

/* g of a part lacks what the part's values have in common; in the sums of all parts it does not. */
static void take_lane(const backward_panel *p, size_t lane, backward_sums *to) {
    *to = whet_backward_lane_sums(p, lane);
    to->base += p->common[lane];
}

static void give_lane(backward_panel *p, size_t lane, const backward_sums *from) {
    backward_sums own = *from;
    if (!(own.peak > -(double)INFINITY)) {
        p->z[lane] = own.z; /* NaN, or nothing that would count */
        return;
    }
    own.base = (double)(float)(own.base - p->common[lane]);
    double base_shift = own.base + p->common[lane] - from->base;
    own.a -= base_shift * own.z;
    own.b -= base_shift * own.s;
    whet_backward_set_lane(p, lane, &own);
}

static void exchange_lane(backward_work *w, size_t index, size_t lane) {
    backward_panel *p = w->panels + index;
    backward_sums *row = w->part->rows + whet_row_index(&w->slice, &p->row[lane]);
    if (is_by_row(w->gradients, p->row[lane].policy)) {
        if (w->part->run != RUN_GRADIENTS) /* then it is prepare's turn */
            whet_backward_through_row(w, index, lane);
    } else if (w->part->run == RUN_SUMS) {
        take_lane(p, lane, row);
    } else if (w->part->run == RUN_GRADIENTS) {
        give_lane(p, lane, row);
    }
}

void whet_backward_exchange(backward_work *w) {
    for (size_t i = 0; i < w->panel_count; i++)
        for (size_t lane = 0; lane < w->panels[i].row_count; lane++)
            exchange_lane(w, i, lane);
}
