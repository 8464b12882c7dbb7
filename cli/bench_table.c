/*
 * The report of `whet bench` as tables: a line for each contender with its rate
 * and what it comes to against the limits, the best of all rounds and the
 * median; and below it, for each of its bars, whether it is reached.
 */
#include "bench.h"

#include "machine_limits.h"
#include "text.h"
#include "whet.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { FIGURE_WIDTH = 7, PAIR_WIDTH = 2 * FIGURE_WIDTH, TITLE_SIZE = 24 };

/* A line under construction. */
typedef struct line {
    char text[160];
    size_t length;
} line;

/* How many bars there are, by what became of them. */
typedef struct bar_counts {
    size_t met;
    size_t missed;
    size_t disturbed;
} bar_counts;

__attribute__((format(printf, 2, 3))) static void append(line *to, const char *format, ...);

static const char *unit_title(report_unit unit) {
    switch (unit) {
    case UNIT_NS_PER_VALUE:
        return "ns a value";
    case UNIT_GFLOPS:
        return "GFLOP/s";
    case UNIT_GBS:
        return "GB/s";
    case UNIT_STEPS:
        return "steps/s";
    case UNIT_TOKENS:
        return "tokens/s";
    }
    return "";
}

/* Of the contenders' names: what columns leave. */
static int name_width(const report_section *section) { return section->columns[1].title ? 23 : 38; }

/* "x copy" for "times copy". */
static const char *column_title(const report_column *column, char title[TITLE_SIZE]) {
    static const char times[] = "times ";
    bool shorten =
        column->comparison == COMPARE_TIMES && strncmp(column->title, times, sizeof times - 1) == 0;
    snprintf(title, TITLE_SIZE, "%s%s", shorten ? "x " : "",
             column->title + (shorten ? sizeof times - 1 : 0));
    return title;
}

static void print_heading(FILE *file, const report_section *section) {
    fprintf(file, "\n%s\n%*s%*s", section->title, name_width(section), "", PAIR_WIDTH,
            unit_title(section->unit));
    size_t columns = 1;
    for (; columns <= COLUMNS_MAX && section->columns[columns - 1].title; columns++) {
        char title[TITLE_SIZE];
        fprintf(file, "%*s", PAIR_WIDTH, column_title(&section->columns[columns - 1], title));
    }
    fprintf(file, "\n%*s", name_width(section), "");
    for (size_t i = 0; i < columns; i++)
        fprintf(file, "%*s%*s", FIGURE_WIDTH, "best", FIGURE_WIDTH, "median");
    fputc('\n', file);
}

