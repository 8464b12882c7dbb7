/*
 * The experiment on CLRS-Text as a table: for each algorithm and arm the share of
 * exact answers within the lengths of training, a little beyond, and far beyond.
 */
#include "report/clrs.h"

#include "base/table.h"
#include "report/html.h"
#include "report/results.h"

#include <math.h>
#include <string.h>

/* A column: the mean over lengths from one to another, inside training or beyond it. */
typedef struct column {
    char title[32];
    json_int_t from, to;
} column;

enum { COLUMNS_MAX = 8 };

/* Inside; the rest up to 16; and each longer length by itself. */
static size_t columns_of(const json_t *result, column columns[COLUMNS_MAX]) {
    const json_t *lengths = json_object_get(json_object_get(result, "training"), "lengths");
    const json_t *rows =
        json_object_get(json_array_get(json_object_get(result, "arms"), 0), "rows");
    json_int_t from = json_integer_value(json_array_get(lengths, 0));
    json_int_t to = json_integer_value(json_array_get(lengths, 1));
    size_t count = 0, i;
    const json_t *row;
    columns[count++] = (column){.from = from, .to = to};
    if (to < 16)
        columns[count++] = (column){.from = to + 1, .to = 16};
    json_array_foreach(rows, i, row) {
        json_int_t length = json_integer_value(json_object_get(row, "length"));
        if (length > 16 && length > to && count < COLUMNS_MAX && columns[count - 1].to < length)
            columns[count++] = (column){.from = length, .to = length};
    }
    for (i = 0; i < count; i++) {
        if (columns[i].from == columns[i].to)
            snprintf(columns[i].title, sizeof columns[i].title, "%lld", (long long)columns[i].from);
        else
            snprintf(columns[i].title, sizeof columns[i].title, "%lld-%lld",
                     (long long)columns[i].from, (long long)columns[i].to);
    }
    return count;
}

