/*
 * Lists of layers or heads in settings: ranges in the order given, such as "0-3,7".
 */
#ifndef WHET_LLAMA_INDEX_SET_H
#define WHET_LLAMA_INDEX_SET_H

#include "llama/message.h"
#include <stddef.h>

#define INDEX_MAX 65535 /* largest layer or head */

/* No range means every number. */
typedef struct index_set {
    size_t count;
    struct index_range {
        unsigned first, last;
    } * ranges;
} index_set;

/* Parses a list of ranges. */
bool index_set_parse(const char *text, index_set *set, message *why);
bool index_set_has(const index_set *set, unsigned index);

/* The largest number of its ranges; 0 without any. */
unsigned index_set_largest(const index_set *set);

#endif
