/* Verdicts in words: the summary, a table for the page, lines for a terminal; see verdict.h. */
#include "report/verdict.h"

#include "report/html.h"

static const char *const words[VERDICT_STATES] = {"reproduced", "in part", "not reproduced",
                                                  "not made"};
static const char *const headings[VERDICT_STATES] = {"Reproduced", "Reproduced in part",
                                                     "Not reproduced", "Not made by this run"};

void verdict_summary(FILE *file, const verdict list[VERDICTS]) {
    const char *before = "";
    for (size_t state = 0; state < VERDICT_STATES; state++) {
        bool is_open = false;
        for (size_t i = 0; i < VERDICTS; i++) {
            if (list[i].state != (verdict_state)state)
                continue;
            if (is_open)
                fprintf(file, ", %s", list[i].subject);
            else
                fprintf(file, "%s%s: %s", before, headings[state], list[i].subject);
            is_open = true;
            before = ". ";
        }
    }
    fputc('.', file);
}

void verdict_print(FILE *file, const verdict list[VERDICTS]) {
    fputs("Verdict\n", file);
    for (size_t i = 0; i < VERDICTS; i++)
        fprintf(file, "  %-18s %-15s %s\n", list[i].subject, words[list[i].state], list[i].found);
}

/* Linked to its part of the page, if the run made one. */
static void write_subject(FILE *file, const verdict *v) {
    bool is_linked = v->part && v->state != VERDICT_NOT_MADE;
    if (is_linked)
        fprintf(file, "<a href=\"#%s\">", v->part);
    html_text(file, v->subject);
    if (is_linked)
        fputs("</a>", file);
}

void verdict_html(FILE *file, const verdict list[VERDICTS]) {
    static const char *const classes[VERDICT_STATES] = {"yes", "partly", "no", "none"};
    fputs("<table class=\"verdict\">\n<thead><tr>"
          "<th scope=\"col\">of the paper</th><th scope=\"col\">verdict</th>"
          "<th scope=\"col\">found</th><th scope=\"col\">measure</th></tr></thead>\n<tbody>\n",
          file);
    for (size_t i = 0; i < VERDICTS; i++) {
        const verdict *v = &list[i];
        fputs("<tr><th scope=\"row\">", file);
        write_subject(file, v);
        fprintf(file, "</th><td class=\"%s\">%s</td><td>", classes[v->state], words[v->state]);
        html_text(file, v->found);
        fputs("</td><td><em>", file);
        html_text(file, v->claim);
        fputs("</em>: ", file);
        html_text(file, v->measure);
        fputs("</td></tr>\n", file);
    }
    fputs("</tbody></table>\n", file);
}
