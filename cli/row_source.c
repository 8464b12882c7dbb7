/* Which format a file has, and its rows. */
#include "row_source.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct format_name {
    const char *name;
    row_format format;
} names[] = {
    {"text", FORMAT_TEXT}, {"csv", FORMAT_CSV},    {"npy", FORMAT_NPY},
    {"json", FORMAT_JSON}, {"jsonl", FORMAT_JSON},
};

bool find_row_format(const char *name, row_format *format) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcasecmp(names[i].name, name) == 0) {
            *format = names[i].format;
            return true;
        }
    return false;
}

row_source open_row_source(const char *path, int descriptor, FILE *output, const row_reading *how) {
    return (row_source){
        .how = *how,
        .path = path,
        .lines = {.in = {.descriptor = descriptor, .output = output}, .limit = how->limit},
        .json = {.limit = how->limit},
        .npy = {.limit = how->limit},
    };
}

void close_row_source(row_source *source) {
    free(source->lines.in.buffer);
    source->lines.in.buffer = NULL;
}

/* What the first bytes say: no line of numbers starts like .npy or JSON. */
static row_format format_by_content(const input *in) {
    size_t at = in->start;
    if (at < in->end && is_npy_start(in->buffer[at]))
        return FORMAT_NPY;
    while (at < in->end && in->buffer[at] && strchr(" \t\r\n", in->buffer[at]))
        at++;
    bool is_json = at < in->end && (in->buffer[at] == '[' || in->buffer[at] == '{');
    return is_json ? FORMAT_JSON : FORMAT_ANY;
}

/* Files with other names are text. */
static row_format format_by_name(const char *path) {
    const char *dot = strrchr(path, '.');
    row_format format = FORMAT_TEXT;
    if (dot)
        find_row_format(dot + 1, &format);
    return format;
}

/* One block is enough to tell, and waits no longer than reading the first row would. */
static row_result find_format(row_source *source) {
    input *in = &source->lines.in;
    row_result result = row_result_of(input_more(in));
    if (result != ROW_PARSED && result != ROW_NONE)
        return result;
    input_skip_mark(in);
    if (source->how.format == FORMAT_ANY)
        source->how.format = format_by_content(in);
    if (source->how.format == FORMAT_ANY)
        source->how.format = format_by_name(source->path);
    source->json.line_start = input_position(in);
    return ROW_PARSED;
}

static bool is_comment(const char *line) { return line[strspn(line, " \t")] == '#'; }

/* Whether a line is not to be read as a row. */
static bool is_skipped(row_source *source, const char *line) {
    if ((source->how.skip_comments || source->how.has_header) && is_comment(line))
        return true;
    bool is_header = source->how.has_header && !source->is_header_skipped;
    source->is_header_skipped = true;
    return is_header;
}

static row_result next_line(row_source *source, row_values *row, row_error *error) {
    const char *line;
    size_t length;
    for (;;) {
        line_result result = read_line(&source->lines, &line, &length);
        switch (result) {
        case LINE_READ:
            break;
        case LINE_NONE:
            return ROW_NONE;
        case LINE_READ_FAILED:
            return ROW_READ_FAILED;
        case LINE_WRITE_FAILED:
            return ROW_WRITE_FAILED;
        case LINE_OUT_OF_MEMORY:
            return ROW_NO_MEMORY;
        case LINE_NUL:
        case LINE_TOO_LONG:
            error->line =
                describe_bad_line(&source->lines, result, error->message, sizeof error->message);
            return ROW_MALFORMED;
        }
        if (is_skipped(source, line))
            continue;
        row->number = error->line = source->lines.line_number;
        return (source->how.format == FORMAT_CSV ? parse_csv_row : parse_row)(line, length, row,
                                                                              error);
    }
}

row_result next_row(row_source *source, row_values *row, row_error *error) {
    *error = (row_error){.line = 0};
    bool is_new = !source->lines.in.buffer;
    row_result result = is_new ? find_format(source) : ROW_PARSED;
    if (result != ROW_PARSED)
        return result;
    switch (source->how.format) {
    case FORMAT_NPY:
        return next_npy_row(&source->npy, &source->lines.in, row, error);
    case FORMAT_JSON:
        return next_json_row(&source->json, &source->lines.in, row, error);
    case FORMAT_ANY:
    case FORMAT_TEXT:
    case FORMAT_CSV:
        break;
    }
    return next_line(source, row, error);
}

bool has_row(const row_source *source) {
    switch (source->how.format) {
    case FORMAT_NPY:
        return has_npy_row(&source->npy, &source->lines.in);
    case FORMAT_JSON:
        return has_json_row(&source->lines.in);
    case FORMAT_ANY:
    case FORMAT_TEXT:
    case FORMAT_CSV:
        break;
    }
    return has_line(&source->lines);
}
