/*
 * `whet reproduce`: the paper's table and figures, a verdict on them, and what
 * lies beyond them, as a report. Options and printing; the run itself is
 * lab/report/reproduction.c.
 */
#include "reproduce.h"

#include "messages.h"
#include "preferences.h"
#include "ranks.h"
#include "registry_words.h"

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/signals.h"
#include "league/results.h"
#include "report/table1.h"
#include "report/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static option_range up_to(uint64_t most) { return (option_range){.least = 1, .most = most}; }

reproduce_arguments usual_reproduction(void) {
    const reproduction_scale *most = &reproduction_scale_most;
    return (reproduce_arguments){.run = {.folder = "report"},
                                 .seeds = up_to(most->seeds),
                                 .steps = up_to(most->steps),
                                 .fresh_steps = up_to(most->fresh_steps),
                                 .sets = up_to(most->sets),
                                 .lm_steps = up_to(most->lm_steps),
                                 .lm_samples = up_to(most->lm_samples),
                                 .lm_seeds = up_to(most->lm_seeds)};
}

void take_scale(reproduce_arguments *given) {
    given->run.quiet = preferred.quiet;
    given->run.scale = (reproduction_scale){.seeds = given->seeds.value,
                                            .steps = given->steps.value,
                                            .fresh_steps = given->fresh_steps.value,
                                            .sets = given->sets.value,
                                            .lm_steps = given->lm_steps.value,
                                            .lm_samples = given->lm_samples.value,
                                            .lm_seeds = given->lm_seeds.value};
}

int open_reproduction(reproduce_arguments *given, bool needs_blas) {
    given->lab = (laboratory){.pool = NULL};
    if (needs_blas && !open_laboratory(&given->lab, given->threads, NULL))
        return report_lab_error(&given->lab.error);
    given->run.engine = &given->lab.engine;
    given->run.executor = &given->lab.executor;
    given->experiment = reproduction_start(&given->run);
    return STATUS_OK;
}

void close_reproduction(reproduce_arguments *given) {
    experiment_end(&given->experiment);
    close_laboratory(&given->lab);
}

/* The jobs that take longest, with their times: "training ...: 33 min, ...". */
static void list_jobs(const report_jobs *jobs, char *text, size_t size) {
    const double least = 60;
    size_t used = 0;
    text[0] = '\0';
    for (int job = 0; job < REPORT_JOBS && used < size; job++) {
        char time[LAB_TIME_SIZE];
        if (jobs->seconds[job] >= least)
            used += (size_t)snprintf(text + used, size - used, "%s%s: %s", used ? ", " : "",
                                     job_title((report_job)job),
                                     lab_duration(jobs->seconds[job], time));
    }
}

int confirm_work(const report_jobs *jobs, bool is_confirmed) {
    char list[512];
    list_jobs(jobs, list, sizeof list);
    return confirm_seconds(jobs_seconds(jobs), list, is_confirmed);
}

static void complain_of_part(const char *name) {
    const report_part *part;
    char list[512] = "";
    size_t used = 0;
    nearest_word search = nearest_to(name, strlen(name));
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++) {
        nearest_offer(&search, part->name);
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                     part->name);
    }
    if (search.found)
        complain("--only: unknown part '%s'; did you mean '%s'?", name, search.found);
    else
        complain("--only: unknown part '%s' (%s)", name, list);
}

static bool list_makes_sense(const char *only) {
    char wrong[REPRODUCTION_NAME_SIZE];
    if (reproduction_check_list(only, wrong))
        return true;
    if (!*only)
        complain("--only: missing part names; 'whet reproduce --help' lists them");
    else if (report_elsewhere(wrong))
        complain("%s", report_elsewhere(wrong));
    else
        complain_of_part(wrong);
    return false;
}

static int show(const reproduction *run, const experiment *e, bool is_checked) {
    const report_part *part;
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++) {
        const json_t *result = part->table ? part->table->kept(e) : NULL;
        if (!result || !reproduction_wants(run, part))
            continue;
        if (!part->table->print(stdout, result))
            return complain_of_memory();
        putchar('\n');
    }
    if (is_checked && e->table) {
        table1_check(stdout, e->table);
        putchar('\n');
    }
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++)
        if (reproduction_leaves_out(run, e, part))
            printf("Left out because it takes long: %s; make it with --only %s or --full.\n",
                   part->name, part->name);
    verdict list[VERDICTS];
    verdicts_of(e, list);
    putchar('\n');
    verdict_print(stdout, list);
    printf("\nThe report is in %s/index.html.\n", run->folder);
    return STATUS_OK;
}

/* The league of a full report, in a folder below it; its page is linked from the report's. */
static bool run_league(const reproduction *run, lab_error *error) {
    static league_request request; /* too large for the stack */
    league_results results;
    size_t left;
    char *folder = lab_path(run->folder, "league");
    char *page = folder ? lab_path(folder, "index.html") : NULL;
    request = (league_request){.scale = league_scale_full(),
                               .folder = folder,
                               .quiet = run->quiet,
                               .ranks = run->ranks,
                               .engine = run->engine,
                               .executor = run->executor};
    league_all_tasks(&request);
    league_all_positions(&request);
    bool is_good = (page != NULL || lab_fail_memory(error)) && league_all_arms(&request, error) &&
                   league_run(&request, &left, error);
    bool is_told = is_good && lab_is_first(run->ranks);
    is_good = is_good && (!is_told || league_results_read(&request, &results, error));
    if (is_good && is_told) {
        is_good = replace_file(page, league_page, &results) || lab_fail_file(error, "write", page);
        league_results_free(&results);
    }
    free(page);
    free(folder);
    return is_good;
}