/* "n=256" and, on lines of their own, "mean entropy 3.49, mean beta 2.25". */
static void print_label(FILE *file, const report_case *of) {
    enum { INDENT = 4 };
    fprintf(file, "%s\n", of->label);
    size_t width = INDENT;
    for (size_t i = 0; i < of->fact_count; i++) {
        char text[64];
        const report_fact *fact = &of->facts[i];
        int length = snprintf(text, sizeof text, fact->value < 100 ? "%s %.3g" : "%s %.0f",
                              fact->name, fact->value);
        bool fits = width + (size_t)length + 3 <= LINE_WIDTH; /* with the comma after it */
        if (i == 0)
            fprintf(file, "%*s%s", INDENT, "", text);
        else if (fits)
            fprintf(file, ", %s", text);
        else
            fprintf(file, ",\n%*s%s", INDENT, "", text);
        width = (i == 0 || !fits ? INDENT : width + 2) + (size_t)length;
    }
    if (of->fact_count)
        fputc('\n', file);
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

/* A figure within 1 % of its bar gets one more digit, so that one can see which side it is on. */
static void append_figure(line *to, int width, double value, const report_figure *of,
                          report_comparison comparison) {
    bool close = of->bar != BAR_NONE && fabs(value - of->bar_value) <= 0.01 * of->bar_value;
    if (comparison == COMPARE_SHARE)
        append(to, "%*.*f%%", width ? width - 1 : 0, close ? 2 : 1, 100 * value);
    else
        append(to, "%*.*f", width, close ? 3 : 2, value);
}

static void append_pair(line *to, const report_figure *figure, report_comparison comparison) {
    if (figure->best == 0) {
        append(to, "%*s", PAIR_WIDTH, "");
        return;
    }
    append_figure(to, FIGURE_WIDTH, figure->best, figure, comparison);
    append_figure(to, FIGURE_WIDTH, figure->median, figure, comparison);
}

static const char *judge(const report_case *of, const report_figure *figure, bar_counts *counts) {
    if (bench_report_disturbed(of)) {
        counts->disturbed++;
        return "disturbed";
    }
    bool met = bench_report_meets(figure);
    ++*(met ? &counts->met : &counts->missed);
    return met ? "met" : "missed";
}

/* "    bar: x copy 1.31 (median 1.30 to 1.34), at most 1.40: met" */
static void print_bar(FILE *file, const report_case *of, const report_column *column,
                      const report_figure *figure, bar_counts *counts) {
    char title[TITLE_SIZE];
    line text = {.length = 0};
    append(&text, "    bar: %s ", column_title(column, title));
    append_figure(&text, 0, figure->best, figure, column->comparison);
    if (figure->low > 0 && isfinite(figure->high)) {
        append(&text, " (median ");
        append_figure(&text, 0, figure->low, figure, column->comparison);
        append(&text, " to ");
        append_figure(&text, 0, figure->high, figure, column->comparison);
        append(&text, ")");
    }
    append(&text, figure->bar == BAR_AT_MOST ? ", at most " : ", at least ");
    if (column->comparison == COMPARE_SHARE)
        append(&text, "%.0f%%", 100 * figure->bar_value);
    else
        append(&text, "%.2f", figure->bar_value);
    fprintf(file, "%s: %s\n", text.text, judge(of, figure, counts));
}

static void print_entry(FILE *file, const report_section *section, const report_case *of,
                        const report_entry *entry, bar_counts *counts) {
    line text = {.length = 0};
    append(&text, " %s", entry->name);
    if (entry->variant)
        append(&text, " (%s)", entry->variant);
    int digits = section->unit == UNIT_NS_PER_VALUE ? 3 : 1;
    int left = name_width(section) - (int)text.length;
    append(&text, "%*s", left > 0 ? left : 0, "");
    append(&text, "%*.*f%*.*f", FIGURE_WIDTH, digits, entry->rate_best, FIGURE_WIDTH, digits,
           entry->rate_median);
    for (size_t i = 0; i < COLUMNS_MAX && section->columns[i].title; i++)
        append_pair(&text, &entry->figures[i], section->columns[i].comparison);
    while (text.length > 0 && text.text[text.length - 1] == ' ')
        text.length--;
    fprintf(file, "%.*s\n", (int)text.length, text.text);
    for (size_t i = 0; i < COLUMNS_MAX; i++)
        if (entry->figures[i].bar != BAR_NONE)
            print_bar(file, of, &section->columns[i], &entry->figures[i], counts);
}

static void print_field(FILE *file, const char *name, const char *value) {
    int used = fprintf(file, "%-11s", name);
    print_wrapped(file, value, used);
}

static void print_legend(FILE *file) {
    char text[400];
    snprintf(text, sizeof text,
             "A bar is what the project aims at (docs/PERFORMANCE.md). 'x copy', 'x plain' and so "
             "on are our time divided by theirs: lower is better. 'of FMA peak', 'of read' and "
             "'times as fast': higher is better. Bars are disturbed where other programs left us "
             "less than %d %% of the processor.",
             PRESENCE_NEEDED);
    fputc('\n', file);
    print_wrapped(file, text, 0);
}

static void print_counts(FILE *file, const bar_counts *counts) {
    line text = {.length = 0};
    append(&text, "bars, by the best of all rounds: %zu met, %zu missed", counts->met,
           counts->missed);
    if (counts->disturbed)
        append(&text, ", %zu disturbed by other programs", counts->disturbed);
    fputc('\n', file);
    print_wrapped(file, text.text, 0);
}

void print_bench_tables(FILE *file, const report *shown) {
    char library[80];
    snprintf(library, sizeof library, "whet %s, %s (limits: %s)", whet_version(), whet_isa(),
             bench_limit_isa());
    print_field(file, "processor", shown->cpu);
    print_field(file, "library", library);
    if (shown->blas[0])
        print_field(file, "sgemm", shown->blas);
    print_legend(file);
    bar_counts counts = {.met = 0};
    for (size_t i = 0; i < shown->section_count; i++) {
        const report_section *section = &shown->sections[i];
        print_heading(file, section);
        for (size_t j = 0; j < section->case_count; j++) {
            const report_case *of = &section->cases[j];
            print_label(file, of);
            for (size_t k = 0; k < of->entry_count; k++)
                print_entry(file, section, of, &of->entries[k], &counts);
        }
    }
    print_counts(file, &counts);
}
