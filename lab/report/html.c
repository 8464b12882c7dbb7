/* Escapes, base 64 and the parts of every page; see html.h. */
#include "report/html.h"
#include "base/machine.h"
#include "report/style.h"
#include "whet.h"
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

void html_page_begin(FILE *file, const char *title, const char *style) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
          "<link rel=\"icon\" href=\"data:,\"/>\n<title>",
          file);
    html_text(file, title);
    fprintf(file, "</title>\n<style>\n%s%s</style>\n<main>\n", page_style, style ? style : "");
}

void html_page_end(FILE *file) { fputs("</main>\n</html>\n", file); }

void html_fact(FILE *file, const char *name, const char *text) {
    fprintf(file, "<dt>%s</dt><dd>", name);
    html_text(file, text);
    fputs("</dd>\n", file);
}

void html_machine(FILE *file) {
    char text[256], cpu[128];
    lab_cpu_name(cpu, sizeof cpu);
    snprintf(text, sizeof text, "%s, %zu processors", cpu, lab_processors());
    html_fact(file, "machine", text);
    snprintf(text, sizeof text, "whet %s, instruction set %s, %s", whet_version(), whet_isa(),
             lab_compiler());
    html_fact(file, "version", text);
}

void html_table_begin(FILE *file) {
    fputs("<p class=\"hint\">Scroll the table sideways for more columns.</p>\n"
          "<div class=\"wide\" tabindex=\"0\"><table>\n",
          file);
}

void html_table_end(FILE *file) { fputs("</table></div>\n", file); }
