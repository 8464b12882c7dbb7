/*
 * `whet clrs mix`: samples of several algorithms and lengths in random order, as
 * the reference's generator for Hugging Face makes them.
 */
#include "clrs.h"
#include "clrs_record.h"
#include "commands.h"
#include "lab_options.h"
#include "messages.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char command[] = "clrs mix";

typedef struct arguments {
    const char *spec, *decimals, *ties, *format;
    uint64_t count;
    option_range seed;
    bool hints;
} arguments;

/* What the specification comes to. */
typedef struct mixture {
    clrs_request *requests;
    size_t count;
} mixture;

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        {"spec", OPTION_TEXT, &given->spec, "FILE",
         "JSON file with the algorithms to mix and the lengths of each", .values = VALUE_FILE},
        {"count", OPTION_UNSIGNED, &given->count, "N", "number of samples (default 1)"},
        {"seed", OPTION_RANGE, &given->seed, "S",
         "seed of the samples, 0 to 4,294,967,295 (default 1)"},
        clrs_hints_option(&given->hints),
        clrs_decimals_option(&given->decimals),
        clrs_ties_option(&given->ties),
        clrs_format_option(&given->format),
    };
    const command_syntax syntax = {
        .name = command,
        .operands = "",
        .about = "Prints samples of several algorithms and lengths. Each algorithm and length has\n"
                 "its own stream, all with the same seed; Python's random chooses among them.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more =
            "A specification is {\"bfs\": [4, 8], \"quicksort\": [16]}, or an object with "
            "this\nunder \"algos_and_lengths\". In a record, \"n\" is the position in the mixed "
            "stream\nand \"index\" the position in its own.\n",
        .examples = "whet clrs mix --spec mixture.json --count 1000\n",
    };
    int operands = 0;
    return parse_options(&syntax, argc, argv, &operands);
}

/* Appends the lengths of one algorithm. */
static int add_lengths(mixture *mixed, const clrs_request *common, const char *path,
                       const char *name, const json_t *lengths) {
    const clrs_algorithm *algorithm = clrs_choose_algorithm(name);
    if (!algorithm)
        return STATUS_MISUSE;
    if (!json_is_array(lengths)) {
        complain("%s: the lengths of %s are not an array", path, name);
        return STATUS_MISUSE;
    }
    size_t count = json_array_size(lengths);
    clrs_request *requests =
        realloc(mixed->requests, (mixed->count + count + 1) * sizeof *requests);
    if (!requests)
        return complain_of_memory();
    mixed->requests = requests;
    for (size_t i = 0; i < count; i++) {
        const json_t *length = json_array_get(lengths, i);
        if (!json_is_integer(length)) {
            complain("%s: a length of %s is not a whole number", path, name);
            return STATUS_MISUSE;
        }
        clrs_request request = *common;
        request.algorithm = algorithm->name;
        request.length = json_integer_value(length);
        clrs_status status = clrs_request_check(&request, NULL);
        if (status != CLRS_OK)
            return clrs_refuse(&request, status);
        requests[mixed->count++] = request;
    }
    return STATUS_OK;
}

static int add_all(mixture *mixed, const clrs_request *common, const char *path, json_t *spec) {
    json_t *wrapped = json_object_get(spec, "algos_and_lengths");
    json_t *mapping = wrapped ? wrapped : spec;
    if (!json_is_object(mapping)) {
        complain("%s: not an object of algorithms and their lengths", path);
        return STATUS_MISUSE;
    }
    const char *name;
    json_t *lengths;
    json_object_foreach(mapping, name, lengths) {
        int status = add_lengths(mixed, common, path, name, lengths);
        if (status != STATUS_OK)
            return status;
    }
    if (mixed->count > 0)
        return STATUS_OK;
    complain("%s: no lengths", path);
    return STATUS_MISUSE;
}

static int print_samples(const mixture *mixed, const arguments *given, clrs_record_form form) {
    clrs_mix *mix;
    size_t failed;
    clrs_status status =
        clrs_mix_create(mixed->requests, mixed->count, given->seed.value, &mix, &failed);
    if (status != CLRS_OK)
        return clrs_refuse(&mixed->requests[failed], status);
    uint64_t position = 0;
    form.position = &position;
    for (; status == CLRS_OK && position < given->count && !ferror(stdout); position++) {
        clrs_sample sample;
        status = clrs_mix_next(mix, &sample);
        if (status == CLRS_OK)
            clrs_print_record(stdout, &sample, &form);
    }
    clrs_mix_destroy(mix);
    if (status == CLRS_OK)
        return STATUS_OK;
    if (status == CLRS_ERROR_MEMORY)
        return complain_of_memory();
    complain("sample %llu: %s", (unsigned long long)(position - 1), clrs_status_text(status));
    return STATUS_MISUSE;
}

static int run(const arguments *given) {
    clrs_request common = clrs_request_default(NULL, 0);
    common.seed = given->seed.value;
    common.hints = given->hints;
    clrs_record_form form = {.as_text = given->format && strcmp(given->format, "text") == 0};
    if (!given->spec) {
        complain("missing --spec FILE");
        return STATUS_MISUSE;
    }
    if (!clrs_choose_decimals(given->decimals, &common.decimals) ||
        !clrs_choose_ties(given->ties, &common.ties))
        return STATUS_MISUSE;
    form.decimals = common.decimals;
    form.ties = common.ties;
    lab_error error = {.kind = LAB_NO_ERROR};
    json_t *spec = lab_json_read(given->spec, &error);
    if (!spec)
        return report_lab_error(&error);
    mixture mixed = {.requests = NULL};
    int status = add_all(&mixed, &common, given->spec, spec);
    if (status == STATUS_OK)
        status = print_samples(&mixed, given, form);
    free(mixed.requests);
    json_decref(spec);
    return status;
}

int command_clrs_mix(int argc, char **argv) {
    arguments given = {.count = 1, .seed = {.value = SEED_DEFAULT, .most = UINT32_MAX}};
    options_result result = parse(argc, argv, &given);
    return result == OPTIONS_GIVEN ? run(&given) : options_status(result);
}
