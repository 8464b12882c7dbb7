/*
 * `whet softmax`: rows of numbers in, probabilities or statistics out. A line is
 * read and parsed as a whole before anything of it is printed, so that a row
 * with a mistake in it leaves nothing behind but the message; rows before it
 * have been answered.
 */
#define _POSIX_C_SOURCE 200809L

#include "commands.h"
#include "json.h"
#include "messages.h"
#include "options.h"
#include "parse_rows.h"
#include "policy_list.h"
#include "read_lines.h"
#include "whet.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What lasts from row to row. */
typedef struct softmax_work {
    policy_list policies;
    bool print_stats;
    row_values row;
    float *probabilities; /* room for row.capacity of them */
    size_t probabilities_capacity;
    bool not_finite_seen;
} softmax_work;

static void print_probabilities(const float *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            putchar(' ');
        if (isnan(values[i]))
            fputs("nan", stdout); /* and never "-nan" */
        else
            printf("%.9g", (double)values[i]);
    }
    putchar('\n');
}

static void print_member(const char *name, double value) {
    printf(", \"%s\": ", name);
    json_number(stdout, value);
}

/* policy NULL: there is only one, which need not be named. */
static void print_stats(const whet_stats *stats, const char *policy) {
    putchar('{');
    if (policy) {
        fputs("\"policy\": ", stdout);
        json_text(stdout, policy);
        fputs(", ", stdout);
    }
    printf("\"n\": %" PRIu64, stats->n);
    print_member("entropy", stats->entropy);
    print_member("entropy_after", stats->entropy_after);
    print_member("beta", stats->beta);
    print_member("max_prob", stats->max_prob);
    print_member("logsumexp", stats->logsumexp);
    if (stats->flags & WHET_ROW_CAPPED)
        fputs(", \"capped\": true", stdout);
    if (stats->flags & WHET_ROW_EMPTY)
        fputs(", \"empty\": true", stdout);
    if (stats->flags & WHET_ROW_NOT_FINITE)
        fputs(", \"not_finite\": true", stdout);
    fputs("}\n", stdout);
}

static bool make_room(softmax_work *work) {
    if (work->probabilities_capacity >= work->row.capacity)
        return true;
    float *probabilities = realloc(work->probabilities, work->row.capacity * sizeof *probabilities);
    if (!probabilities)
        return false;
    work->probabilities = probabilities;
    work->probabilities_capacity = work->row.capacity;
    return true;
}

/* One row under one policy. */
static whet_status apply_policy(softmax_work *work, size_t policy) {
    const char *name = work->policies.count > 1 ? work->policies.names[policy] : NULL;
    whet_stats stats = whet_stats_empty();
    whet_rows rows = {
        .size = sizeof rows,
        .rows = 1,
        .n = work->row.n,
        .in = work->row.values,
        .out = work->probabilities,
        .stats = &stats,
    };
    whet_status (*function)(const whet_rows *, const whet_policy *, size_t *) =
        work->print_stats ? whet_entropy : whet_softmax;
    whet_status status = function(&rows, &work->policies.policies[policy], NULL);
    if (status != WHET_OK && status != WHET_NOT_FINITE)
        return status;
    if (work->print_stats) {
        print_stats(&stats, name);
    } else {
        if (name)
            printf("%s\t", name);
        print_probabilities(work->probabilities, work->row.n);
    }
    return status;
}

static void note_not_finite(softmax_work *work, const char *file, size_t line_number) {
    if (!work->not_finite_seen)
        complain("%s:%zu: the row holds nan or +inf, so its result is nan "
                 "(further such rows are not reported)",
                 file, line_number);
    work->not_finite_seen = true;
}

/* One line of input, already read. */
static int answer_line(softmax_work *work, const char *file, size_t line_number, const char *line,
                       size_t length) {
    row_error error;
    switch (parse_row(line, length, &work->row, &error)) {
    case ROW_MALFORMED:
        complain("%s:%zu:%zu: %s", file, line_number, error.column, error.message);
        return STATUS_MISUSE;
    case ROW_NO_MEMORY:
        return complain_of_memory();
    case ROW_PARSED:
        break;
    }
    if (!work->print_stats && !make_room(work))
        return complain_of_memory();
    for (size_t i = 0; i < work->policies.count; i++) {
        whet_status status = apply_policy(work, i);
        if (status == WHET_NOT_FINITE) {
            note_not_finite(work, file, line_number);
        } else if (status != WHET_OK) {
            complain("%s:%zu: %s", file, line_number, whet_status_text(status));
            return STATUS_FAILED;
        }
    }
    return ferror(stdout) ? STATUS_FAILED : STATUS_OK; /* main() tells what went wrong */
}

