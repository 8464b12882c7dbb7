/*
 * compare-builds: the cases of a quick benchmark in two builds of the library,
 * loaded into one process. For each problem both builds make their inputs, which
 * are the same numbers; then their runs alternate, and which of the two comes
 * first changes from pair to pair, so that whatever slows the machine down slows
 * down both. tools/compare-builds starts this with the modules of two build
 * folders.
 */
#define _POSIX_C_SOURCE 200809L

#include "comparison.h"
#include "loaded.h"
#include "twin_memory.h"

#include "base/clock.h"
#include "base/progress.h"
#include "budget.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STATUS_NONE_SLOWER, STATUS_SLOWER, STATUS_MISUSE };

/* Contenders of one problem. */
enum { DUELS_MAX = 32 };

/* Bytes; the sets of a first-level cache repeat every page. */
enum { CACHE_LINE = 64, PAGE = 4096 };

/* A time that is shorter says little: a case is repeated until it takes as long. */
#define SECONDS_TO_TIME 2e-3

typedef struct arguments {
    const char *old_path, *new_path;
    const char *only; /* or NULL */
    double seconds, bar;
    const char *json_path; /* or NULL */
} arguments;

typedef enum side { OLD, NEW, SIDES } side;

/* A case of both builds while it is measured. */
typedef struct duel {
    const char *name;
    const cases_contender *who[SIDES];
    size_t repeats; /* of a time */
    size_t pairs;
    double seconds[SIDES][PAIRS_MAX]; /* a run */
    double logarithms[PAIRS_MAX];
} duel;

/* The problem under way. Both builds hand over their contenders one within the other. */
typedef struct state {
    const arguments *given;
    loaded builds[SIDES];
    comparison found;
    budget budget;
    lab_progress progress;
    double declared_before; /* seconds declared by the problems that are done */

    const problem *problem;
    double end; /* when it ought to be over */
    const cases_contender *contenders[SIDES];
    size_t counts[SIDES];
    twin_memory memory;
    duel duels[DUELS_MAX];
    size_t duel_count;
    char error[CASES_ERROR_SIZE];
    bool is_good;
} state;

static void name_case(char name[COMPARED_NAME], const problem *of, const char *of_what) {
    snprintf(name, COMPARED_NAME, "%s %s %s", of->section, of->label, of_what);
}

/* Seconds. What runs on one thread is measured by the processor time of that thread, which leaves
 * out the time that other programs had. */
