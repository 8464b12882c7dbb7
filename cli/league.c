/* `whet league`: every policy trained on every task, and tested far beyond its training size. */
#include "commands.h"
#include "confirm.h"
#include "lab_options.h"
#include "laboratory.h"
#include "messages.h"
#include "policy_list.h"
#include "preferences.h"
#include "ranks.h"
#include "registry_words.h"
#include "results.h"

#include "base/choices.h"
#include "base/signals.h"
#include "base/table.h"
#include "league/results.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "league";

typedef struct arguments {
    bool quick, full, lists, reports, is_confirmed;
    text_list tasks, policies, positions;
    const char *multiples, *rates, *rank, *folder, *json, *csv, *svg, *html, *mpi;
    uint64_t first_seed, seeds, steps, batch, layers, width, heads, samples, tokens_max, threads;
} arguments;

#define UNSET UINT64_MAX /* of numbers that the scale gives */

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        OPTIONS_ABOUT("what to compare"),
        {"quick", OPTION_FLAG, &given->quick, NULL,
         "compare a few tasks and policies: ten minutes on two cores (the default)"},
        {"full", OPTION_FLAG, &given->full, NULL,
         "compare all tasks, policies and position encodings with three seeds: months on two "
         "cores"},
        {"task", OPTION_LIST, &given->tasks, "NAME",
         "task; may be repeated, or several with commas ('whet league --list' lists them)",
         .values = VALUE_WORD, .words = task_words()},
        {"policy", OPTION_LIST, &given->policies, "NAME",
         "policy, or a variant with its own training that --list names; may be repeated; softmax "
         "is "
         "always there",
         .values = VALUE_WORD, .words = policy_words()},
        {"positions", OPTION_LIST, &given->positions, "KIND",
         "position encoding: rope, none, alibi or mix (no positions in half of the heads, ALiBi in "
         "the others); may be repeated",
         .values = VALUE_WORD, .words = lm_positions_names},
        {"num-seeds", OPTION_UNSIGNED, &given->seeds, "N",
         "number of models of each kind (default 1, with --full 3)", .aliases = "seeds", .least = 1,
         .most = LEAGUE_SEEDS_MAX},
        {"first-seed", OPTION_UNSIGNED, &given->first_seed, "N",
         "first seed (default 1); other seeds are a rerun", .least = 1,
         .most = LEAGUE_FIRST_SEED_MAX},
        {"multiples", OPTION_TEXT, &given->multiples, "LIST",
         "sizes to test, as multiples of the largest in training, " LIST_FORM
         " (default 1..16:x2, with --full 1..64:x2,256,1024)"},
        {"list", OPTION_FLAG, &given->lists, NULL, "list tasks and policies, and stop"},
        OPTIONS_ABOUT("scale"),
        {"num-layers", OPTION_UNSIGNED, &given->layers, "N",
         "number of layers (default 2, with --full 3)", .least = 1, .most = LEAGUE_LAYERS_MAX},
        {"width", OPTION_UNSIGNED, &given->width, "N",
         "width of the residual stream (default 64, with --full 128)", .least = LEAGUE_WIDTH_MIN,
         .most = LEAGUE_WIDTH_MAX},
        {"num-heads", OPTION_UNSIGNED, &given->heads, "N",
         "number of heads (default 4, with --full 8)", .least = 1, .most = LEAGUE_HEADS_MAX},
        {"steps", OPTION_UNSIGNED, &given->steps, "N",
         "number of training steps (default 1500, with --full 10000)", .least = 1,
         .most = LAB_STEPS_MAX},
        {"batch", OPTION_UNSIGNED, &given->batch, "N",
         "number of sequences in a batch (default 32, with --full 64)", .least = 1,
         .most = LM_BATCH_MAX},
        {"rates", OPTION_TEXT, &given->rates, "LIST",
         "learning rates, such as 0.0005,0.002; the first seed tries all of them, the others take "
         "the best in validation (default 0.002)"},
        {"count", OPTION_UNSIGNED, &given->samples, "N",
         "number of samples at each size, fewer beyond 8 times (default 64, with --full 256)",
         .aliases = "samples", .least = 1, .most = LEAGUE_SAMPLES_MAX},
        {"max-tokens", OPTION_UNSIGNED, &given->tokens_max, "N",
         "longest sample; larger sizes are left out (default 2048, with --full 20000)",
         .least = LEAGUE_TOKENS_MIN, .most = LM_CONTEXT_MAX},
        OPTIONS_ABOUT("run"),
        {"out-dir", OPTION_TEXT, &given->folder, "DIR",
         "folder of the run (default whet-league); the same command continues in it, and several "
         "processes share its work",
         .letter = 'o', .values = VALUE_FOLDER},
        {"rank", OPTION_TEXT, &given->rank, "I/N",
         "share of the work to do without MPI: number I, from 0, of N equal shares"},
        {"report", OPTION_FLAG, &given->reports, NULL,
         "train nothing, summarise what is done already"},
        yes_option(&given->is_confirmed),
        threads_option(&given->threads),
        mpi_option(&given->mpi),
        OPTIONS_ABOUT("output"),
        json_option(&given->json, JSON_SUMMARY),
        csv_option(&given->csv, CSV_SUMMARY),
        {"svg", OPTION_TEXT, &given->svg, "FILE", "file for a chart of right answers against size",
         .values = VALUE_FILE},
        {"html", OPTION_TEXT, &given->html, "FILE",
         "file for a page with ranking, curves and heat maps (default DIR/index.html)",
         .values = VALUE_FILE},
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "",
        .about = "Trains small decoders with every policy on every task, tests them at multiples\n"
                 "of their training size, and ranks the policies. All have the same model size,\n"
                 "steps, data and sweep of learning rates. docs/LEAGUE.md explains tasks and\n"
                 "policies and has results. Under mpirun, models are dealt to the ranks, which\n"
                 "must see the same folder.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = BLAS_ENVIRONMENT,
        .examples = "whet league --quick\n"
                    "whet league --task max --policy ssmax --policy asentmax --num-seeds 3\n"
                    "whet league --full --out-dir league --rank 0/4 --yes\n"
                    "mpirun -n 4 whet league --full --out-dir league --threads 8\n",
    };
    int operands;
    return parse_options(&syntax, argc, argv, &operands);
}

