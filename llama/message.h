/*
 * Messages: a reason that is passed to the caller, and a line on standard
 * error.
 */
#ifndef WHET_LLAMA_MESSAGE_H
#define WHET_LLAMA_MESSAGE_H

#include <stdbool.h>

/* Holds a reason. */
typedef struct message {
    char text[512];
} message;

/* Sets the text; always returns false, for `return message_set(...)`. */
__attribute__((format(printf, 2, 3))) bool message_set(message *why, const char *format, ...);

/* Prints one line on standard error, with control characters in quoted values replaced. */
__attribute__((format(printf, 1, 2))) void message_print(const char *format, ...);

#endif
