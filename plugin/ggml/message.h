/*
 * Messages: a reason that is passed up, and a line on standard error.
 */
#ifndef WHET_PLUGIN_MESSAGE_H
#define WHET_PLUGIN_MESSAGE_H

#include <stdbool.h>

/* Where a reason goes. */
typedef struct message {
    char text[512];
} message;

/* Sets the text; always false, for `return message_set(...)`. */
__attribute__((format(printf, 2, 3))) bool message_set(message *why, const char *format, ...);

/* One line on standard error, whatever a variable's value that it quotes does to terminals. */
__attribute__((format(printf, 1, 2))) void message_print(const char *format, ...);

#endif
