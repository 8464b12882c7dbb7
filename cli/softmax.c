/*
 * `whet softmax`: rows of numbers in, probabilities or statistics out. A row is
 * read and parsed as a whole before any of it is printed: a row with a mistake in
 * it leaves nothing but the message, and the rows before it have been answered.
 * Consecutive rows of one length go to the library together, as far as they have
 * been read, since it is fastest on many rows without statistics.
 */
#define _POSIX_C_SOURCE 200809L

#include "byte_size.h"
#include "commands.h"
#include "json.h"
#include "lab_options.h"
#include "messages.h"
#include "options.h"
#include "policy_list.h"
#include "registry_words.h"
#include "row_source.h"
#include "whet.h"

#include "base/grow.h"

#include <errno.h>
#include <float.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BETA_MAX 1e30 /* the library applies no larger one */

/* Positions up to here are exact in a double, and rows can be counted on from it. */
#define POSITION_MAX (UINT64_C(1) << 53)

enum {
    PROBABILITY_DIGITS = 9, /* tell any two floats apart */
    PRECISION_MAX = 17      /* tell any two doubles apart */
};

/* Rows of one length, read one after the other and not yet answered. */
typedef struct row_batch {
    float *values; /* [rows][n] */
    size_t capacity;
    size_t rows, n;
    size_t *numbers; /* of the rows in their file: lines, or rows of .npy */
    size_t numbers_capacity;
} row_batch;

/* What lasts from row to row. */
typedef struct softmax_work {
    policy_list policies;
    row_reading reading;
    bool print_stats; /* of each row by itself */
    int precision;    /* significant digits; 0: as many as the number needs */
    bool has_sink, has_beta;
    float sink, beta; /* of every row */
    int64_t position; /* of the next batch's first row */
    float *betas;     /* as many times the same one as the longest batch has rows */
    size_t betas_capacity;
    row_values row; /* the one that was read last */
    row_batch batch;
    float *probabilities; /* [policy][rows][n] of the batch */
    size_t probabilities_capacity;
    bool not_finite_seen;
} softmax_work;

static void print_probabilities(const float *values, size_t n, int precision) {
    int digits = precision ? precision : PROBABILITY_DIGITS;
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            putchar(' ');
        if (isnan(values[i]))
            fputs("nan", stdout); /* and never "-nan" */
        else
            printf("%.*g", digits, (double)values[i]);
    }
    putchar('\n');
}

static void print_member(const char *name, double value, int precision) {
    printf(", \"%s\": ", name);
    if (precision && isfinite(value))
        printf("%.*g", precision, value);
    else
        json_number(stdout, value);
}

/* policy NULL: there is only one, which need not be named. */
static void print_stats(const whet_stats *stats, const char *policy, int precision) {
    putchar('{');
    if (policy) {
        fputs("\"policy\": ", stdout);
        json_text(stdout, policy);
        fputs(", ", stdout);
    }
    printf("\"n\": %" PRIu64, stats->n);
    print_member("entropy", stats->entropy, precision);
    print_member("entropy_after", stats->entropy_after, precision);
    print_member("beta", stats->beta, precision);
    print_member("max_prob", stats->max_prob, precision);
    print_member("logsumexp", stats->logsumexp, precision);
    print_member("min", stats->min, precision);
    if (stats->argmax == UINT64_MAX)
        fputs(", \"argmax\": null", stdout);
    else
        printf(", \"argmax\": %" PRIu64, stats->argmax);
    print_member("sink_share", stats->sink_share, precision);
    if (stats->flags & WHET_ROW_CAPPED)
        fputs(", \"capped\": true", stdout);
    if (stats->flags & WHET_ROW_EMPTY)
        fputs(", \"empty\": true", stdout);
    if (stats->flags & WHET_ROW_NOT_FINITE)
        fputs(", \"not_finite\": true", stdout);
    fputs("}\n", stdout);
}

static bool reserve_floats(float **values, size_t *capacity, size_t count) {
    float *grown = lab_grow(*values, sizeof *grown, count, capacity);
    if (grown)
        *values = grown;
    return grown != NULL;
}

/* Names the batch's row in a message: "rows.csv:3" or "rows.npy: row 3". */
static void complain_of_row(const row_source *source, const row_batch *batch, size_t row,
                            const char *message) {
    complain(source->how.format == FORMAT_NPY ? "%s: row %zu: %s" : "%s:%zu: %s", source->path,
             batch->numbers[row], message);
}

static void note_not_finite(softmax_work *work, const row_source *source, size_t row) {
    if (!work->not_finite_seen)
        complain_of_row(source, &work->batch, row,
                        "the row holds nan or +inf, so its result is nan "
                        "(further such rows are not reported)");
    work->not_finite_seen = true;
}

