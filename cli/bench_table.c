/*
 * The report of `whet bench` as tables: a line for each contender with its rate
 * and what it comes to against the limits, the best of all rounds and the
 * median, and whether it reaches its bar.
 */
#include "bench.h"

#include "machine_limits.h"
#include "whet.h"

#include <stdarg.h>
#include <string.h>

enum { FIGURE_WIDTH = 7, PAIR_WIDTH = 15, LINE_WIDTH = 100 };

/* A line under construction. */
typedef struct line {
    char text[160];
    size_t length;
} line;

__attribute__((format(printf, 2, 3))) static void append(line *to, const char *format, ...);

static const char *unit_title(report_unit unit) {
    switch (unit) {
    case UNIT_NS_PER_VALUE:
        return "ns a value";
    case UNIT_GFLOPS:
        return "GFLOP/s";
    case UNIT_GBS:
        return "GB/s";
    }
    return "";
}

/* Of the contenders' names: what columns and bars leave. */
static int name_width(const report_section *section) { return section->columns[1].title ? 24 : 36; }

static void print_heading(FILE *file, const report_section *section) {
    fprintf(file, "\n%s\n%-*s %*s", section->title, name_width(section), "", PAIR_WIDTH - 1,
            unit_title(section->unit));
    size_t columns = 1;
    for (; columns <= COLUMNS_MAX && section->columns[columns - 1].title; columns++)
        fprintf(file, " %*s", PAIR_WIDTH - 1, section->columns[columns - 1].title);
    fprintf(file, "\n%-*s", name_width(section), "");
    for (size_t i = 0; i < columns; i++)
        fprintf(file, " %*s%*s", FIGURE_WIDTH, "best", FIGURE_WIDTH, "median");
    fputs("  bar\n", file);
}

/* "n=256 (mean entropy 3.49, mean beta 2.25)" */
static void print_label(FILE *file, const report_case *of) {
    fputs(of->label, file);
    size_t width = strlen(of->label);
    for (size_t i = 0; i < of->fact_count; i++) {
        char text[64];
        const report_fact *fact = &of->facts[i];
        int length = snprintf(text, sizeof text, fact->value < 100 ? "%s %.3g" : "%s %.0f",
                              fact->name, fact->value);
        bool fits = width + (size_t)length + 3 < LINE_WIDTH;
        fprintf(file, "%s%s", i == 0 ? " (" : fits ? ", " : ",\n  ", text);
        width = fits ? width + (size_t)length + 2 : (size_t)length + 2;
    }
    fputs(of->fact_count ? ")\n" : "\n", file);
}

static void append(line *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(to->text + to->length, sizeof to->text - to->length, format, arguments);
    va_end(arguments);
    if (length > 0)
        to->length += (size_t)length;
    if (to->length >= sizeof to->text)
        to->length = sizeof to->text - 1;
}

static void append_figure(line *to, double value, report_comparison comparison) {
    if (comparison == COMPARE_SHARE)
        append(to, "%*.1f%%", FIGURE_WIDTH - 1, 100 * value);
    else
        append(to, "%*.2f", FIGURE_WIDTH, value);
}

static void append_pair(line *to, const report_figure *figure, report_comparison comparison) {
    if (figure->best == 0) {
        append(to, "%*s", PAIR_WIDTH, "");
        return;
    }
    append(to, " ");
    append_figure(to, figure->best, comparison);
    append_figure(to, figure->median, comparison);
}

static void append_bar(line *to, const report_figure *figure, report_comparison comparison) {
    if (figure->bar == BAR_NONE)
        return;
    append(to, figure->bar == BAR_AT_MOST ? "  <=" : "  >=");
    if (comparison == COMPARE_SHARE)
        append(to, "%.0f%%", 100 * figure->bar_value);
    else
        append(to, "%.2f", figure->bar_value);
    append(to, bench_report_meets(figure) ? " met" : " missed");
}

static void print_entry(FILE *file, const report_section *section, const report_entry *entry) {
    line text = {.length = 0};
    append(&text, "  %s", entry->name);
    if (entry->variant)
        append(&text, " (%s)", entry->variant);
    int digits = section->unit == UNIT_NS_PER_VALUE ? 3 : 1;
    append(&text, "%*s", name_width(section) - (int)text.length, "");
    append(&text, " %*.*f%*.*f", FIGURE_WIDTH, digits, entry->rate_best, FIGURE_WIDTH, digits,
           entry->rate_median);
    for (size_t i = 0; i < COLUMNS_MAX && section->columns[i].title; i++)
        append_pair(&text, &entry->figures[i], section->columns[i].comparison);
    for (size_t i = 0; i < COLUMNS_MAX; i++)
        append_bar(&text, &entry->figures[i], section->columns[i].comparison);
    while (text.length > 0 && text.text[text.length - 1] == ' ')
        text.length--;
    fprintf(file, "%.*s\n", (int)text.length, text.text);
}

static void count_bars(const report_section *section, size_t *met, size_t *missed) {
    for (size_t i = 0; i < section->case_count; i++)
        for (size_t j = 0; j < section->cases[i].entry_count; j++)
            for (size_t k = 0; k < COLUMNS_MAX; k++) {
                const report_figure *figure = &section->cases[i].entries[j].figures[k];
                if (figure->bar != BAR_NONE)
                    ++*(bench_report_meets(figure) ? met : missed);
            }
}

/* Where neighbours had the processor for part of the time, the figures say less about the code. */
static void print_disturbance(FILE *file, const report *shown) {
    size_t disturbed = 0;
    for (size_t i = 0; i < shown->section_count; i++)
        for (size_t j = 0; j < shown->sections[i].case_count; j++) {
            const report_case *of = &shown->sections[i].cases[j];
            for (size_t k = 0; k < of->fact_count; k++)
                disturbed +=
                    strcmp(of->facts[k].name, FACT_PRESENCE) == 0 && of->facts[k].value < 95;
        }
    if (disturbed)
        fprintf(file, "other programs disturbed %zu case(s): see '%s'\n", disturbed, FACT_PRESENCE);
}

void print_bench_tables(FILE *file, const report *shown) {
    fprintf(file, "processor  %s\nlibrary    whet %s, %s (limits: %s)\n", shown->cpu,
            whet_version(), whet_isa(), bench_limit_isa());
    if (shown->blas[0])
        fprintf(file, "sgemm      %s\n", shown->blas);
    size_t met = 0;
    size_t missed = 0;
    for (size_t i = 0; i < shown->section_count; i++) {
        const report_section *section = &shown->sections[i];
        print_heading(file, section);
        for (size_t j = 0; j < section->case_count; j++) {
            print_label(file, &section->cases[j]);
            for (size_t k = 0; k < section->cases[j].entry_count; k++)
                print_entry(file, section, &section->cases[j].entries[k]);
        }
        count_bars(section, &met, &missed);
    }
    fprintf(file, "\nbars, by the best of all rounds: %zu met, %zu missed\n", met, missed);
    print_disturbance(file, shown);
}
