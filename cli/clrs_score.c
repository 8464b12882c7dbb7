/*
 * `whet clrs score`: reads predictions, one JSON object a line, compares each
 * with its reference, given or made again, and prints how many are right.
 */
#define _POSIX_C_SOURCE 200809L

#include "byte_size.h"
#include "clrs.h"
#include "commands.h"
#include "lab_options.h"
#include "messages.h"
#include "read_lines.h"
#include "results.h"

#include "base/json.h"
#include "base/table.h"
#include "clrs/score.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char command[] = "clrs score";

typedef struct arguments {
    const char *decimals, *ties, *max_line, *path, *json;
    bool hints;
} arguments;

/* A file under way. */
typedef struct scoring {
    const char *path; /* for messages */
    clrs_request usual;
    line_reader reader;
    clrs_scores scores;
} scoring;

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        {"hints", OPTION_FLAG, &given->hints, NULL,
         "generate references with steps where a line has no \"use_hints\""},
        {"decimals", OPTION_TEXT, &given->decimals, "D",
         "decimals of references where a line has no \"decimals\" (default 3)"},
        {"ties", OPTION_CHOICE, &given->ties, "HOW",
         "order of equal keys in references where a line has no \"ties\": {}", .values = VALUE_WORD,
         .words = clrs_ties_words},
        {"max-line", OPTION_TEXT, &given->max_line, "SIZE",
         "longest line in bytes, with K, M or G (default 64M)"},
        json_option(&given->json, JSON_SUMMARY),
    };
    const command_syntax syntax = {
        .name = command,
        .operands = "[FILE]",
        .about = "Reads predictions, one JSON object per line, and prints the share that is right\n"
                 "for each algorithm and length: exact, the whole answer; final, what follows its\n"
                 "last \" | \"; steps, the mean share of the trace before its first error. White\n"
                 "space around an answer does not count.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more =
            "A line has \"algo\", \"length\", \"prediction\" and either \"reference\" (or\n"
            "\"answer\") or \"seed\" and \"index\", from which the reference is generated with\n"
            "the line's \"use_hints\", \"decimals\" and \"ties\". The records of 'whet clrs\n"
            "generate' with a prediction added are such lines.\n",
        .examples = "whet clrs score predictions.jsonl\n"
                    "whet clrs score predictions.jsonl --json scores.json\n",
        .operands_limit = 1,
        .operand_values = VALUE_FILE,
        .reads_input = true,
    };
    int operands = 0;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    given->path = operands ? argv[1] : "-";
    return result;
}

/* ---- One line ------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static int refuse_line(const scoring *of, const char *format,
                                                             ...) {
    char text[400];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    complain("%s:%zu: %s", of->path, of->reader.line_number, text);
    return STATUS_MISUSE;
}

/* A member that must be a whole number of at least 0, or may be missing. */
static int take_number(const scoring *of, const json_t *line, const char *name, int64_t *value) {
    const json_t *member = json_object_get(line, name);
    if (!member)
        return STATUS_OK;
    if (!json_is_integer(member) || json_integer_value(member) < 0)
        return refuse_line(of, "\"%s\" is not a whole number of at least 0", name);
    *value = json_integer_value(member);
    return STATUS_OK;
}

static clrs_span span_of(const json_t *text) {
    return (clrs_span){json_string_value(text), json_string_length(text)};
}

/* "decimals" may be null, for none. */
static int take_settings(const scoring *of, const json_t *line, clrs_request *request) {
    const json_t *hints = json_object_get(line, "use_hints");
    const json_t *ties = json_object_get(line, "ties");
    if (hints && !json_is_boolean(hints))
        return refuse_line(of, "\"use_hints\" is neither true nor false");
    if (hints)
        request->hints = json_is_true(hints);
    if (ties &&
        (!json_is_string(ties) || !clrs_choose_ties(json_string_value(ties), &request->ties)))
        return refuse_line(of, "\"ties\" is neither \"scalar\" nor \"simd\"");
    if (json_is_null(json_object_get(line, "decimals"))) {
        request->decimals = 0;
        return STATUS_OK;
    }
    return take_number(of, line, "decimals", &request->decimals);
}

/* Two minutes of drawing. */
enum { INDEX_MAX = 10000000 };