/* NULL: there is only one policy, which need not be named. */
static const char *shown_name(const softmax_work *work, size_t policy) {
    return work->policies.count > 1 ? work->policies.names[policy] : NULL;
}

/* The batch under one policy: statistics are printed, probabilities kept in their place. */
static whet_status apply_policy(softmax_work *work, size_t policy, size_t *first_bad) {
    const row_batch *batch = &work->batch;
    whet_stats stats = whet_stats_empty();
    whet_rows rows = {
        .size = sizeof rows,
        .rows = batch->rows,
        .n = batch->n,
        .in = batch->values,
        .sink = work->has_sink ? &work->sink : NULL,
        .beta = work->betas,
        .position = work->position,
        .position_stride = 1,
    };
    if (work->print_stats)
        rows.stats = &stats; /* of the only row */
    else
        rows.out = work->probabilities + policy * batch->rows * batch->n;
    whet_status (*function)(const whet_rows *, const whet_policy *, size_t *) =
        work->print_stats ? whet_entropy : whet_softmax;
    whet_status status = function(&rows, &work->policies.policies[policy], first_bad);
    if (work->print_stats && (status == WHET_OK || status == WHET_NOT_FINITE))
        print_stats(&stats, shown_name(work, policy), work->precision);
    return status;
}

static bool make_betas(softmax_work *work, size_t count) {
    if (!work->has_beta)
        return true;
    if (!reserve_floats(&work->betas, &work->betas_capacity, count))
        return false;
    for (size_t i = 0; i < count; i++)
        work->betas[i] = work->beta;
    return true;
}

static void print_batch(const softmax_work *work) {
    const row_batch *batch = &work->batch;
    for (size_t row = 0; row < batch->rows; row++)
        for (size_t policy = 0; policy < work->policies.count; policy++) {
            const char *name = shown_name(work, policy);
            if (name)
                printf("%s\t", name);
            size_t place = (policy * batch->rows + row) * batch->n;
            print_probabilities(work->probabilities + place, batch->n, work->precision);
        }
}

static int answer_batch(softmax_work *work, const row_source *source) {
    row_batch *batch = &work->batch;
    if (batch->rows == 0)
        return STATUS_OK;
    /* The batch is in memory: only the number of policies can make the product overflow. */
    size_t each = batch->rows * batch->n;
    if (!work->print_stats && (work->policies.count > SIZE_MAX / (each + 1) ||
                               !reserve_floats(&work->probabilities, &work->probabilities_capacity,
                                               work->policies.count * each)))
        return complain_of_memory();
    if (!make_betas(work, batch->rows))
        return complain_of_memory();
    size_t first_bad = SIZE_MAX;
    for (size_t i = 0; i < work->policies.count; i++) {
        size_t bad = SIZE_MAX;
        whet_status status = apply_policy(work, i, &bad);
        if (status == WHET_NOT_FINITE) {
            first_bad = bad < first_bad ? bad : first_bad;
        } else if (status != WHET_OK) {
            complain_of_row(source, batch, 0, whet_status_text(status));
            return STATUS_FAILED;
        }
    }
    if (first_bad < batch->rows)
        note_not_finite(work, source, first_bad);
    if (!work->print_stats)
        print_batch(work);
    work->position += (int64_t)batch->rows;
    batch->rows = 0;
    return ferror(stdout) ? STATUS_FAILED : STATUS_OK; /* main() tells what went wrong */
}

/* The row that was read last joins the batch, or begins another. */
static int add_to_batch(softmax_work *work, const row_source *source) {
    row_batch *batch = &work->batch;
    const row_values *row = &work->row;
    int status = batch->n == row->n ? STATUS_OK : answer_batch(work, source);
    if (status != STATUS_OK)
        return status;
    if (batch->rows == 0)
        batch->n = row->n;
    size_t *numbers =
        lab_grow(batch->numbers, sizeof *numbers, batch->rows + 1, &batch->numbers_capacity);
    if (!numbers)
        return complain_of_memory();
    batch->numbers = numbers;
    if (!reserve_floats(&batch->values, &batch->capacity, (batch->rows + 1) * row->n))
        return complain_of_memory();
    if (row->n > 0)
        memcpy(batch->values + batch->rows * row->n, row->values, row->n * sizeof *row->values);
    batch->numbers[batch->rows++] = row->number;
    return STATUS_OK;
}

static int complain_of_input(const row_source *source, row_result result, const row_error *error) {
    switch (result) {
    case ROW_MALFORMED:
        if (error->line > 0 && error->column == 0)
            complain("%s:%zu: %s", source->path, error->line, error->message);
        else if (error->line > 0)
            complain("%s:%zu:%zu: %s", source->path, error->line, error->column, error->message);
        else
            complain("%s: %s", source->path, error->message);
        return STATUS_MISUSE;
    case ROW_READ_FAILED:
        return report_unreadable(source->path, errno);
    case ROW_NO_MEMORY:
        return complain_of_memory();
    case ROW_WRITE_FAILED: /* main() says why */
    case ROW_PARSED:
    case ROW_NONE:
        break;
    }
    return STATUS_FAILED;
}

