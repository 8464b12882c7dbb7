/* Escapes and base 64; see html.h. */
#include "report/html.h"
#include <stdint.h>

void html_text(FILE *file, const char *text) {
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '"')
            fputs("&quot;", file);
        else
            fputc(*text, file);
    }
}

void html_base64(FILE *file, const char *data, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        uint32_t bits = 0;
        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (i + j < size ? (unsigned char)data[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            fputc(i + j <= size ? digits[bits >> (18 - 6 * j) & 63] : '=', file);
    }
}

void html_table_begin(FILE *file) {
    fputs("<p class=\"hint\">Scroll the table sideways for more columns.</p>\n"
          "<div class=\"wide\" tabindex=\"0\"><table>\n",
          file);
}

void html_table_end(FILE *file) { fputs("</table></div>\n", file); }