static int make_reference(scoring *of, const json_t *line, const clrs_request *wanted,
                          clrs_span *reference) {
    clrs_request request = *wanted;
    int64_t seed = -1, index = -1;
    int status = take_number(of, line, "seed", &seed);
    if (status == STATUS_OK)
        status = take_number(of, line, "index", &index);
    if (status == STATUS_OK && (seed < 0 || index < 0))
        return refuse_line(of, "missing \"reference\", or \"seed\" and \"index\"");
    if (status == STATUS_OK && index > INDEX_MAX)
        return refuse_line(of, "\"index\" is above 10,000,000, and all samples before it would "
                               "have to be drawn; give the \"reference\" instead");
    if (status == STATUS_OK)
        status = take_settings(of, line, &request);
    if (status != STATUS_OK)
        return status;
    request.seed = (uint64_t)seed;
    char message[CLRS_MESSAGE_SIZE];
    if (clrs_request_check(&request, message) != CLRS_OK)
        return refuse_line(of, "%s", message);
    clrs_status made = clrs_scores_reference(&of->scores, &request, (uint64_t)index, reference);
    if (made == CLRS_OK)
        return STATUS_OK;
    return made == CLRS_ERROR_MEMORY ? complain_of_memory()
                                     : refuse_line(of, "%s", clrs_status_text(made));
}

static int find_reference(scoring *of, const json_t *line, const clrs_request *request,
                          clrs_span *reference) {
    const json_t *given = json_object_get(line, "reference");
    if (!given)
        given = json_object_get(line, "answer");
    if (!given)
        return make_reference(of, line, request, reference);
    if (!json_is_string(given))
        return refuse_line(of, "the reference is not a string");
    *reference = span_of(given);
    return STATUS_OK;
}

static int score_object(scoring *of, const json_t *line) {
    const json_t *name = json_object_get(line, "algo");
    const json_t *prediction = json_object_get(line, "prediction");
    clrs_request request = of->usual;
    request.length = -1;
    if (!json_is_string(name) || !json_is_string(prediction))
        return refuse_line(of, "\"algo\" or \"prediction\" is missing, or not a string");
    const clrs_algorithm *algorithm = clrs_algorithm_find(json_string_value(name));
    if (!algorithm) {
        char text[160];
        clrs_describe_unknown(json_string_value(name), text, sizeof text);
        return refuse_line(of, "%s", text);
    }
    request.algorithm = algorithm->name;
    int status = take_number(of, line, "length", &request.length);
    if (status == STATUS_OK && request.length < 0)
        return refuse_line(of, "\"length\" is missing");
    clrs_span reference = {NULL, 0};
    if (status == STATUS_OK)
        status = find_reference(of, line, &request, &reference);
    if (status != STATUS_OK)
        return status;
    bool added =
        clrs_scores_add(&of->scores, algorithm, request.length, span_of(prediction), reference);
    return added ? STATUS_OK : complain_of_memory();
}

/* Why a line is not JSON; a first line that only opens something is that of another kind of file.
 */
static int refuse_text(const scoring *of, const char *text, size_t length, const char *reason) {
    size_t used = length;
    while (used > 0 && strchr(" \t\r", text[used - 1]))
        used--;
    if (of->reader.line_number == 1 && used == 1 && (*text == '{' || *text == '['))
        return refuse_line(of, "JSON over several lines, as 'whet clrs export' writes its data "
                               "sets; expected one object per line");
    return refuse_line(of, "not JSON: %s", reason);
}

static int score_line(scoring *of, const char *text, size_t length) {
    if (strspn(text, " \t\r") == length)
        return STATUS_OK;
    json_error_t reason;
    json_t *line = lab_json_parse(text, length, JSON_ALLOW_NUL, &reason);
    if (!line)
        return reason.line == LAB_JSON_MEMORY ? complain_of_memory()
                                              : refuse_text(of, text, length, reason.text);
    int status =
        json_is_object(line) ? score_object(of, line) : refuse_line(of, "not a JSON object");
    json_decref(line);
    return status;
}

/* ---- Results -------------------------------------------------------------- */

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : NAN;
}

static double steps_share(const clrs_score_sum *sum) {
    return sum->traced ? sum->steps_share / (double)sum->traced : NAN;
}

static void add_share(lab_table *table, double value) {
    if (isnan(value))
        lab_table_add(table, "-");
    else
        lab_table_add(table, "%.4f", value);
}

static void add_row(lab_table *table, const clrs_score_sum *sum) {
    lab_table_add(table, "%s", sum->algorithm ? sum->algorithm->name : "all");
    if (sum->algorithm)
        lab_table_add(table, "%lld", (long long)sum->length);
    else
        lab_table_add(table, "-");
    lab_table_add(table, "%llu", (unsigned long long)sum->samples);
    add_share(table, share(sum->exact, sum->samples));
    add_share(table, share(sum->final, sum->samples));
    add_share(table, steps_share(sum));
}