static double read_clock(const cases_contender *of) {
    struct timespec time;
    clock_gettime(of->threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double time_runs(const cases_contender *who, size_t repeats) {
    double start = read_clock(who);
    for (size_t i = 0; i < repeats; i++)
        who->run(who->argument);
    return (read_clock(who) - start) / (double)repeats;
}

/* Which sets of the first-level cache a function's buffers on the stack share with its tensors
 * depends on how much its callers have on the stack, and can be worth several per cent: a property
 * of this program, not of the builds. So each pair moves the stack by another number of cache
 * lines, and the interval covers all placements within a page. */
static double time_runs_at(const cases_contender *who, size_t repeats, size_t stack_lines) {
    char moved[stack_lines * CACHE_LINE + 1];
    __asm__ volatile("" : : "r"(moved) : "memory");
    return time_runs(who, repeats);
}

/* Visits all lines of a page once in 64 pairs, successive ones far apart. */
static size_t stack_lines(size_t pair) { return pair * 39 % (PAGE / CACHE_LINE); }

/* Warms both up and finds how often to repeat them. */
static void choose_repeats(duel *of) {
    double shorter = 0;
    for (of->repeats = 1; of->repeats < 1u << 20; of->repeats *= 2) {
        double old_seconds = time_runs(of->who[OLD], of->repeats);
        double new_seconds = time_runs(of->who[NEW], of->repeats);
        shorter = fmin(old_seconds, new_seconds) * (double)of->repeats;
        if (shorter >= SECONDS_TO_TIME)
            return;
    }
}

static void time_pair(duel *of) {
    side first = of->pairs % 2 ? NEW : OLD;
    side second = first == OLD ? NEW : OLD;
    size_t lines = stack_lines(of->pairs / 2); /* each once in either order */
    of->seconds[first][of->pairs] = time_runs_at(of->who[first], of->repeats, lines);
    of->seconds[second][of->pairs] = time_runs_at(of->who[second], of->repeats, lines);
    of->logarithms[of->pairs] = log(of->seconds[NEW][of->pairs] / of->seconds[OLD][of->pairs]);
    of->pairs++;
}

static void show_progress(state *with) {
    lab_progress_show(&with->progress, (uint64_t)(1e3 * with->declared_before), "%s %s",
                      with->problem->section, with->problem->label);
}

static void run_duels(state *with) {
    for (size_t i = 0; i < with->duel_count; i++) {
        show_progress(with);
        choose_repeats(&with->duels[i]);
    }
    for (size_t round = 0; round < PAIRS_MAX; round++) {
        if (round >= PAIRS_MIN && lab_now() >= with->end)
            return;
        for (size_t i = 0; i < with->duel_count; i++) {
            show_progress(with);
            time_pair(&with->duels[i]);
        }
    }
}

static void keep_duels(state *with) {
    for (size_t i = 0; i < with->duel_count; i++) {
        const duel *of = &with->duels[i];
        compared_case added = {
            .place = DUELS_MAX * (size_t)(with->problem - with->builds[NEW].problems) + i,
            .old_seconds = bench_paired_median(of->seconds[OLD], of->pairs),
            .new_seconds = bench_paired_median(of->seconds[NEW], of->pairs),
            .ratio = bench_paired_ratio(of->logarithms, of->pairs),
        };
        name_case(added.name, with->problem, of->name);
        comparison_add(&with->found, &added);
    }
}

static const cases_contender *find_contender(const state *with, side where, const char *name) {
    for (size_t i = 0; i < with->counts[where]; i++)
        if (strcmp(with->contenders[where][i].name, name) == 0)
            return &with->contenders[where][i];
    return NULL;
}

/* The contenders that both builds have and that are asked for; names those of only one. */
static void pair_contenders(state *with) {
    with->duel_count = 0;
    if (with->counts[NEW] > DUELS_MAX)
        abort(); /* a mistake in the program */
    for (side where = OLD; where < SIDES; where++)
        for (size_t i = 0; i < with->counts[where]; i++) {
            const cases_contender *one = &with->contenders[where][i];
            const cases_contender *other =
                find_contender(with, where == OLD ? NEW : OLD, one->name);
            char name[COMPARED_NAME];
            name_case(name, with->problem, one->name);
            if (with->given->only && !strstr(name, with->given->only))
                continue;
            if (!other)
                comparison_add_lone(where == OLD ? &with->found.only_old : &with->found.only_new,
                                    name);
            else if (where == NEW)
                with->duels[with->duel_count++] =
                    (duel){.name = one->name, .who = {[OLD] = other, [NEW] = one}};
        }
}

static void compare_opened(void *context, const cases_contender *contenders, size_t count) {
    state *with = context;
    with->contenders[NEW] = contenders;
    with->counts[NEW] = count;
    pair_contenders(with);
    run_duels(with);
    keep_duels(with);
}

/* The old build has its inputs; now for the new one's. */
static void open_new(void *context, const cases_contender *contenders, size_t count) {
    state *with = context;
    with->contenders[OLD] = contenders;
    with->counts[OLD] = count;
    cases_memory memory = twin_memory_second(&with->memory);
    with->is_good = with->builds[NEW].module->open(with->problem->section, with->problem->label,
                                                   &memory, compare_opened, with, with->error);
}

static bool compare_problem(state *with) {
    with->end = bench_budget_take(&with->budget, lab_now(), with->problem->seconds);
    with->is_good = true;
    cases_memory memory = twin_memory_first(&with->memory);
    bool is_good = with->builds[OLD].module->open(with->problem->section, with->problem->label,
                                                  &memory, open_new, with, with->error);
    if (!is_good || !with->is_good)
        fprintf(stderr, "compare-builds: %s\n", with->error);
    return is_good && with->is_good;
}

/* How --only bears on a problem, as far as can be told before its contenders are known: a text that
 * names a problem, or is part of such a name, rules out all others. */
static bool is_about(const problem *one, const char *only) {
    char name[COMPARED_NAME];
    snprintf(name, sizeof name, "%s %s", one->section, one->label);
    return strstr(name, only) || strstr(only, name);
}

/* Problems of the new build that the old one has, too, and that may be asked for. */
static size_t choose_problems(state *with, const problem **chosen) {
    const char *only = with->given->only;
    bool names_some = false;
    for (side where = OLD; only && where < SIDES; where++)
        for (size_t i = 0; i < with->builds[where].count; i++)
            names_some = names_some || is_about(&with->builds[where].problems[i], only);
    size_t count = 0;
    for (side where = OLD; where < SIDES; where++)
        for (size_t i = 0; i < with->builds[where].count; i++) {
            const problem *one = &with->builds[where].problems[i];
            bool is_wanted = !names_some || is_about(one, only);
            bool is_shared = loaded_find(&with->builds[where == OLD ? NEW : OLD], one) != NULL;
            if (is_wanted && is_shared && where == NEW)
                chosen[count++] = one;
            else if (is_wanted && !is_shared) {
                char name[COMPARED_NAME];
                snprintf(name, sizeof name, "%s %s", one->section, one->label);
                comparison_add_lone(where == OLD ? &with->found.only_old : &with->found.only_new,
                                    name);
            }
        }
    return count;
}

static int compare_seconds(const void *a, const void *b) {
    const problem *one = *(const problem *const *)a;
    const problem *other = *(const problem *const *)b;
    if (one->seconds != other->seconds)
        return one->seconds < other->seconds ? -1 : 1;
    return (one > other) - (one < other);
}

/* Short problems first: long ones may take more than their share for the pairs that they need, and
 * would take it from the others. */
static bool compare_all(state *with) {
    const problem *chosen[PROBLEMS_MAX];
    size_t count = choose_problems(with, chosen);
    qsort(chosen, count, sizeof(void *), compare_seconds);
    for (size_t i = 0; i < count; i++)
        with->budget.declared += chosen[i]->seconds;
    with->budget.end = lab_now() + with->given->seconds;
    with->progress =
        lab_progress_begin("comparing", 0, (uint64_t)(1e3 * with->budget.declared), false);
    bool is_good = true;
    for (size_t i = 0; i < count && is_good; i++) {
        with->problem = chosen[i];
        is_good = compare_problem(with);
        with->declared_before += chosen[i]->seconds;
    }
    lab_progress_end(&with->progress);
    comparison_sort(&with->found);
    return is_good;
}

static int show(const state *with) {
    const char *json_path = with->given->json_path;
    if (!json_path || strcmp(json_path, "-") != 0)
        comparison_print(&with->found);
    if (json_path && !comparison_write_json(&with->found, json_path))
        return STATUS_MISUSE;
    return comparison_above(&with->found) > 0 ? STATUS_SLOWER : STATUS_NONE_SLOWER;
}

static int run(const arguments *given) {
    static state with;
    with.given = given;
    if (!loaded_open(&with.builds[OLD], &with.builds[NEW], given->old_path, given->new_path))
        return STATUS_MISUSE;
    with.found.old_path = given->old_path;
    with.found.new_path = given->new_path;
    with.found.old_library = with.builds[OLD].module->library;
    with.found.new_library = with.builds[NEW].module->library;
    with.found.bar = given->bar;
    if (!compare_all(&with))
        return STATUS_MISUSE;
    if (with.found.count == 0) {
        fprintf(stderr, "compare-builds: %s%s%s\n",
                given->only ? "--only: no case of both builds contains '" : "no case in common",
                given->only ? given->only : "", given->only ? "'" : "");
        return STATUS_MISUSE;
    }
    return show(&with);
}

static bool parse_number(const char *option, const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    if (*text && !*end && isfinite(*value) && *value > 0)
        return true;
    fprintf(stderr, "compare-builds: --%s: '%s' is not a number above 0\n", option, text);
    return false;
}

static bool parse(int argc, char **argv, arguments *given) {
    static const struct option options[] = {{"only", required_argument, NULL, 'o'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"bar", required_argument, NULL, 'b'},
                                            {"json", required_argument, NULL, 'j'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'o')
            given->only = optarg;
        else if (option == 'j')
            given->json_path = optarg;
        else if (option == 's' ? !parse_number("seconds", optarg, &given->seconds)
                               : option != 'b' || !parse_number("bar", optarg, &given->bar))
            return false;
    }
    if (argc - optind != 2) {
        fprintf(stderr, "compare-builds: expected two modules, OLD and NEW\n");
        return false;
    }
    given->old_path = argv[optind];
    given->new_path = argv[optind + 1];
    return true;
}

int main(int argc, char **argv) {
    arguments given = {.seconds = 120, .bar = 1.03};
    return parse(argc, argv, &given) ? run(&given) : STATUS_MISUSE;
}
