/*
 * The sentence behind whet_last_error(): every public function that refuses a
 * call says why here. Only refusals touch it, so that a call that succeeds pays
 * nothing.
 */
#ifndef WHET_BASE_LAST_ERROR_H
#define WHET_BASE_LAST_ERROR_H

#include "whet.h"
#include <stdarg.h>

/* Keeps a sentence for the calling thread and returns the status. The sentence names the member
 * of the description that is wrong, as the caller would write it. An argument may be
 * whet_last_error() itself, to put something before the present sentence. */
__attribute__((cold, format(printf, 2, 3))) whet_status whet_refuse(whet_status status,
                                                                    const char *format, ...);

__attribute__((cold, format(printf, 1, 0))) void whet_refuse_list(const char *format,
                                                                  va_list arguments);

#endif
