/* Refusals in words. */
#ifndef WHET_POLICY_VALIDATE_H
#define WHET_POLICY_VALIDATE_H

#include "whet.h"

/* Writes the reason to message (truncated to its size; may be NULL) and for whet_last_error, and
 * returns WHET_ERROR_POLICY. */
__attribute__((format(printf, 3, 4))) whet_status
whet_policy_refuse(char *message, size_t message_size, const char *format, ...);

#endif