/* ---- choices ---- */

static const char *const quick_tasks[] = {"max", "flip-flop", "sort", NULL};
static const char *const quick_arms[] = {"softmax",  "adaptive-inference", "ssmax",
                                         "asentmax", "stick-breaking",     NULL};

static const char *const quick_positions[] = {"mix", NULL};

static int list_all(void) {
    league_task task;
    league_arm arm;
    puts("tasks:");
    for (size_t i = 0; league_task_at(i, &task); i++)
        printf("  %-36s %s\n", task.name,
               task.synthetic ? task.synthetic->summary : "an algorithm of CLRS-Text");
    puts("policies:");
    for (size_t i = 0; league_arm_at(i, &arm); i++)
        printf("  %-36s %s\n", arm.name, arm.summary);
    return STATUS_OK;
}

static int add_task(league_request *request, const char *word) {
    league_task task;
    if (!league_task_find(word, &task)) {
        complain("--task: unknown task '%s'; 'whet league --list' lists them", word);
        return STATUS_MISUSE;
    }
    for (size_t i = 0; i < request->task_count; i++)
        if (strcmp(request->tasks[i].name, word) == 0)
            return STATUS_OK;
    request->tasks[request->task_count++] = task;
    return STATUS_OK;
}

static int add_arm(league_request *request, const char *word) {
    lab_error error = {.kind = LAB_NO_ERROR};
    return league_arms_add(&request->arms, word, &error) ? STATUS_OK : report_lab_error(&error);
}

static int add_positions(league_request *request, const char *word) {
    lm_positions positions;
    if (!lm_positions_parse(word, &positions)) {
        complain("--positions: '%s' is not one of rope, none, alibi or mix", word);
        return STATUS_MISUSE;
    }
    for (size_t i = 0; i < request->position_count; i++)
        if (request->positions[i] == positions)
            return STATUS_OK;
    request->positions[request->position_count++] = positions;
    return STATUS_OK;
}