static int answer_lines(softmax_work *work, const char *file, line_reader *reader) {
    for (;;) {
        const char *line;
        size_t length;
        int status;
        switch (read_line(reader, &line, &length)) {
        case LINE_READ:
            status = answer_line(work, file, reader->line_number, line, length);
            if (status != STATUS_OK)
                return status;
            break;
        case LINE_NONE:
            return STATUS_OK;
        case LINE_READ_FAILED:
            complain("%s: %s", file, strerror(errno));
            return STATUS_MISUSE;
        case LINE_WRITE_FAILED:
            return STATUS_FAILED;
        case LINE_OUT_OF_MEMORY:
            return complain_of_memory();
        }
    }
}

static int answer_file(softmax_work *work, const char *path) {
    bool is_standard_input = strcmp(path, "-") == 0;
    line_reader reader = {.descriptor = STDIN_FILENO, .output = stdout};
    if (!is_standard_input) {
        reader.descriptor = open(path, O_RDONLY);
        if (reader.descriptor < 0) {
            complain("%s: %s", path, strerror(errno));
            return STATUS_MISUSE;
        }
    }
    int status = answer_lines(work, is_standard_input ? "<stdin>" : path, &reader);
    int reason = errno; /* main() may have to tell it */
    free(reader.buffer);
    if (!is_standard_input)
        close(reader.descriptor);
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

static int run(const text_list *names, bool print_stats_wanted, int file_count, char **files) {
    static const char *const plain[] = {"softmax"};
    softmax_work work = {.print_stats = print_stats_wanted};
    int status = make_policy_list("softmax", names->count ? names->items : plain,
                                  names->count ? names->count : 1, &work.policies);
    if (status == STATUS_OK)
        status = answer_files(&work, file_count, files);
    int reason = errno;
    free(work.row.values);
    free(work.probabilities);
    free_policy_list(&work.policies);
    errno = reason;
    return status == STATUS_OK && work.not_finite_seen ? STATUS_FAILED : status;
}

int command_softmax(int argc, char **argv) {
    text_list names = {0};
    bool stats_wanted = false;
    const option_spec options[] = {
        {"policy", OPTION_LIST, &names, "NAME",
         "how to sharpen (see 'whet policies'); the default is softmax. Given several times, each "
         "row is answered once for each policy, with the policy's name and a tab in front"},
        {"stats", OPTION_FLAG, &stats_wanted, NULL,
         "instead of probabilities print a JSON object a row: n, entropy, entropy_after, beta, "
         "max_prob, logsumexp; null where undefined. In front of them policy, where several are "
         "given; after them capped, empty or not_finite, only where true"},
    };
    const command_syntax syntax = {
        .name = "softmax",
        .operands = "[FILE...]",
        .about = "Reads rows of numbers, one row a line, separated by blanks or commas, from\n"
                 "the files or from standard input (also as '-'), and prints each row's\n"
                 "probabilities. -inf masks an entry; an empty line is a row of no entries and\n"
                 "gives an empty line.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "A line that cannot be read is reported as FILE:LINE:COLUMN and ends the run:\n"
                "nothing of it is printed. A row with nan or +inf does not: it gives nan, the\n"
                "first one is reported, and the rows after it are answered as usual.\n"
                "\n"
                "exit status: 0 if all is well; 1 if a row held nan or +inf, or if memory ran\n"
                "out or writing failed; 2 for a wrong command line or input.\n"
                "\n"
                "examples:\n"
                "  echo 1 2 3 4 | whet softmax\n"
                "  whet softmax --policy softmax --policy adaptive --stats rows.csv\n",
        .operands_limit = INT_MAX,
    };
    int file_count = 0;
    options_result result = parse_options(&syntax, argc, argv, &file_count);
    int status = result == OPTIONS_GIVEN ? run(&names, stats_wanted, file_count, argv + 1)
                                         : options_status(result);
    free(names.items);
    return status;
}
