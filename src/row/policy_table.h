/*
 * The table of policies: what a name begins with, and what may follow it. One
 * entry serves reading (policy_parse.c), writing (policy_name.c) and listing
 * (whet_policy_table). A name is
 *
 *     name[:number ...][:option=number ...]
 */
#ifndef WHET_POLICY_TABLE_H
#define WHET_POLICY_TABLE_H

#include "row/policy.h"

/* Long enough for a polynomial of the highest degree with every digit and option. */
#define POLICY_NAME_LENGTH_MAX 512

/* Options, in the order in which names are written. */
enum { OPTION_THRESHOLD, OPTION_FLOOR, OPTION_HOLD, OPTION_CAP, OPTION_STRENGTH, OPTION_COUNT };

#define OPTION_BIT(option) (1u << (option))

extern const char *const whet_policy_option_names[OPTION_COUNT];

/* The field that an option sets. */
double whet_policy_option_get(const whet_policy *policy, unsigned option);
void whet_policy_option_set(whet_policy *policy, unsigned option, double value);

/* What follows the name are numbers into value[0], value[1] ..., or one list c4/c3/... of them. */
typedef struct policy_entry {
    const char *name;
    whet_policy (*preset)(void); /* the policy with every parameter at its default */
    unsigned needed;             /* numbers that must be given */
    unsigned accepted;           /* numbers that may be given */
    bool is_list;                /* the one number is a list */
    unsigned options;            /* a bit for each that may be given */
    whet_policy_info info;
} policy_entry;

/* Entry i, or NULL past the end. */
const policy_entry *whet_policy_entry_at(size_t i);

#endif
