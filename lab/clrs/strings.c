/* String matching: a needle that is known to be in the haystack. The trace shows the shift. */
#include "clrs/algorithms.h"

void clrs_naive_string_matcher(clrs_run *run) {
    int h = run->split, m = run->n - h;
    const int *T = run->numbers, *P = run->numbers + h;
    for (int s = 0; s <= h - m; s++) {
        record(run, index_state(s));
        int j = 0;
        while (j < m - 1 && T[s + j] == P[j]) {
            j++;
            record(run, index_state(s));
        }
        if (T[s + j] == P[j]) {
            output(run, index_state(s));
            return;
        }
    }
}

/*
 * Positions in the needle, which the reference can only express as pointers to
 * its letters: "before the first letter" is position 0 with a flag.
 */
typedef struct cursor {
    int at;
    bool at_start;
} cursor;

static cursor fall_back(cursor from, const int *pi, const int *is_reset) {
    if (is_reset[from.at])
        return (cursor){0, true};
    return (cursor){pi[from.at], false};
}

/* Falls back until the letter after the cursor matches, recording each step. */
static cursor fall_back_to(clrs_run *run, cursor from, int letter, const int *pi,
                           const int *is_reset, int shift) {
    const int *P = run->numbers + run->split;
    while (!from.at_start && P[from.at + 1] != letter) {
        from = fall_back(from, pi, is_reset);
        record(run, index_state(shift));
    }
    return from;
}

static void compute_prefix_function(clrs_run *run, int *pi, int *is_reset) {
    int m = run->n - run->split;
    const int *P = run->numbers + run->split;
    is_reset[0] = 1;
    cursor k = {0, true};
    record(run, index_state(0));
    for (int q = 1; q < m; q++) {
        k = fall_back_to(run, k, P[q], pi, is_reset, 0);
        int matched = k.at_start ? -1 : k.at;
        if (P[matched + 1] == P[q])
            matched++;
        k = matched < 0 ? (cursor){0, true} : (cursor){matched, false};
        is_reset[q] = k.at_start;
        pi[q] = k.at;
        record(run, index_state(0));
    }
}

void clrs_kmp_matcher(clrs_run *run) {
    int h = run->split, m = run->n - h;
    const int *T = run->numbers, *P = run->numbers + h;
    int *pi = clrs_identity(run), *is_reset = clrs_zeros(run);
    compute_prefix_function(run, pi, is_reset);
    cursor q = {0, true};
    int s = 0;
    for (int i = 0; i < h; i++) {
        s += i >= m;
        record(run, index_state(s));
        q = fall_back_to(run, q, T[i], pi, is_reset, s);
        int matched = q.at_start ? -1 : q.at;
        if (P[matched + 1] == T[i]) {
            if (matched == m - 2) {
                output(run, index_state(s));
                return;
            }
            matched++;
        }
        q = matched < 0 ? (cursor){0, true} : (cursor){matched, false};
    }
}
