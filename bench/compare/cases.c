/*
 * The module of cases.h: visits the parts of a quick benchmark instead of
 * measuring them, so that there is one definition of the cases.
 */
#include "cases.h"

#include "base/machine.h"
#include "inputs.h"
#include "suite.h"

#include <stdio.h>
#include <string.h>

__attribute__((visibility("default"))) const cases_module *whet_cases(void);

typedef struct listing {
    cases_found *found;
    void *context;
} listing;

static bool list_one(void *context, const char *section, const char *label, double seconds) {
    const listing *to = context;
    to->found(to->context, section, label, seconds);
    return false;
}

typedef struct opening {
    const char *section, *label;
    cases_opened *opened;
    void *context;
    bool is_found;
} opening;

static bool is_asked_for(void *context, const char *section, const char *label, double seconds) {
    const opening *of = context;
    (void)seconds;
    return strcmp(section, of->section) == 0 && strcmp(label, of->label) == 0;
}

static void hand_over(void *context, const contender *list, size_t count) {
    opening *of = context;
    cases_contender contenders[SERIES_MAX];
    for (size_t i = 0; i < count; i++)
        contenders[i] = (cases_contender){.name = list[i].name,
                                          .run = list[i].run,
                                          .argument = list[i].argument,
                                          .threads = list[i].threads > 1 ? list[i].threads : 1};
    of->is_found = true;
    of->opened(of->context, contenders, count);
}

/* Visits the parts of a quick run whose name may contain a section; NULL for any section. */
static bool visit(const suite_visitor *visitor, const char *section, char *error) {
    static report unused;
    suite_options options = {
        .quick = true, .threads = lab_processors() < 2 ? 1 : 2, .visitor = visitor};
    for (size_t i = 0; i < SUITE_PARTS; i++) {
        const suite_part *part = &bench_parts[i];
        options.wanted[i] =
            part->in_quick && (!section || strncmp(section, part->name, strlen(part->name)) == 0);
    }
    bool done = bench_run(&options, &unused);
    if (!done)
        snprintf(error, CASES_ERROR_SIZE, "%s", unused.error);
    bench_report_free(&unused);
    return done;
}

static bool list_cases(cases_found *found, void *context, char error[CASES_ERROR_SIZE]) {
    listing to = {.found = found, .context = context};
    suite_visitor visitor = {.wants = list_one, .context = &to};
    return visit(&visitor, NULL, error);
}

static bool open_case(const char *section, const char *label, const cases_memory *memory,
                      cases_opened *opened, void *context, char error[CASES_ERROR_SIZE]) {
    opening of = {.section = section, .label = label, .opened = opened, .context = context};
    suite_visitor visitor = {.wants = is_asked_for, .visit = hand_over, .context = &of};
    inputs_source source = {
        .allocate = memory->allocate, .release = memory->release, .context = memory->context};
    bench_inputs_use(&source);
    bool done = visit(&visitor, section, error);
    bench_inputs_use(NULL);
    if (!done)
        return false;
    if (!of.is_found)
        snprintf(error, CASES_ERROR_SIZE, "%s %s: there is no such case", section, label);
    return of.is_found;
}

const cases_module *whet_cases(void) {
    static char library[48];
    static const cases_module module = {
        .version = CASES_VERSION, .library = library, .list = list_cases, .open = open_case};
    snprintf(library, sizeof library, "%s (%s)", whet_version(), whet_isa());
    return &module;
}
