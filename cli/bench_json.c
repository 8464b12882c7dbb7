/*
 * The report of `whet bench` as one JSON object. Titles with blanks become keys
 * with underscores; shares are fractions, times seconds.
 */
#include "bench.h"

#include "base/machine.h"
#include "json.h"
#include "machine_limits.h"
#include "whet.h"

#include <math.h>
#include <string.h>

static const char *unit_name(report_unit unit) {
    switch (unit) {
    case UNIT_NS_PER_VALUE:
        return "ns_per_value";
    case UNIT_GFLOPS:
        return "gflops";
    case UNIT_GBS:
        return "gbs";
    case UNIT_STEPS:
        return "steps_per_second";
    case UNIT_TOKENS:
        return "tokens_per_second";
    }
    return "";
}

/* ", "name": ", or without the comma for the first of an object. */
static void print_key(FILE *file, const char *name, bool first) {
    char key[48];
    snprintf(key, sizeof key, "%s", name);
    for (char *blank = key; (blank = strchr(blank, ' ')) != NULL;)
        *blank = '_';
    if (!first)
        fputs(", ", file);
    json_text(file, key);
    fputs(": ", file);
}

static void print_number(FILE *file, const char *name, double value, bool first) {
    print_key(file, name, first);
    json_number(file, value);
}

static void print_text(FILE *file, const char *name, const char *value, bool first) {
    print_key(file, name, first);
    json_text(file, value);
}

static void print_figure(FILE *file, const report_figure *figure) {
    fputc('{', file);
    print_number(file, "best", figure->best, true);
    print_number(file, "median", figure->median, false);
    if (figure->low > 0 && isfinite(figure->high)) {
        print_number(file, "low", figure->low, false);
        print_number(file, "high", figure->high, false);
    }
    if (figure->bar != BAR_NONE) {
        print_number(file, figure->bar == BAR_AT_MOST ? "at_most" : "at_least", figure->bar_value,
                     false);
        print_key(file, "met", false);
        fputs(bench_report_meets(figure) ? "true" : "false", file);
    }
    fputc('}', file);
}

static void print_entry(FILE *file, const report_section *section, const report_entry *entry) {
    fputs("\n        {", file);
    print_text(file, "name", entry->name, true);
    if (entry->variant)
        print_text(file, "variant", entry->variant, false);
    print_number(file, "rounds", (double)entry->rounds, false);
    print_number(file, "work", entry->work, false);
    print_number(file, "seconds_best", entry->seconds_best, false);
    print_number(file, "seconds_median", entry->seconds_median, false);
    print_number(file, "rate_best", entry->rate_best, false);
    print_number(file, "rate_median", entry->rate_median, false);
    for (size_t i = 0; i < COLUMNS_MAX; i++) {
        if (entry->figures[i].best == 0)
            continue;
        print_key(file, section->columns[i].title, false);
        print_figure(file, &entry->figures[i]);
    }
    fputc('}', file);
}

static void print_case(FILE *file, const report_section *section, const report_case *of) {
    fputs("\n      {", file);
    print_text(file, "label", of->label, true);
    print_key(file, "facts", false);
    fputc('{', file);
    for (size_t i = 0; i < of->fact_count; i++)
        print_number(file, of->facts[i].name, of->facts[i].value, i == 0);
    fputc('}', file);
    if (bench_report_presence(of)) {
        print_key(file, "disturbed", false);
        fputs(bench_report_disturbed(of) ? "true" : "false", file);
    }
    print_key(file, "entries", false);
    fputc('[', file);
    for (size_t i = 0; i < of->entry_count; i++) {
        fputs(i ? "," : "", file);
        print_entry(file, section, &of->entries[i]);
    }
    fputs("]}", file);
}

static void print_section(FILE *file, const report_section *section) {
    fputs("\n    {", file);
    print_text(file, "name", section->name, true);
    print_text(file, "title", section->title, false);
    print_text(file, "unit", unit_name(section->unit), false);
    print_key(file, "cases", false);
    fputc('[', file);
    for (size_t i = 0; i < section->case_count; i++) {
        fputs(i ? "," : "", file);
        print_case(file, section, &section->cases[i]);
    }
    fputs("]}", file);
}

void print_bench_json(FILE *file, const void *context) {
    const report *shown = context;
    fputs("{\n  ", file);
    print_text(file, "version", whet_version(), true);
    print_text(file, "isa", whet_isa(), false);
    print_text(file, "limits_isa", bench_limit_isa(), false);
    print_text(file, "cpu", shown->cpu, false);
    print_text(file, "compiler", lab_compiler(), false);
    print_text(file, "blas", shown->blas, false);
    print_number(file, "threads", (double)shown->threads, false);
    print_key(file, "quick", false);
    fputs(shown->quick ? "true" : "false", file);
    fputs(",\n  \"sections\": [", file);
    for (size_t i = 0; i < shown->section_count; i++) {
        fputs(i ? "," : "", file);
        print_section(file, &shown->sections[i]);
    }
    fputs("]\n}\n", file);
}
