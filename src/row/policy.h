/*
 * What the files about policies share: numbers as text, refusals in words, and
 * the bounds within which a beta is kept.
 */
#ifndef WHET_POLICY_H
#define WHET_POLICY_H

#include "whet.h"

#include <stdbool.h>

/*
 * A larger beta than this says nothing more: it already puts everything on the
 * largest logits, however close the next ones are. Keeping to it means that
 * beta times a difference of logits is never inf times zero.
 */
#define POLICY_BETA_MAX 1e30

/* Room for any number as text, its end included. */
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
 * double, with '.' whatever the locale. Not-finite numbers become "inf",
 * "-inf" and "nan", which do not parse.
 */
void whet_policy_number_print(double value, char text[POLICY_NUMBER_SIZE]);

/* Says why in message (cut to its size, NULL if not wanted) and returns WHET_ERROR_POLICY. */
__attribute__((format(printf, 3, 4))) whet_status
whet_policy_refuse(char *message, size_t message_size, const char *format, ...);

/*
 * beta before strength and before it is kept within bounds; NaN for target and the maps. A custom
 * policy's own derivative goes to *dbeta_dentropy, which is 0 for all others: see beta_path.c.
 */
double whet_policy_full_beta(const whet_policy *policy, const whet_stats *stats,
                             double *dbeta_dentropy);

/* beta from many entropies, for policies that look at nothing else; false for the others. */
bool whet_policy_betas(const whet_policy *policy, const double *entropy, size_t count,
                       double *beta);

#endif