/* Calls `add` with each word of lists such as "sort,copy". */
static int add_words(const text_list *lists, league_request *request,
                     int (*add)(league_request *request, const char *word)) {
    int status = STATUS_OK;
    for (size_t i = 0; i < lists->count; i++)
        for (const char *at = lists->items[i]; *at && status == STATUS_OK;) {
            char word[LM_POLICY_SIZE];
            size_t length = strcspn(at, ",");
            snprintf(word, sizeof word, "%.*s",
                     (int)(length < sizeof word ? length : sizeof word - 1), at);
            status = add(request, word);
            at += length + (at[length] == ',');
        }
    return status;
}

/* What was given, or a few for a quick run. */
static int choose_words(const text_list *given, const char *const *quick, league_request *request,
                        int (*add)(league_request *request, const char *word)) {
    int status = add_words(given, request, add);
    for (size_t i = 0; given->count == 0 && quick[i] && status == STATUS_OK; i++)
        status = add(request, quick[i]);
    return status;
}

static int choose_tasks(const arguments *given, league_request *request) {
    if (!given->full || given->tasks.count > 0)
        return choose_words(&given->tasks, quick_tasks, request, add_task);
    league_all_tasks(request);
    return STATUS_OK;
}

static int choose_arms(const arguments *given, league_request *request) {
    lab_error error = {.kind = LAB_NO_ERROR};
    int status = add_arm(request, "softmax");
    if (status != STATUS_OK || !given->full || given->policies.count > 0)
        return status == STATUS_OK ? choose_words(&given->policies, quick_arms, request, add_arm)
                                   : status;
    return league_all_arms(request, &error) ? STATUS_OK : report_lab_error(&error);
}

static int choose_positions(const arguments *given, league_request *request) {
    if (!given->full || given->positions.count > 0)
        return choose_words(&given->positions, quick_positions, request, add_positions);
    league_all_positions(request);
    return STATUS_OK;
}

static int choose_rates(const char *text, league_scale *scale) {
    scale->rate_count = 0;
    while (*text) {
        char *end;
        double rate = strtod(text, &end);
        if (end == text || (*end && *end != ',') || !isfinite(rate) ||
            scale->rate_count == LEAGUE_RATES_MAX) {
            complain("--rates: '%s' is not a list of up to %d numbers such as 0.0005,0.002", text,
                     LEAGUE_RATES_MAX);
            return STATUS_MISUSE;
        }
        scale->rates[scale->rate_count++] = rate;
        text = *end == ',' ? end + 1 : end;
    }
    return STATUS_OK;
}

static int choose_multiples(const char *text, league_scale *scale) {
    number_list list;
    if (!parse_number_list("multiples", text, 1, 65536, &list))
        return STATUS_MISUSE;
    if (list.count > LEAGUE_MULTIPLES_MAX) {
        complain("--multiples: %zu sizes given; at most %d are possible", list.count,
                 LEAGUE_MULTIPLES_MAX);
        return STATUS_MISUSE;
    }
    scale->multiple_count = list.count;
    for (size_t i = 0; i < list.count; i++)
        scale->multiples[i] = list.items[i];
    return STATUS_OK;
}

static int choose_rank(const char *text, league_request *request) {
    char *slash = NULL, *end = NULL;
    errno = 0;
    unsigned long rank = strtoul(text, &slash, 10);
    unsigned long ranks = slash > text && *slash == '/' ? strtoul(slash + 1, &end, 10) : 0;
    if (!end || *end || errno || strpbrk(text, "+- ") || ranks > UINT32_MAX || rank >= ranks)
        return refuse_value("rank", text, "a share such as 0/4");
    request->share = (unsigned)rank;
    request->shares = (unsigned)ranks;
    return STATUS_OK;
}

