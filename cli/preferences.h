/* What the user wants of every command, given before or after its name. */
#ifndef WHET_CLI_PREFERENCES_H
#define WHET_CLI_PREFERENCES_H

#include <stdbool.h>

typedef enum color_choice { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } color_choice;

typedef struct preferences {
    bool quiet;         /* results and errors only: no progress, no remarks */
    color_choice color; /* on standard output */
} preferences;

/* Those of this run. */
extern preferences preferred;

/* Names for --color, in the order of the choices and ended by NULL. */
extern const char *const color_names[];

#endif
