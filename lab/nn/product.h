/* The shape of a matrix product. */
#ifndef WHET_LAB_PRODUCT_H
#define WHET_LAB_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

/* A product, row-major: c[m][n] = a b + (add ? c : 0), where a is [m][k], or [k][m] if `ta`, and b
 * is [k][n], or [n][k] if `tb`. */
typedef struct nn_product {
    size_t m, n, k;
    bool ta, tb, add;
} nn_product;

#endif
