/* `whet tune` prints what it found (tune_table.c). */
#ifndef WHET_CLI_TUNE_H
#define WHET_CLI_TUNE_H

#include "tune/tune.h"

/* False if memory ran out. */
bool print_tuned(const tune_request *request, const tune_result *result, const char *out);

#endif
