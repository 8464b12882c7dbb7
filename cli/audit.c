/*
 * `whet audit`: bounds on what the heads of a language model can do, from the
 * weights in its file. Prints a line a layer, or a head, and then the heads that
 * give up first.
 */
#include "commands.h"
#include "lab_options.h"
#include "messages.h"
#include "options.h"
#include "sheet.h"
#include "text.h"

#include "base/atomic_file.h"
#include "base/json.h"
#include "base/signals.h"
#include "base/table.h"
#include "model/audit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "audit";

enum { RANKED = 5, REACH_SIZE = 48 };

typedef struct arguments {
    const char *model;
    const char *json;
    const char *csv;
    double mass;
    uint64_t layer;
    bool shows_heads;
    bool quiet;
} arguments;

/* A number of tokens from its logarithm: "1,234", or "10^551" where nobody could read it. */
static const char *reach_text(double log10_reach, char text[REACH_SIZE]) {
    char digits[NUMBER_SIZE];
    if (log10_reach < 15)
        snprintf(text, REACH_SIZE, "%s", grouped((uint64_t)pow(10, log10_reach), digits));
    else
        snprintf(text, REACH_SIZE, "10^%.0f", floor(log10_reach));
    return text;
}

static void print_model(const model_audit *audit) {
    const model_shape *shape = &audit->shape;
    char context[NUMBER_SIZE];
    printf("%s%s%s, %u layers of %u heads on %u, %u dimensions each", shape->architecture,
           shape->name[0] ? ", " : "", shape->name, shape->layers, shape->heads[0],
           shape->kv_heads[0], shape->head_dim);
    if (shape->context)
        printf(", trained for %s tokens", grouped(shape->context, context));
    if (shape->soft_cap > 0)
        printf(", logits capped at %g", shape->soft_cap);
    if (shape->has_head_norms)
        printf(", queries and keys normalised");
    if (shape->rope_factor > 1)
        printf(", lengthened by YaRN (%.3f)", shape->rope_factor);
    putchar('\n');
}

static bool print_heads(const audit_head *heads, size_t count) {
    static const char *const titles[] = {"layer",    "head",    "|Q|",     "|K|",
                                         "spread <", "tighter", "reached", "tokens <"};
    enum { COLUMNS = sizeof titles / sizeof titles[0] };
    char reach[REACH_SIZE];
    lab_table table = lab_table_start(COLUMNS);
    for (size_t c = 0; c < COLUMNS; c++)
        lab_table_add(&table, "%s", titles[c]);
    for (size_t i = 0; i < count; i++) {
        const audit_head *head = &heads[i];
        lab_table_add(&table, "%u", head->layer);
        lab_table_add(&table, "%u", head->head);
        lab_table_add(&table, "%.2f", head->sigma_query);
        lab_table_add(&table, "%.2f", head->sigma_key);
        lab_table_add(&table, "%.1f", head->bound);
        lab_table_add(&table, "%.1f", head->tighter);
        lab_table_add(&table, "%.1f", head->attained);
        lab_table_add(&table, "%s", reach_text(head->log10_reach, reach));
    }
    return lab_table_finish(&table, stdout);
}

static int compare_spreads(const void *a, const void *b) {
    double difference = ((const audit_head *)a)->tighter - ((const audit_head *)b)->tighter;
    return (difference > 0) - (difference < 0);
}

/* Heads of a layer, or of all (UINT32_MAX), by the bound on their spread; returns how many. */
static size_t sort_heads(const model_audit *audit, uint32_t layer, audit_head *heads) {
    size_t count = 0;
    for (size_t i = 0; i < audit->count; i++)
        if (layer == UINT32_MAX || audit->heads[i].layer == layer)
            heads[count++] = audit->heads[i];
    qsort(heads, count, sizeof *heads, compare_spreads);
    return count;
}

static bool print_layers(const model_audit *audit, audit_head *heads) {
    static const char *const titles[] = {"layer",  "least spread <", "median <",
                                         "most <", "reached",        "tokens <, least"};
    enum { COLUMNS = sizeof titles / sizeof titles[0] };
    char reach[REACH_SIZE];
    lab_table table = lab_table_start(COLUMNS);
    for (size_t c = 0; c < COLUMNS; c++)
        lab_table_add(&table, "%s", titles[c]);
    for (uint32_t layer = 0; layer < audit->shape.layers; layer++) {
        size_t count = sort_heads(audit, layer, heads);
        if (count == 0)
            continue;
        double attained = 0;
        for (size_t i = 0; i < count; i++)
            attained = fmax(attained, heads[i].attained);
        lab_table_add(&table, "%u", layer);
        lab_table_add(&table, "%.1f", heads[0].tighter);
        lab_table_add(&table, "%.1f", heads[count / 2].tighter);
        lab_table_add(&table, "%.1f", heads[count - 1].tighter);
        lab_table_add(&table, "%.1f", attained);
        lab_table_add(&table, "%s", reach_text(heads[0].log10_reach, reach));
    }
    return lab_table_finish(&table, stdout);
}