static int choose_scale(const arguments *given, league_request *request) {
    league_scale *scale = &request->scale;
    *scale = given->full ? league_scale_full() : league_scale_quick();
    scale->first_seed = given->first_seed == UNSET ? scale->first_seed : given->first_seed;
    scale->seeds = given->seeds == UNSET ? scale->seeds : (size_t)given->seeds;
    scale->steps = given->steps == UNSET ? scale->steps : given->steps;
    scale->batch = given->batch == UNSET ? scale->batch : clamp_small(given->batch);
    scale->layers = given->layers == UNSET ? scale->layers : clamp_small(given->layers);
    scale->width = given->width == UNSET ? scale->width : clamp_small(given->width);
    scale->heads = given->heads == UNSET ? scale->heads : clamp_small(given->heads);
    scale->samples = given->samples == UNSET ? scale->samples : (size_t)given->samples;
    scale->tokens_max = given->tokens_max == UNSET ? scale->tokens_max : (size_t)given->tokens_max;
    int status = given->multiples ? choose_multiples(given->multiples, scale) : STATUS_OK;
    if (status == STATUS_OK && given->rates)
        status = choose_rates(given->rates, scale);
    if (status == STATUS_OK && given->rank)
        status = choose_rank(given->rank, request);
    lab_error error = {.kind = LAB_NO_ERROR};
    if (status == STATUS_OK && !league_scale_check(scale, &error))
        status = report_lab_error(&error);
    return status;
}

static int choose(const arguments *given, league_request *request) {
    if (given->quick && given->full) {
        return refuse_together("quick", "full");
    }
    int status = choose_scale(given, request);
    if (status == STATUS_OK)
        status = choose_tasks(given, request);
    if (status == STATUS_OK)
        status = choose_arms(given, request);
    return status == STATUS_OK ? choose_positions(given, request) : status;
}

/* ---- output ---- */

static void add_interval(lab_table *table, const lab_interval *of, bool is_signed) {
    const char *form = is_signed ? "%+.1f" : "%.1f";
    char mean[32];
    snprintf(mean, sizeof mean, form, 100 * of->mean);
    if (isfinite(of->low) && isfinite(of->high))
        lab_table_add(table, "%s [%.1f, %.1f]", mean, 100 * of->low, 100 * of->high);
    else
        lab_table_add(table, "%s", mean);
}

static bool print_ranking(const league_results *results) {
    const league_request *r = results->request;
    lab_table table = lab_table_start(6);
    static const char *const titles[] = {"policy",          "positions",       "models",
                                         "right beyond, %", "against softmax", "cost"};
    for (size_t i = 0; i < 6; i++)
        lab_table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < results->standing_count; i++) {
        const league_standing *standing = &results->standings[i];
        lab_table_add(&table, "%s", r->arms.list[standing->arm].name);
        lab_table_add(&table, "%s", lm_positions_names[r->positions[standing->positions]]);
        lab_table_add(&table, "%zu", standing->models);
        add_interval(&table, &standing->right, false);
        add_interval(&table, &standing->difference, true);
        if (isfinite(standing->cost))
            lab_table_add(&table, "%.2f", standing->cost);
        else
            lab_table_add(&table, "-");
    }
    return lab_table_finish(&table, stdout);
}

/* Whether an arm has results on a task. */
static bool has_results(const league_results *results, size_t t, size_t p, size_t a) {
    for (size_t m = 0; m < results->request->scale.multiple_count; m++)
        if (league_entry_at(results, t, p, a, m)->seeds > 0)
            return true;
    return false;
}

/* Shares by arm and multiple of one task and positions. */
static bool print_task(const league_results *results, size_t t, size_t p) {
    const league_request *r = results->request;
    lab_table table = lab_table_start(1 + r->scale.multiple_count);
    size_t first = 0;
    while (first < r->arms.count && !has_results(results, t, p, first))
        first++;
    if (first == r->arms.count)
        return true;
    printf("\n%s, positions: %s; right answers in %%\n", r->tasks[t].name,
           lm_positions_names[r->positions[p]]);
    lab_table_add(&table, "policy");
    for (size_t m = 0; m < r->scale.multiple_count; m++)
        lab_table_add(&table, "%llux", (unsigned long long)r->scale.multiples[m]);
    for (size_t a = first; a < r->arms.count; a++) {
        if (!has_results(results, t, p, a))
            continue;
        lab_table_add(&table, "%s", r->arms.list[a].name);
        for (size_t m = 0; m < r->scale.multiple_count; m++) {
            const league_entry *entry = league_entry_at(results, t, p, a, m);
            if (entry->seeds > 0)
                lab_table_add(&table, "%.1f", 100 * entry->right.mean);
            else
                lab_table_add(&table, "-");
        }
    }
    return lab_table_finish(&table, stdout);
}

