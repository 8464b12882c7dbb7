/*
 * `whet audit`: bounds on what the heads of a language model can do, from the
 * weights in its file. Prints a line a layer, or a head, and then the heads that
 * give up first.
 */
#include "commands.h"
#include "lab_options.h"
#include "messages.h"
#include "options.h"
#include "preferences.h"
#include "results.h"
#include "number_table.h"
#include "text.h"

#include "base/signals.h"
#include "base/table.h"
#include "model/audit.h"

#include <math.h>
#include <stdarg.h>
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

/* What the columns mean, a line each: "  reached   a spread that ..." */
__attribute__((format(printf, 2, 3))) static void note(const char *column, const char *format,
                                                       ...) {
    va_list values;
    printf("  %-16s ", column);
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    putchar('\n');
}

static void note_reach(double mass, const char *which) {
    note("reached", "a spread that some input reaches: no bound can be lower");
    note("tokens", "beyond this number, %s cannot put %g of its weight on one", which, mass);
}

static bool print_heads(const audit_head *heads, size_t count, double mass) {
    static const char *const titles[] = {"layer",     "head",     "|W_Q|",   "|W_K|",
                                         "Prop. 3.1", "by pairs", "reached", "tokens"};
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
    bool is_printed = lab_table_finish(&table, stdout);
    note("|W_Q|, |W_K|",
         "largest singular values of the maps to queries and keys, with the norm's gains");
    note("Prop. 3.1", "the spread is at most this, by the paper's proposition");
    note("by pairs", "a tighter bound: RoPE rotates queries and keys pair by pair");
    note_reach(mass, "the head");
    return is_printed;
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
    static const char *const titles[] = {"layer",       "narrowest head", "median head",
                                         "widest head", "reached",        "tokens"};
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
    bool is_printed = lab_table_finish(&table, stdout);
    note("narrowest head", "bound on the spread in the head of the layer with the lowest bound,");
    note("median, widest", "in the median head, and in the one with the highest bound");
    note_reach(audit->mass, "the narrowest head");
    return is_printed;
}

static void tell_summary(const model_audit *audit, const audit_head *sorted) {
    char context[NUMBER_SIZE], reach[REACH_SIZE];
    size_t limited = 0;
    double log10_context = log10(fmax(1, (double)audit->shape.context));
    for (size_t i = 0; i < audit->count; i++)
        limited += audit->heads[i].log10_reach < log10_context;
    if (audit->shape.context && limited > 0)
        tell("%zu of %zu heads cannot put more than %g on one token anywhere near the %s tokens "
             "the model was trained for, whatever the input.",
             limited, audit->count, audit->mass, grouped(audit->shape.context, context));
    else
        tell("The weights force no head to disperse within any context in use: the first that "
             "cannot put more than %g on one token is layer %u head %u, beyond %s tokens. 'whet "
             "probe' measures what heads really do.",
             audit->mass, sorted[0].layer, sorted[0].head,
             reach_text(sorted[0].log10_reach, reach));
}

static int show(const arguments *given, const model_audit *audit) {
    audit_head *sorted = malloc(audit->count * sizeof *sorted);
    if (!sorted)
        return complain_of_memory();
    print_model(audit);
    printf("\nLargest spread of one query's logits that the weights allow\n");
    bool is_printed;
    if (given->layer != UINT64_MAX) {
        size_t count = sort_heads(audit, (uint32_t)given->layer, sorted);
        is_printed = print_heads(sorted, count, audit->mass);
    } else if (given->shows_heads) {
        is_printed = print_heads(audit->heads, audit->count, audit->mass);
    } else {
        is_printed = print_layers(audit, sorted);
    }
    size_t count = sort_heads(audit, UINT32_MAX, sorted);
    if (is_printed && !given->shows_heads && given->layer == UINT64_MAX) {
        printf("\nThe heads that must disperse first\n");
        is_printed = print_heads(sorted, count < RANKED ? count : RANKED, audit->mass);
    }
    putchar('\n');
    tell_summary(audit, sorted);
    free(sorted);
    return is_printed ? STATUS_OK : complain_of_memory();
}

static int keep(const arguments *given, const model_audit *audit) {
    int status = STATUS_OK;
    if (given->json)
        status = keep_json(given->json, audit_json(audit));
    if (given->csv && status == STATUS_OK)
        status = keep_table(given->csv, audit_csv, audit);
    return status;
}

static int run(const arguments *given) {
    lab_error error = {.kind = LAB_NO_ERROR};
    model_audit audit;
    const char *const files[] = {given->json, given->csv};
    int status = refuse_to_overwrite(given->model, files, 2);
    if (status == STATUS_OK)
        status = reserve_output(files, 2);
    if (status != STATUS_OK)
        return status;
    lab_catch_interrupts();
    gguf_file *file = gguf_open(given->model, &error);
    if (!file || !audit_model(file, given->mass, preferred.quiet, &audit, &error)) {
        gguf_close(file);
        return report_lab_error(&error);
    }
    status = STATUS_MISUSE;
    if (given->layer != UINT64_MAX && given->layer >= audit.shape.layers)
        complain("--layer: %llu is out of range; the model has layers 0 to %u",
                 (unsigned long long)given->layer, audit.shape.layers - 1);
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
        model_option(&given.model),
        {"mass", OPTION_NUMBER, &given.mass, "P", "share of the weight on one token (default 0.5)"},
        {"all-heads", OPTION_FLAG, &given.shows_heads, NULL,
         "print a line for each head, not each layer", .aliases = "heads"},
        {"layer", OPTION_UNSIGNED, &given.layer, "N", "layer whose heads to print",
         .most = MODEL_LAYERS_MAX - 1},
        json_option(&given.json, JSON_SUMMARY),
        csv_option(&given.csv, CSV_SUMMARY),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "MODEL.gguf",
        .about = "Bounds what a language model's weights allow its heads to do (Proposition 3.1):\n"
                 "the largest spread of a query's logits, and from it the number of tokens beyond\n"
                 "which no single one can get more than P of a head's weight.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "The model is a GGUF file of architecture llama, qwen2, qwen3, gemma, gemma2 or\n"
                "gemma3. It is not run, and llama.cpp is not needed.\n",
        .examples = "whet audit model.gguf\n"
                    "whet audit model.gguf --all-heads --json audit.json\n",
        .operands_limit = 1,
        .operand_values = VALUE_FILE,
    };
    int operands;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    int status = take_model(&syntax, operands, argv, &given.model);
    if (status != STATUS_OK)
        return status;
    if (!(given.mass > 0 && given.mass < 1))
        return refuse_range("mass", given.mass, "above 0, below 1");
    return run(&given);
}
