/*
 * `whet reproduce`: the paper's table and figures from nothing, and what lies
 * beyond them, as a report. Options and printing; the run itself is
 * lab/report/reproduction.c.
 */
#include "reproduce.h"

#include "messages.h"

#include "base/signals.h"
#include "report/table1.h"

#include <stdio.h>
#include <string.h>

int report_failure(const char *command, const lab_error *error) {
    if (!lab_interrupted())
        return report_lab_error(command, error);
    complain("%s: stopped; the same command goes on from here", command);
    return STATUS_STOPPED;
}

static option_range up_to(uint64_t most) { return (option_range){.least = 1, .most = most}; }

reproduce_arguments usual_reproduction(void) {
    const reproduction_scale *most = &reproduction_scale_most;
    return (reproduce_arguments){.run = {.folder = "report"},
                                 .seeds = up_to(most->seeds),
                                 .steps = up_to(most->steps),
                                 .sets = up_to(most->sets),
                                 .lm_steps = up_to(most->lm_steps),
                                 .lm_samples = up_to(most->lm_samples),
                                 .lm_seeds = up_to(most->lm_seeds)};
}

void take_scale(reproduce_arguments *given) {
    given->run.scale = (reproduction_scale){.seeds = given->seeds.value,
                                            .steps = given->steps.value,
                                            .sets = given->sets.value,
                                            .lm_steps = given->lm_steps.value,
                                            .lm_samples = given->lm_samples.value,
                                            .lm_seeds = given->lm_seeds.value};
}

int open_reproduction(reproduce_arguments *given, const char *command, bool needs_blas) {
    given->lab = (laboratory){.pool = NULL};
    if (needs_blas && !open_laboratory(&given->lab, given->threads, NULL))
        return report_lab_error(command, &given->lab.error);
    given->run.engine = &given->lab.engine;
    given->run.executor = &given->lab.executor;
    given->experiment = reproduction_start(&given->run);
    return STATUS_OK;
}

void close_reproduction(reproduce_arguments *given) {
    experiment_end(&given->experiment);
    close_laboratory(&given->lab);
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
        complain("reproduce: --only: no part '%s'; did you mean '%s'?", name, search.found);
    else
        complain("reproduce: --only: no part '%s'; there are %s", name, list);
}

static bool list_makes_sense(const char *only) {
    char wrong[REPRODUCTION_NAME_SIZE];
    if (reproduction_check_list(only, wrong))
        return true;
    if (!*only)
        complain("reproduce: --only: which parts? 'whet reproduce --help' lists them");
    else if (report_elsewhere(wrong))
        complain("reproduce: %s", report_elsewhere(wrong));
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
    const json_t *evaluation = e->evaluation[experiment_paper];
    if (is_checked && evaluation) {
        table1_check(stdout, evaluation);
        putchar('\n');
    }
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++)
        if (reproduction_leaves_out(run, e, part))
            printf("Left out, since it takes long: %s. --only %s makes it, and so does --full.\n",
                   part->name, part->name);
    printf("The report is in %s/index.html.\n", run->folder);
    return STATUS_OK;
}

int command_reproduce(int argc, char **argv) {
    reproduce_arguments given = usual_reproduction();
    reproduction *run = &given.run;
    const char *check = NULL;
    const option_spec options[] = {
        {"full", OPTION_FLAG, &run->is_full, NULL,
         "ten seeds of 100,000 steps instead of one of 20,000: hours"},
        {"only", OPTION_TEXT, &run->only, "PART,...",
         "only these: table1, figure1, figure2 ... (the list is below)"},
        {"out", OPTION_TEXT, &run->folder, "DIR", "where the report goes (default: report)"},
        {"check", OPTION_TEXT, &check, "published",
         "also say how far Table 1 is from the published figures, in standard errors, and where by "
         "more than two"},
        {"seeds", OPTION_RANGE, &given.seeds, "N", "heads to train of each kind"},
        {"steps", OPTION_RANGE, &given.steps, "N", "training steps of each"},
        {"sets", OPTION_RANGE, &given.sets, "N", "sets of each size to evaluate (default 4096)"},
        {"lm-steps", OPTION_RANGE, &given.lm_steps, "N",
         "training steps of each language model (clrs)"},
        {"lm-samples", OPTION_RANGE, &given.lm_samples, "N",
         "questions of each algorithm and length (clrs; default 128)"},
        {"lm-seeds", OPTION_RANGE, &given.lm_seeds, "N",
         "language models of each kind (clrs; default 1, with --full 3)"},
        threads_option(&given.threads),
        quiet_option(&run->quiet),
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
        .about = "Makes the paper's table and figures on max retrieval, compares policies it did\n"
                 "not have, and writes a report. Stopped at any time, it goes on from there. The\n"
                 "experiment on CLRS-Text, for which language models are trained, takes half an\n"
                 "hour and more and is made when it is asked for: --only clrs.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = list,
    };
    int operands;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    if (run->only && !list_makes_sense(run->only))
        return STATUS_MISUSE;
    if (check && strcmp(check, "published") != 0) {
        complain("reproduce: --check: '%s' cannot be checked; 'published' can", check);
        return STATUS_MISUSE;
    }
    lab_catch_interrupts();
    take_scale(&given);
    reproduction_keep_scale(run);
    int status = open_reproduction(&given, "reproduce", true);
    if (status == STATUS_OK) {
        lab_error error = {.kind = LAB_NO_ERROR};
        status = reproduction_make(run, &given.experiment, &error)
                     ? show(run, &given.experiment, check != NULL)
                     : report_failure("reproduce", &error);
    }
    close_reproduction(&given);
    return status;
}