static int answer_rows(softmax_work *work, row_source *source) {
    for (;;) {
        row_error error;
        row_result result = next_row(source, &work->row, &error);
        int status = STATUS_OK;
        if (result == ROW_PARSED)
            status = add_to_batch(work, source);
        /* Nobody waits for an answer while the next row is in memory. */
        if (status == STATUS_OK &&
            (result != ROW_PARSED || work->print_stats || !has_row(source))) {
            int reason = errno;
            status = answer_batch(work, source);
            errno = status == STATUS_OK ? reason : errno;
        }
        if (status != STATUS_OK || result == ROW_NONE)
            return status;
        if (result != ROW_PARSED)
            return complain_of_input(source, result, &error);
    }
}

static int answer_file(softmax_work *work, const char *path) {
    bool is_standard_input = strcmp(path, "-") == 0;
    int descriptor = is_standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return report_unreadable(path, errno);
    }
    row_source source =
        open_row_source(is_standard_input ? "<stdin>" : path, descriptor, stdout, &work->reading);
    int status = answer_rows(work, &source);
    int reason = errno; /* main() may have to tell it */
    close_row_source(&source);
    if (!is_standard_input)
        close(descriptor);
    errno = reason;
    return status;
}

static int answer_files(softmax_work *work, int count, char **paths) {
    if (count == 0)
        return answer_file(work, "-");
    for (int i = 0; i < count; i++) {
        int status = answer_file(work, paths[i]);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* What the command line asks for. */
typedef struct softmax_options {
    text_list names;
    const char *format, *max_line; /* NULL: not given */
    bool print_stats, has_header, skip_comments;
    double sink, beta; /* NaN: not given */
    option_range position, precision;
} softmax_options;

/* A given beta takes the place of the policy's: with a temperature there would be two. */
static int check_betas(const softmax_work *work) {
    const float logit = 0;
    whet_stats stats;
    const whet_rows rows = {
        .size = sizeof rows, .rows = 1, .n = 1, .in = &logit, .stats = &stats, .beta = &work->beta};
    for (size_t i = 0; work->has_beta && i < work->policies.count; i++)
        if (whet_entropy(&rows, &work->policies.policies[i], NULL) != WHET_OK) {
            complain("--beta: the policy '%s' sets its own beta; use softmax or a map",
                     work->policies.names[i]);
            return STATUS_MISUSE;
        }
    return STATUS_OK;
}

/* A number that a float can hold. */
static bool is_float(double value) { return fabs(value) <= (double)FLT_MAX; }

static int set_extras(softmax_work *work, const softmax_options *given) {
    work->has_sink = !isnan(given->sink);
    work->has_beta = !isnan(given->beta);
    if (work->has_sink && !is_float(given->sink))
        return refuse_range("sink", given->sink, "that of 32-bit floats, -3.4e38 to 3.4e38");
    if (work->has_beta && !(given->beta >= 0 && given->beta <= BETA_MAX))
        return refuse_range("beta", given->beta, "0 to 1e30");
    work->sink = work->has_sink ? (float)given->sink : 0;
    work->beta = work->has_beta ? (float)given->beta : 1;
    work->position = (int64_t)given->position.value;
    return STATUS_OK;
}

static const char *const formats[] = {"auto", "text", "csv", "npy", "json", NULL};

static int set_reading(row_reading *reading, const softmax_options *given) {
    *reading = (row_reading){.has_header = given->has_header,
                             .skip_comments = given->skip_comments,
                             .limit = LINE_LIMIT_DEFAULT};
    if (given->format)
        find_row_format(given->format, &reading->format); /* "auto" is none of its names */
    return choose_line_limit(given->max_line, &reading->limit) ? STATUS_OK : STATUS_MISUSE;
}

static int run(const softmax_options *given, int file_count, char **files) {
    static const char *const plain[] = {"softmax"};
    softmax_work work = {.print_stats = given->print_stats,
                         .precision = (int)given->precision.value};
    const text_list *names = &given->names;
    int status = set_extras(&work, given);
    if (status == STATUS_OK)
        status = set_reading(&work.reading, given);
    if (status == STATUS_OK)
        status = make_policy_list(names->count ? names->items : plain,
                                  names->count ? names->count : 1, &work.policies);
    if (status == STATUS_OK)
        status = check_betas(&work);
    if (status == STATUS_OK)
        status = answer_files(&work, file_count, files);
    int reason = errno;
    free(work.row.values);
    free(work.batch.values);
    free(work.batch.numbers);
    free(work.probabilities);
    free(work.betas);
    free_policy_list(&work.policies);
    errno = reason;
    return status == STATUS_OK && work.not_finite_seen ? STATUS_FAILED : status;
}

int command_softmax(int argc, char **argv) {
    softmax_options given = {.sink = NAN,
                             .beta = NAN,
                             .position = {0, 0, POSITION_MAX},
                             .precision = {0, 1, PRECISION_MAX}};
    const option_spec options[] = {
        {"policy", OPTION_LIST, &given.names, "NAME",
         "policy: a temperature, a map or TEMPERATURE+MAP (see 'whet policies'; default softmax); "
         "may be repeated: each row then gives one line per policy, which starts with the policy's "
         "name and a tab",
         .values = VALUE_WORD, .words = policy_words()},
        {"stats", OPTION_FLAG, &given.print_stats, NULL,
         "print statistics instead of probabilities, a JSON object per row: n, entropy and "
         "entropy_after in nats, beta, max_prob, logsumexp, min, argmax (counted from 0), "
         "sink_share (coefficient of the first entry; not related to --sink); null where "
         "undefined. Further members: \"policy\" with several policies, and \"capped\", \"empty\" "
         "or \"not_finite\" where true"},
        {"sink", OPTION_NUMBER, &given.sink, "X",
         "logit of a sink: an entry added to every row, which counts in entropy and normalisation "
         "but is not printed"},
        {"beta", OPTION_NUMBER, &given.beta, "X",
         "inverse temperature of every row, from 0 to 1e30, for policies without a temperature of "
         "their own: softmax, or a map by itself"},
        {"position", OPTION_RANGE, &given.position, "P",
         "token position of the first row (default 0), for policies such as llama4; it increases "
         "by one per row"},
        {"precision", OPTION_RANGE, &given.precision, "N",
         "significant digits to print, 1 to 17 (default: 9 for probabilities; for statistics, as "
         "many as reading back the same number needs)"},
        {"input-format", OPTION_CHOICE, &given.format, "NAME",
         "format of the input: {} (default auto: by the first bytes, then the file's name)",
         .aliases = "format", .values = VALUE_WORD, .words = formats},
        {"header", OPTION_FLAG, &given.has_header, NULL,
         "skip the first line of each file, and lines that start with '#'; for text and CSV"},
        {"comments", OPTION_FLAG, &given.skip_comments, NULL,
         "skip lines that start with '#'; for text and CSV"},
        {"max-line", OPTION_TEXT, &given.max_line, "SIZE",
         "longest line, row or Fortran-ordered array in bytes, with K, M or G (default 64M)"},
    };
    const command_syntax syntax = {
        .name = "softmax",
        .operands = "[FILE...]",
        .about = "Reads rows of numbers from the files or from standard input (also as '-') and\n"
                 "prints each row's probabilities on a line. -inf masks an entry; a row of no\n"
                 "entries gives an empty line.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "formats:\n"
                "  text   one row per line; numbers separated by blanks or commas\n"
                "  csv    one row per line; numbers separated by commas only, optionally in\n"
                "         double quotes\n"
                "  npy    NumPy arrays of f2, f4, f8 or integers, in either byte order, C or\n"
                "         Fortran order; the last axis holds the entries of a row\n"
                "  json   arrays of numbers; the innermost arrays are the rows, and several\n"
                "         values may follow one another (JSON lines)\n"
                "Numbers are rounded to 32-bit floats; one beyond their range is an error.\n"
                "\n"
                "A line that cannot be read is reported as FILE:LINE:COLUMN and ends the run;\n"
                "none of that line is printed. A row that holds nan or +inf does not end the run:\n"
                "its result is nan, and later rows are processed as usual. Only the first such\n"
                "row is reported.\n"
                "\n"
                "exit status:\n"
                "  0  success\n"
                "  1  a row held nan or +inf, memory ran out, or reading or writing failed\n"
                "  2  wrong command line or input; a file that does not exist counts as such\n",
        .examples = "echo 1 2 3 4 | whet softmax\n"
                    "whet softmax --policy softmax --policy adaptive --stats rows.csv\n"
                    "whet softmax --header --precision 4 logits.csv\n"
                    "whet softmax --policy adaptive logits.npy\n"
                    "echo 1 2 3 4 | whet softmax --policy adaptive+entmax15 --sink 0\n",
        .operands_limit = INT_MAX,
        .operand_values = VALUE_FILE,
        .reads_input = true,
    };
    int file_count = 0;
    options_result result = parse_options(&syntax, argc, argv, &file_count);
    int status =
        result == OPTIONS_GIVEN ? run(&given, file_count, argv + 1) : options_status(result);
    free(given.names.items);
    return status;
}
