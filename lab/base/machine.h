/* The machine this runs on. */
#ifndef WHET_LAB_MACHINE_H
#define WHET_LAB_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

/* The processor's name, or "unknown". */
void lab_cpu_name(char *name, size_t size);

/* Number of processors that this process may use, at least 1. */
size_t lab_processors(void);

/* "gcc 12.2.0" */
const char *lab_compiler(void);

#endif
