/*
 * Builds a report: turns series into rates and ratios. Cases are in a growing
 * array, everything within a case in fixed arrays.
 */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

report_section *bench_report_add_section(report *to, const char *name, report_unit unit,
                                         const report_column *columns) {
    if (to->section_count == SECTIONS_MAX)
        abort(); /* a mistake in the program */
    report_section *added = &to->sections[to->section_count++];
    *added = (report_section){.name = name, .unit = unit};
    for (size_t i = 0; i < COLUMNS_MAX; i++)
        added->columns[i] = columns[i];
    return added;
}

bool bench_report_add_case(report *to, report_section *section, const report_case *added) {
    report_case *cases = realloc(section->cases, (section->case_count + 1) * sizeof *cases);
    if (!cases)
        return bench_report_fail(to, section->name, "out of memory");
    section->cases = cases;
    cases[section->case_count++] = *added;
    return true;
}

static double rate(report_unit unit, double work, double seconds) {
    if (unit == UNIT_STEPS || unit == UNIT_TOKENS)
        return work / seconds;
    return unit == UNIT_NS_PER_VALUE ? 1e9 * seconds / work : 1e-9 * work / seconds;
}

static report_figure compare(report_comparison comparison, const measurement *from,
                             const series *ours, const series *theirs) {
    ratio times = bench_ratio(from, ours, theirs);
    if (comparison == COMPARE_TIMES)
        return (report_figure){
            .best = times.best, .median = times.median, .low = times.low, .high = times.high};
    return (report_figure){.best = 1 / times.best,
                           .median = 1 / times.median,
                           .low = 1 / times.high,
                           .high = 1 / times.low};
}

report_entry *bench_report_add_entry(const report_section *section, report_case *to,
                                     const measurement *from, const char *name,
                                     report_against against) {
    const series *ours = bench_find(from, name);
    if (!ours)
        return NULL;
    if (to->entry_count == ENTRIES_MAX)
        abort(); /* a mistake in the program */
    report_entry *added = &to->entries[to->entry_count++];
    *added = (report_entry){
        .variant = ours->variant,
        .rounds = ours->rounds,
        .work = ours->work,
        .seconds_best = ours->best,
        .seconds_median = ours->median,
        .rate_best = rate(section->unit, ours->work, ours->best),
        .rate_median = rate(section->unit, ours->work, ours->median),
    };
    snprintf(added->name, sizeof added->name, "%s", name);
    for (size_t i = 0; i < COLUMNS_MAX; i++) {
        const series *theirs = against.names[i] ? bench_find(from, against.names[i]) : NULL;
        if (theirs)
            added->figures[i] = compare(section->columns[i].comparison, from, ours, theirs);
    }
    return added;
}

void bench_report_set_bar(report_entry *entry, size_t column, report_bar bar, double value) {
    if (!entry)
        return;
    entry->figures[column].bar = bar;
    entry->figures[column].bar_value = value;
}

void bench_report_add_fact(report_case *to, const char *name, double value) {
    if (to->fact_count == FACTS_MAX)
        abort(); /* a mistake in the program */
    to->facts[to->fact_count++] = (report_fact){name, value};
}

bool bench_report_meets(const report_figure *figure) {
    switch (figure->bar) {
    case BAR_AT_MOST:
        return figure->best <= figure->bar_value;
    case BAR_AT_LEAST:
        return figure->best >= figure->bar_value;
    case BAR_NONE:
        break;
    }
    return true;
}

const report_fact *bench_report_presence(const report_case *of) {
    for (size_t i = 0; i < of->fact_count; i++)
        if (strcmp(of->facts[i].name, FACT_PRESENCE) == 0)
            return &of->facts[i];
    return NULL;
}

bool bench_report_disturbed(const report_case *of) {
    const report_fact *presence = bench_report_presence(of);
    return presence && presence->value < PRESENCE_NEEDED;
}

bool bench_report_fail(report *to, const char *what, const char *why) {
    snprintf(to->error, sizeof to->error, "%s: %s", what, why);
    return false;
}

void bench_report_free(report *to) {
    for (size_t i = 0; i < to->section_count; i++)
        free(to->sections[i].cases);
    memset(to, 0, sizeof *to);
}