static int print_table(const clrs_scores *scores) {
    static const char *const titles[] = {"algorithm", "length", "samples",
                                         "exact",     "final",  "steps"};
    enum { COLUMNS = sizeof titles / sizeof titles[0] };
    lab_table table = lab_table_start(COLUMNS);
    for (size_t i = 0; i < COLUMNS; i++)
        lab_table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < scores->count; i++)
        add_row(&table, &scores->sums[i]);
    clrs_score_sum total = clrs_scores_total(scores);
    add_row(&table, &total);
    return lab_table_finish(&table, stdout) ? STATUS_OK : complain_of_memory();
}

static void write_share(FILE *file, const char *name, double value) {
    if (isnan(value))
        fprintf(file, ", \"%s\": null", name);
    else
        fprintf(file, ", \"%s\": %.17g", name, value);
}

static void write_members(FILE *file, const clrs_score_sum *sum) {
    fprintf(file, "\"samples\": %llu", (unsigned long long)sum->samples);
    write_share(file, "exact", share(sum->exact, sum->samples));
    write_share(file, "final", share(sum->final, sum->samples));
    write_share(file, "steps", steps_share(sum));
}

/* context: the clrs_scores */
static void write_json(FILE *file, const void *context) {
    const clrs_scores *scores = context;
    clrs_score_sum total = clrs_scores_total(scores);
    fputs("{\"results\": [", file);
    for (size_t i = 0; i < scores->count; i++) {
        const clrs_score_sum *sum = &scores->sums[i];
        fprintf(file, "%s\n  {\"algo\": \"%s\", \"length\": %lld, ", i ? "," : "",
                sum->algorithm->name, (long long)sum->length);
        write_members(file, sum);
        fputc('}', file);
    }
    fputs("\n], \"all\": {", file);
    write_members(file, &total);
    fputs("}}\n", file);
}

/* ---- The command ---------------------------------------------------------- */

static int score_lines(scoring *of) {
    const char *line;
    size_t length, number;
    char reason[120];
    for (;;) {
        line_result result = read_line(&of->reader, &line, &length);
        switch (result) {
        case LINE_NONE:
            return STATUS_OK;
        case LINE_OUT_OF_MEMORY:
            return complain_of_memory();
        case LINE_READ_FAILED:
        case LINE_WRITE_FAILED:
            return report_unreadable(of->path, errno);
        case LINE_NUL:
        case LINE_TOO_LONG:
            number = describe_bad_line(&of->reader, result, reason, sizeof reason);
            if (number > 0)
                complain("%s:%zu: %s", of->path, number, reason);
            else
                complain("%s: %s", of->path, reason);
            return STATUS_MISUSE;
        case LINE_READ:
            break;
        }
        int status = score_line(of, line, length);
        if (status != STATUS_OK)
            return status;
    }
}

static int run(const arguments *given) {
    bool is_input = strcmp(given->path, "-") == 0;
    scoring of = {.path = is_input ? "<stdin>" : given->path,
                  .usual = clrs_request_default(NULL, 0),
                  .reader = {.in = {.descriptor = STDIN_FILENO, .output = stdout}}};
    of.usual.hints = given->hints;
    if (!clrs_choose_decimals(given->decimals, &of.usual.decimals) ||
        !clrs_choose_ties(given->ties, &of.usual.ties) ||
        !choose_line_limit(given->max_line, &of.reader.limit))
        return STATUS_MISUSE;
    int status = is_input ? STATUS_OK : refuse_to_overwrite(given->path, &given->json, 1);
    if (status == STATUS_OK)
        status = reserve_output(&given->json, 1);
    if (status != STATUS_OK)
        return status;
    if (!is_input)
        of.reader.in.descriptor = open(given->path, O_RDONLY | O_CLOEXEC);
    if (of.reader.in.descriptor < 0)
        return report_unreadable(given->path, errno);
    status = score_lines(&of);
    if (status == STATUS_OK && given->json)
        status = keep_table(given->json, write_json, &of.scores);
    if (status == STATUS_OK)
        status = print_table(&of.scores);
    clrs_scores_free(&of.scores);
    free(of.reader.in.buffer);
    if (!is_input)
        close(of.reader.in.descriptor);
    return status;
}

int command_clrs_score(int argc, char **argv) {
    arguments given = {.path = NULL};
    options_result result = parse(argc, argv, &given);
    return result == OPTIONS_GIVEN ? run(&given) : options_status(result);
}
