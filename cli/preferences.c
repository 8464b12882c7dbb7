/* One set of preferences for the whole program. */
#include "preferences.h"

#include <stddef.h>

preferences preferred = {.quiet = false, .color = COLOR_AUTO};

const char *const color_names[] = {"auto", "always", "never", NULL};
