/*
 * Dynamic programming. Matrix chains and common subsequences are not filled in
 * the book's order: each round computes all cells from the round before, and the
 * rounds end when one changes nothing.
 */
#include "clrs/algorithms.h"

#include <string.h>

static size_t square(int n) { return (size_t)n * (size_t)n; }

/* One round; m and known are those of the round before until they are written. */
static void improve_products(int n, const double *p, double (*m)[n], const double (*before)[n],
                             uint8_t (*known)[n], const uint8_t (*known_before)[n], int (*s)[n]) {
    for (int i = 1; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            bool has_cost = known_before[i][j];
            for (int k = i; k < j; k++) {
                if (!known_before[i][k] || !known_before[k + 1][j])
                    continue;
                known[i][j] = 1;
                double cost = before[i][k] + before[k + 1][j] + p[i - 1] * p[k] * p[j];
                if (!has_cost || cost < m[i][j]) {
                    m[i][j] = cost;
                    s[i][j] = k;
                    has_cost = true;
                }
            }
        }
}

static bool same_costs(const double *a, const double *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

void clrs_matrix_chain_order(clrs_run *run) {
    int n = run->n;
    double(*m)[n] = clrs_squares(run, 2), (*before)[n] = clrs_squares(run, 2);
    uint8_t(*known)[n] = clrs_square(run), (*known_before)[n] = clrs_square(run);
    int(*s)[n] = clrs_square(run);
    memset(m, 0, square(n) * sizeof **m);
    memset(s, 0, square(n) * sizeof **s);
    memset(known, 0, square(n));
    for (int i = 1; i < n; i++)
        known[i][i] = 1;
    do {
        memcpy(before, m, square(n) * sizeof **m);
        memcpy(known_before, known, square(n));
        record(run, matrix_state(s[0], n));
        improve_products(n, run->first, m, (void *)before, known, (void *)known_before, s);
    } while (!same_costs(m[0], before[0], square(n)));
    output(run, matrix_state(s[0], n));
}

enum { FROM_BOTH, FROM_ABOVE, FROM_LEFT };

/* The first column, then the first row, which may overwrite their common cell. */
static void begin_subsequences(int n, int nx, const int *x, const int *y, int (*c)[n],
                               int (*b)[n]) {
    for (int i = 0; i < nx; i++) {
        bool is_match = x[i] == y[0], continues = i > 0 && c[i - 1][0] == 1;
        c[i][0] = is_match || continues;
        b[i][nx] = is_match ? FROM_BOTH : FROM_ABOVE;
    }
    for (int j = 0; j < n - nx; j++) {
        bool is_match = x[0] == y[j], continues = j > 0 && c[0][j - 1] == 1;
        c[0][j] = is_match || continues;
        b[0][nx + j] = is_match ? FROM_BOTH : continues ? FROM_LEFT : FROM_ABOVE;
    }
}

static void extend_subsequences(int n, int nx, const int *x, const int *y, int (*c)[n],
                                const int (*before)[n], int (*b)[n]) {
    for (int i = 1; i < nx; i++)
        for (int j = 1; j < n - nx; j++) {
            if (x[i] == y[j]) {
                c[i][j] = before[i - 1][j - 1] + 1;
                b[i][nx + j] = FROM_BOTH;
            } else if (before[i - 1][j] >= before[i][j - 1]) {
                c[i][j] = before[i - 1][j];
                b[i][nx + j] = FROM_ABOVE;
            } else {
                c[i][j] = before[i][j - 1];
                b[i][nx + j] = FROM_LEFT;
            }
        }
}

/* b has a row and a column for every letter; a letter of x has its row, one of y its column, and
 * all other cells are -1. */
void clrs_lcs_length(clrs_run *run) {
    int n = run->n, nx = run->split;
    const int *x = run->numbers, *y = run->numbers + nx;
    int(*c)[n] = clrs_square(run), (*before)[n] = clrs_square(run), (*b)[n] = clrs_square(run);
    memset(c, 0, square(n) * sizeof **c);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            b[i][j] = i < nx && j >= nx ? FROM_BOTH : -1;
    begin_subsequences(n, nx, x, y, c, b);
    do {
        memcpy(before, c, square(n) * sizeof **c);
        record(run, matrix_state(b[0], n));
        extend_subsequences(n, nx, x, y, c, (void *)before, b);
    } while (memcmp(before, c, square(n) * sizeof **c) != 0);
    output(run, matrix_state(b[0], n));
}

void clrs_optimal_bst(clrs_run *run) {
    int n = run->n;
    const double *p = run->first, *q = run->second;
    double(*e)[n + 1] = clrs_squares(run, 2), (*w)[n + 1] = clrs_squares(run, 2);
    int(*root)[n + 1] = clrs_square(run);
    memset(root, 0, square(n + 1) * sizeof **root);
    for (int i = 0; i <= n; i++)
        e[i][i] = w[i][i] = q[i];
    record(run, matrix_state(root[0], n + 1));
    for (int length = 1; length <= n; length++) {
        for (int i = 0; i <= n - length; i++) {
            int j = i + length;
            e[i][j] = 1e9;
            w[i][j] = w[i][j - 1] + p[j - 1] + q[j];
            for (int r = i; r < j; r++) {
                double cost = e[i][r] + e[r + 1][j] + w[i][j];
                if (cost < e[i][j]) {
                    e[i][j] = cost;
                    root[i][j] = r;
                }
            }
        }
        record(run, matrix_state(root[0], n + 1));
    }
    output(run, matrix_state(root[0], n + 1));
}