static int print_all(const league_results *results) {
    bool is_printed = print_ranking(results);
    for (size_t t = 0; is_printed && t < results->request->task_count; t++)
        for (size_t p = 0; is_printed && p < results->request->position_count; p++)
            is_printed = print_task(results, t, p);
    if (!is_printed)
        complain("out of memory");
    return is_printed ? STATUS_OK : STATUS_FAILED;
}

static int keep_all(const arguments *given, const league_results *results) {
    char page[4096];
    snprintf(page, sizeof page, "%s/index.html", given->folder);
    int status = print_all(results);
    if (given->json && status == STATUS_OK)
        status = keep_json(given->json, league_results_json(results));
    if (given->csv && status == STATUS_OK)
        status = keep_table(given->csv, league_results_csv, results);
    if (given->svg && status == STATUS_OK)
        status = keep_table(given->svg, league_svg, results);
    if (status == STATUS_OK)
        status = keep_table(given->html ? given->html : page, league_page, results);
    return status;
}

/* ---- the command ---- */

static int run(const arguments *given, league_request *request, laboratory *lab) {
    league_results results;
    size_t left = 0;
    request->engine = &lab->engine;
    request->executor = &lab->executor;
    lab_catch_interrupts();
    int status = STATUS_OK;
    if (!given->reports && !request->ranks)
        status = confirm_seconds(league_seconds(request), "", given->is_confirmed);
    if (given->reports && !league_check_folder(request, true, &lab->error))
        status = report_lab_error(&lab->error);
    if (status == STATUS_OK && !given->reports && !league_run(request, &left, &lab->error))
        status = report_rank_failure(request->ranks, &lab->error);
    if (status != STATUS_OK || !lab_is_first(request->ranks))
        return status;
    if (left > 0 && !preferred.quiet)
        complain("%zu models are left to other processes", left);
    if (!league_results_read(request, &results, &lab->error))
        return report_lab_error(&lab->error);
    status = keep_all(given, &results);
    league_results_free(&results);
    return status;
}

static int join_and_run(const arguments *given, league_request *request, laboratory *lab) {
    const char *const outputs[] = {given->json, given->csv, given->svg, given->html};
    lab_ranks ranks;
    int status = STATUS_OK;
    if (!join_ranks(given->rank ? "none" : given->mpi, &ranks, &request->ranks, &request->quiet,
                    &lab->error))
        return report_lab_error(&lab->error);
    if (lab_is_first(request->ranks))
        status = reserve_output(outputs, sizeof outputs / sizeof *outputs);
    if (status == STATUS_OK)
        status = run(given, request, lab);
    close_ranks(request->ranks, status);
    return status;
}

static int choose_and_run(const arguments *given) {
    laboratory lab;
    league_request *request = calloc(1, sizeof *request); /* too large for the stack */
    if (!request)
        return complain_of_memory();
    request->folder = given->folder;
    request->quiet = preferred.quiet;
    int status = choose(given, request);
    if (status == STATUS_OK && !open_laboratory(&lab, given->threads, NULL)) {
        status = report_lab_error(&lab.error);
    } else if (status == STATUS_OK) {
        status = join_and_run(given, request, &lab);
        close_laboratory(&lab);
    }
    free(request);
    return status;
}

int command_league(int argc, char **argv) {
    arguments given = {.folder = "whet-league",
                       .first_seed = UNSET,
                       .seeds = UNSET,
                       .steps = UNSET,
                       .batch = UNSET,
                       .layers = UNSET,
                       .width = UNSET,
                       .heads = UNSET,
                       .samples = UNSET,
                       .tokens_max = UNSET};
    options_result parsed = parse(argc, argv, &given);
    int status = options_status(parsed);
    if (parsed == OPTIONS_GIVEN)
        status = given.lists ? list_all() : choose_and_run(&given);
    free(given.tasks.items);
    free(given.policies.items);
    free(given.positions.items);
    return status;
}