/* The parts and, in a full run of everything, the league; then the page again, which links to it.
 */
static bool make(const reproduction *run, experiment *made, lab_error *error) {
    bool has_league = run->is_full && !run->only;
    return reproduction_make(run, made, error) &&
           (!has_league || (run_league(run, error) && reproduction_make(run, made, error)));
}

static int plan_and_make(reproduce_arguments *given, bool is_checked) {
    report_jobs jobs = reproduction_plan(&given->run, &given->experiment);
    lab_error error = {.kind = LAB_NO_ERROR};
    given->experiment.jobs = &jobs;
    int status = confirm_work(&jobs, given->is_confirmed);
    if (status == STATUS_OK)
        status = make(&given->run, &given->experiment, &error)
                     ? show(&given->run, &given->experiment, is_checked)
                     : report_failure(&error);
    given->experiment.jobs = NULL;
    return status;
}

/* Without a plan, which only the rank that sees the folder could make, and without a question. */
static int make_together(reproduce_arguments *given, bool is_checked) {
    const lab_ranks *ranks = given->run.ranks;
    lab_error error = {.kind = LAB_NO_ERROR};
    if (!make(&given->run, &given->experiment, &error))
        return report_rank_failure(ranks, &error);
    return lab_is_first(ranks) ? show(&given->run, &given->experiment, is_checked) : STATUS_OK;
}

static int join_and_make(reproduce_arguments *given, const char *mpi, bool is_checked) {
    lab_error error = {.kind = LAB_NO_ERROR};
    lab_ranks ranks;
    if (!join_ranks(mpi, &ranks, &given->run.ranks, &given->run.quiet, &error))
        return report_lab_error(&error);
    given->experiment.options.ranks = given->run.ranks;
    given->experiment.options.quiet = given->run.quiet;
    int status =
        given->run.ranks ? make_together(given, is_checked) : plan_and_make(given, is_checked);
    experiment_end(&given->experiment); /* gives up the folder before the other ranks end */
    close_ranks(given->run.ranks, status);
    return status;
}

int command_reproduce(int argc, char **argv) {
    reproduce_arguments given = usual_reproduction();
    static const char *const checks[] = {"published", NULL};
    reproduction *run = &given.run;
    const char *check = NULL, *mpi = NULL;
    const option_spec options[] = {
        OPTIONS_ABOUT("report"),
        {"only", OPTION_TEXT, &run->only, "PART,...",
         "parts to make, such as table1 or figure1,figure5 (see below)", .values = VALUE_WORD,
         .words = part_words()},
        {"out-dir", OPTION_TEXT, &run->folder, "DIR", "folder of the report (default report)",
         .letter = 'o', .aliases = "out", .values = VALUE_FOLDER},
        {"compare", OPTION_CHOICE, &check, "WITH",
         "print how far Table 1 is from the {} figures, in standard errors, and where by more than "
         "two",
         .aliases = "check", .values = VALUE_WORD, .words = checks},
        yes_option(&given.is_confirmed),
        threads_option(&given.threads),
        mpi_option(&mpi),
        OPTIONS_ABOUT("scale"),
        {"full", OPTION_FLAG, &run->is_full, NULL,
         "train ten heads of 100,000 steps of each kind, and language models: days; then the "
         "league "
         "(whet league --full): months"},
        {"num-seeds", OPTION_RANGE, &given.seeds, "N",
         "number of heads of each kind to train (default: none; whet has trained ones)",
         .aliases = "seeds"},
        {"steps", OPTION_RANGE, &given.steps, "N", "number of training steps of each head"},
        fresh_steps_option(&given.fresh_steps),
        {"count", OPTION_RANGE, &given.sets, "N",
         "number of sets of each size to evaluate (default 4096)", .aliases = "sets"},
        {"lm-steps", OPTION_RANGE, &given.lm_steps, "N",
         "number of training steps of each language model (clrs)"},
        {"lm-count", OPTION_RANGE, &given.lm_samples, "N",
         "number of samples of each algorithm and length (clrs; default 128)",
         .aliases = "lm-samples"},
        {"lm-num-seeds", OPTION_RANGE, &given.lm_seeds, "N",
         "number of language models of each kind (clrs; default 1, with --full 3)",
         .aliases = "lm-seeds"},
    };
    char list[2048];
    const report_part *part;
    int length = snprintf(list, sizeof list, "parts (* only with --full, or when named):\n");
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++)
        length += snprintf(list + length, sizeof list - (size_t)length, "  %-14s%c%s\n", part->name,
                           part->is_extra ? '*' : ' ', part->title);
    const command_syntax syntax = {
        .name = "reproduce",
        .operands = "",
        .about = "Makes the paper's table and figures on max retrieval, says which of them were\n"
                 "reproduced, and writes a report. Heads trained at the paper's scale are part of\n"
                 "whet; one more is trained during the run. It can be stopped at any time; the\n"
                 "same command continues. The experiment on CLRS-Text trains language models for\n"
                 "half an hour or more and runs only when asked for: --only clrs. Under mpirun,\n"
                 "the work is dealt to the ranks, which must see the same folder.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = list,
        .examples = "whet reproduce\n"
                    "whet reproduce --only table1,figure5 --out-dir table\n"
                    "mpirun -n 8 whet reproduce --full --threads 4 --out-dir full\n",
    };
    int operands;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    if (run->only && !list_makes_sense(run->only))
        return STATUS_MISUSE;
    lab_catch_interrupts();
    take_scale(&given);
    reproduction_keep_scale(run);
    int status = open_reproduction(&given, true);
    if (status == STATUS_OK)
        status = join_and_make(&given, mpi, check != NULL);
    close_reproduction(&given);
    return status;
}