static void tell_summary(const model_audit *audit, const audit_head *sorted) {
    char context[NUMBER_SIZE], reach[REACH_SIZE];
    size_t limited = 0;
    double log10_context = log10((double)audit->shape.context);
    for (size_t i = 0; i < audit->count; i++)
        limited += audit->heads[i].log10_reach < log10_context;
    if (audit->shape.context && limited > 0)
        tell("%zu of %zu heads cannot put more than %g on one token anywhere near the %s tokens "
             "the model was trained for, whatever they read.",
             limited, audit->count, audit->mass, grouped(audit->shape.context, context));
    else
        tell("No head is bound to disperse within any context in use: the first whose weights "
             "forbid it to put more than %g on one token, layer %u head %u, does so beyond %s "
             "tokens. What heads really do, 'whet probe' measures.",
             audit->mass, sorted[0].layer, sorted[0].head,
             reach_text(sorted[0].log10_reach, reach));
}

static int show(const arguments *given, const model_audit *audit) {
    audit_head *sorted = malloc(audit->count * sizeof *sorted);
    if (!sorted)
        return complain_of_memory();
    print_model(audit);
    printf("\nlogits of one query lie no further apart than (tighter: by RoPE's pairs; reached:\n"
           "by some inputs at the same place), and no token gets more than %g beyond so many\n",
           audit->mass);
    bool is_printed;
    if (given->layer != UINT64_MAX) {
        size_t count = sort_heads(audit, (uint32_t)given->layer, sorted);
        is_printed = print_heads(sorted, count);
    } else if (given->shows_heads) {
        is_printed = print_heads(audit->heads, audit->count);
    } else {
        is_printed = print_layers(audit, sorted);
    }
    size_t count = sort_heads(audit, UINT32_MAX, sorted);
    if (is_printed && !given->shows_heads && given->layer == UINT64_MAX) {
        printf("\nheads that give up first\n");
        is_printed = print_heads(sorted, count < RANKED ? count : RANKED);
    }
    putchar('\n');
    tell_summary(audit, sorted);
    free(sorted);
    return is_printed ? STATUS_OK : complain_of_memory();
}

static int keep(const arguments *given, const model_audit *audit) {
    lab_error error = {.kind = LAB_NO_ERROR};
    if (given->json) {
        json_t *json = audit_json(audit);
        bool is_written = lab_json_write(given->json, json, &error);
        json_decref(json);
        if (!is_written)
            return report_lab_error(name, &error);
    }
    if (given->csv && !replace_file(given->csv, audit_csv, audit)) {
        lab_fail_file(&error, "write", given->csv);
        return report_lab_error(name, &error);
    }
    return STATUS_OK;
}

static int run(const arguments *given) {
    lab_error error = {.kind = LAB_NO_ERROR};
    model_audit audit;
    lab_catch_interrupts();
    gguf_file *file = gguf_open(given->model, &error);
    if (!file || !audit_model(file, given->mass, given->quiet, &audit, &error)) {
        gguf_close(file);
        return report_lab_error(name, &error);
    }
    int status = STATUS_MISUSE;
    if (given->layer != UINT64_MAX && given->layer >= audit.shape.layers)
        complain("%s: --layer: the model has layers 0 to %u", name, audit.shape.layers - 1);
    else
        status = keep(given, &audit);
    if (status == STATUS_OK)
        status = show(given, &audit);
    audit_free(&audit);
    gguf_close(file);
    return status;
}

int command_audit(int argc, char **argv) {
    arguments given = {.mass = 0.5, .layer = UINT64_MAX};
    const option_spec options[] = {
        {"m", OPTION_TEXT, &given.model, "MODEL", "the model, as an operand or here"},
        {"mass", OPTION_NUMBER, &given.mass, "P", "the weight on one token (default 0.5)"},
        {"heads", OPTION_FLAG, &given.shows_heads, NULL, "a line for each head, not each layer"},
        {"layer", OPTION_UNSIGNED, &given.layer, "N", "the heads of this layer"},
        {"json", OPTION_TEXT, &given.json, "FILE", "also write everything as JSON"},
        {"csv", OPTION_TEXT, &given.csv, "FILE", "also write everything as CSV"},
        quiet_option(&given.quiet),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "MODEL.gguf",
        .about = "Tells what a language model's weights allow its heads to do (Proposition 3.1):\n"
                 "how far apart the logits of a query can lie at most, and from that the number\n"
                 "of tokens beyond which no single one can get more than P of a head's weight.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "The model is a GGUF file of architecture llama, qwen2, qwen3, gemma, gemma2\n"
                "or gemma3. It is not run, and llama.cpp is not needed.\n",
        .operands_limit = 1,
    };
    int operands;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    if (operands > 0 && given.model) {
        complain("%s: the model is given twice", name);
        return STATUS_MISUSE;
    }
    given.model = operands > 0 ? argv[1] : given.model;
    if (!given.model) {
        complain("%s: which model? 'whet audit MODEL.gguf'", name);
        return STATUS_MISUSE;
    }
    if (!(given.mass > 0 && given.mass < 1)) {
        complain("%s: --mass must lie between 0 and 1", name);
        return STATUS_MISUSE;
    }
    return run(&given);
}
