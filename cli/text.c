/* Lines broken to fit. */
#include "text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

static bool is_blank(char c) { return c == ' ' || c == '\n'; }

void print_wrapped(FILE *file, const char *text, int indent) {
    int used = indent;
    for (bool is_first = true; *text; is_first = false) {
        int length = (int)strcspn(text, " \n");
        if (!is_first && used + 1 + length > LINE_WIDTH)
            used = fprintf(file, "\n%*s", indent, "") - 1;
        else if (!is_first)
            used += fprintf(file, " ");
        used += fprintf(file, "%.*s", length, text);
        text += length;
        while (is_blank(*text))
            text++;
    }
    fputc('\n', file);
}

void tell(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print_wrapped(stdout, text, 0);
}
