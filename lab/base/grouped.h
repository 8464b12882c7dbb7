/* Numbers for people: 131072 as "131,072". */
#ifndef WHET_LAB_GROUPED_H
#define WHET_LAB_GROUPED_H

#include <stdint.h>

enum { NUMBER_SIZE = 32 };

/* With a comma before each group of three digits, in the caller's memory. */
const char *grouped(uint64_t number, char text[NUMBER_SIZE]);

#endif
