/*
 * What the terminal can show, by the usual conventions: NO_COLOR
 * (no-color.org), TERM and the character set of the locale.
 */
#define _POSIX_C_SOURCE 200809L

#include "terminal.h"

#include "preferences.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool is_set(const char *variable) {
    const char *value = getenv(variable);
    return value && *value;
}

static bool terminal_has_color(void) {
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static bool wants_color(void) {
    switch (preferred.color) {
    case COLOR_ALWAYS:
        return true;
    case COLOR_NEVER:
        return false;
    case COLOR_AUTO:
        break;
    }
    return !is_set("NO_COLOR") && terminal_has_color();
}

terminal_style standard_output_style(void) {
    const char *codeset = nl_langinfo(CODESET);
    return (terminal_style){
        .color = wants_color(),
        .unicode = strcasecmp(codeset, "UTF-8") == 0 || strcasecmp(codeset, "UTF8") == 0,
    };
}

int standard_output_width(void) {
    struct winsize size = {.ws_col = 0};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}
