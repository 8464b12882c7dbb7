/* Decimal numbers in policy names, the same in every locale. */
#ifndef WHET_POLICY_NUMBER_H
#define WHET_POLICY_NUMBER_H

#include <stddef.h>

/* Bytes for any number as text, its terminating zero included. */
#define POLICY_NUMBER_SIZE 32

typedef enum policy_number { NUMBER_OK, NUMBER_MALFORMED, NUMBER_TOO_LARGE } policy_number;

/*
 * Reads the whole of text[0 ... length - 1] as a decimal number: a sign,
 * digits with at most one '.', an exponent. *value is the nearest double,
 * whatever the locale.
 */
policy_number whet_policy_number_parse(const char *text, size_t length, double *value);

/*
 * Writes the shortest of %.15g, %.16g and %.17g that reads back as the same
 * double, with '.' whatever the locale. Non-finite numbers become "inf",
 * "-inf" and "nan", which do not parse.
 */
void whet_policy_number_print(double value, char text[POLICY_NUMBER_SIZE]);

#endif