static double mean_in(const json_t *arm, const char *algorithm, const column *in,
                      const char *measure) {
    double sum = 0;
    size_t i, count = 0;
    const json_t *row;
    json_array_foreach(json_object_get(arm, "rows"), i, row) {
        const char *name = json_string_value(json_object_get(row, "algorithm"));
        json_int_t length = json_integer_value(json_object_get(row, "length"));
        double value = results_value(row, measure, "mean");
        if (!name || strcmp(name, algorithm) != 0 || length < in->from || length > in->to ||
            !isfinite(value))
            continue;
        sum += 100 * value;
        count++;
    }
    return count ? sum / (double)count : (double)NAN;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* "name of length, ...", what no model was asked because it exceeds its context; nothing
 * where there is none of it. */
static void write_unasked(FILE *file, const json_t *result, const char *before, const char *after) {
    const json_t *row;
    size_t i, count = 0;
    const json_t *first = json_array_get(json_object_get(result, "arms"), 0);
    json_array_foreach(json_object_get(first, "rows"), i, row) {
        if (isfinite(results_value(row, "exact", "mean")))
            continue;
        fprintf(file, "%s%s of %lld", count++ ? ", " : before, text_of(row, "algorithm"),
                (long long)json_integer_value(json_object_get(row, "length")));
    }
    if (count)
        fputs(after, file);
}

bool clrs_print(FILE *file, const json_t *result) {
    column columns[COLUMNS_MAX];
    const char *names[CLRS_NAMES_MAX];
    size_t column_count = columns_of(result, columns), count = clrs_algorithms_of(result, names), i;
    const json_t *arm;
    lab_table table = lab_table_start(column_count + 3);
    lab_table_add(&table, "exact answers, %%");
    lab_table_add(&table, "trained with");
    lab_table_add(&table, "at inference");
    for (size_t c = 0; c < column_count; c++)
        lab_table_add(&table, "%s", columns[c].title);
    for (size_t n = 0; n < count; n++)
        json_array_foreach(json_object_get(result, "arms"), i, arm) {
            lab_table_add(&table, "%s", names[n]);
            lab_table_add(&table, "%s", text_of(arm, "trained"));
            lab_table_add(&table, "%s", text_of(arm, "policy"));
            for (size_t c = 0; c < column_count; c++) {
                double value = mean_in(arm, names[n], &columns[c], "exact");
                if (isfinite(value))
                    lab_table_add(&table, "%.1f", value);
                else
                    lab_table_add(&table, "-");
            }
        }
    bool good = lab_table_finish(&table, file);
    write_unasked(file, result,
                  "not asked, since the questions are longer than the model's context: ", "\n");
    return good;
}

/* ---- HTML ---- */

static void write_row(FILE *file, const json_t *arm, const char *algorithm, bool is_first,
                      const column *columns, size_t column_count) {
    fputs("<tr><th scope=\"row\">", file);
    html_text(file, is_first ? algorithm : "");
    fputs("</th><td style=\"text-align:left\">", file);
    html_text(file, text_of(arm, "name"));
    fputs("</td>", file);
    for (size_t c = 0; c < column_count; c++) {
        double exact = mean_in(arm, algorithm, &columns[c], "exact");
        double final = mean_in(arm, algorithm, &columns[c], "final");
        if (!isfinite(exact))
            fputs("<td>&ndash;</td>", file);
        else if (final - exact >= 0.05)
            fprintf(file, "<td>%.1f<small>final %.1f</small></td>", exact, final);
        else
            fprintf(file, "<td>%.1f</td>", exact);
    }
    fputs("</tr>\n", file);
}

static void write_note(FILE *file, const json_t *result) {
    const json_t *training = json_object_get(result, "training");
    const json_t *shape = json_object_get(result, "shape");
    const json_t *lengths = json_object_get(training, "lengths");
    long long seeds = (long long)json_integer_value(json_object_get(result, "seeds"));
    fprintf(file,
            "<p class=\"note\">Per cent, means over the lengths in the heading; the first column "
            "is the lengths of training. %lld parameters in %lld layers of width %lld, %lld steps "
            "of %lld sequences of lengths %lld to %lld, %lld seed%s; %lld questions an algorithm "
            "and length, the same for every arm. With steps asked for, <em>exact</em> is the whole "
            "trace and <em>final</em> what follows it.</p>\n",
            (long long)json_integer_value(json_object_get(result, "parameters")),
            (long long)json_integer_value(json_object_get(shape, "layers")),
            (long long)json_integer_value(json_object_get(shape, "width")),
            (long long)json_integer_value(json_object_get(training, "steps")),
            (long long)(json_integer_value(json_object_get(training, "batch")) *
                        json_integer_value(json_object_get(training, "accumulate"))),
            (long long)json_integer_value(json_array_get(lengths, 0)),
            (long long)json_integer_value(json_array_get(lengths, 1)), seeds, seeds == 1 ? "" : "s",
            (long long)json_integer_value(json_object_get(result, "samples")));
    write_unasked(file, result,
                  "<p class=\"note\">Not asked, since the questions are longer than the model's "
                  "context: ",
                  ".</p>\n");
}

void clrs_html(FILE *file, const json_t *result) {
    column columns[COLUMNS_MAX];
    const char *names[CLRS_NAMES_MAX];
    size_t column_count = columns_of(result, columns), count = clrs_algorithms_of(result, names), i;
    const json_t *arm;
    html_table_begin(file);
    fputs("<thead><tr><th scope=\"col\">algorithm</th>"
          "<th scope=\"col\">policy</th>",
          file);
    for (size_t c = 0; c < column_count; c++) {
        fputs("<th scope=\"col\">", file);
        html_text(file, columns[c].title);
        fputs("</th>", file);
    }
    fputs("</tr></thead>\n<tbody>\n", file);
    for (size_t n = 0; n < count; n++)
        json_array_foreach(json_object_get(result, "arms"), i, arm) {
            write_row(file, arm, names[n], i == 0, columns, column_count);
        }
    fputs("</tbody>\n", file);
    html_table_end(file);
    write_note(file, result);
}
