/* JSON strings: runs without escapes, nearly everything, are written at once. */
#include "clrs/json_text.h"

#include <string.h>

static bool needs_escape(char c) { return c < ' ' || c == '"' || c == '\\' || c == '\x7f'; }

void clrs_write_json_text(FILE *file, const char *text, size_t length) {
    const char *end = text + length, *piece = text;
    fputc('"', file);
    for (const char *at = text; at < end; at++) {
        if (!needs_escape(*at))
            continue;
        fwrite(piece, 1, (size_t)(at - piece), file);
        piece = at + 1;
        if (*at == '\n')
            fputs("\\n", file);
        else
            fprintf(file, "\\u%04x", (unsigned char)*at);
    }
    fwrite(piece, 1, (size_t)(end - piece), file);
    fputc('"', file);
}
