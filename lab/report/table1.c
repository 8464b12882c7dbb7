/* Rows of Table 1 from an evaluation; see table1.h. */
#include "report/table1.h"
#include "base/table.h"
#include "report/html.h"
#include "report/published.h"
#include "report/results.h"
#include <math.h>

static const char *const policies[] = {"softmax", "adaptive"};
enum { POLICIES = 2 };

static double published_value(const published_size *size, size_t policy) {
    return policy == 0 ? size->softmax : size->adaptive;
}

/* Per cent, its standard error, and the variance of single heads. */
typedef struct share {
    double mean, error, variance;
} share;

static double variance_of_heads(const json_t *heads) {
    double count = (double)json_array_size(heads), sum = 0, squares = 0;
    size_t i;
    const json_t *head;
    json_array_foreach(heads, i, head) sum += results_value(head, "accuracy", "mean");
    json_array_foreach(heads, i, head) {
        double off = results_value(head, "accuracy", "mean") - sum / count;
        squares += off * off;
    }
    return count > 1 ? squares / (count - 1) : 0;
}

static share ours(const json_t *evaluation, size_t policy, double n) {
    const json_t *row = results_row(evaluation, policies[policy], n);
    return (share){100 * results_value(row, "accuracy", "mean"),
                   100 * results_value(row, "accuracy", "error"),
                   1e4 * variance_of_heads(json_object_get(row, "heads"))};
}

static size_t seeds_of(const json_t *evaluation) {
    return (size_t)json_integer_value(json_object_get(evaluation, "seeds"));
}

bool table1_print(FILE *file, const json_t *evaluation) {
    results_axes axes = results_axes_of(evaluation);
    lab_table table = lab_table_start(axes.size_count + 1);
    lab_table_add(&table, "accuracy, %%");
    for (size_t s = 0; s < axes.size_count; s++) {
        const published_size *size = published_at(axes.sizes[s]);
        lab_table_add(&table, "%.0f%s", axes.sizes[s], size && !size->is_certain ? "*" : "");
    }
    for (size_t p = 0; p < POLICIES; p++) {
        lab_table_add(&table, "%s, ours", policies[p]);
        for (size_t s = 0; s < axes.size_count; s++) {
            share value = ours(evaluation, p, axes.sizes[s]);
            if (isfinite(value.mean))
                lab_table_add(&table, "%.1f", value.mean);
            else
                lab_table_add(&table, "-");
        }
        lab_table_add(&table, "  published");
        for (size_t s = 0; s < axes.size_count; s++) {
            const published_size *size = published_at(axes.sizes[s]);
            if (size)
                lab_table_add(&table, "%.1f", published_value(size, p));
            else
                lab_table_add(&table, "-");
        }
    }
    if (!lab_table_finish(&table, file))
        return false;
    fprintf(file, "Ours: %s%zu head%s. Published figures at sizes with * are uncertain.\n",
            seeds_of(evaluation) == 1 ? "" : "mean of ", seeds_of(evaluation),
            seeds_of(evaluation) == 1 ? "" : "s");
    return true;
}

static void html_row(FILE *file, const json_t *evaluation, const results_axes *axes, size_t p) {
    fprintf(file, "<tr><th scope=\"row\">%s, ours</th>", policies[p]);
    for (size_t s = 0; s < axes->size_count; s++) {
        share value = ours(evaluation, p, axes->sizes[s]);
        if (isfinite(value.mean))
            fprintf(file, "<td>%.1f<small>&plusmn;%.1f</small></td>", value.mean,
                    1.96 * value.error);
        else
            fputs("<td>&ndash;</td>", file);
    }
    fputs("</tr>\n<tr class=\"published\"><th scope=\"row\">published</th>", file);
    for (size_t s = 0; s < axes->size_count; s++) {
        const published_size *size = published_at(axes->sizes[s]);
        if (size)
            fprintf(file, "<td%s>%.1f</td>", size->is_certain ? " class=\"certain\"" : "",
                    published_value(size, p));
        else
            fputs("<td>&ndash;</td>", file);
    }
    fputs("</tr>\n", file);
}

void table1_html(FILE *file, const json_t *evaluation) {
    results_axes axes = results_axes_of(evaluation);
    html_table_begin(file);
    fputs("<thead><tr><th scope=\"col\">n</th>", file);
    for (size_t s = 0; s < axes.size_count; s++) {
        const published_size *size = published_at(axes.sizes[s]);
        fprintf(file, "<th scope=\"col\">%.0f%s</th>", axes.sizes[s],
                size && !size->is_certain ? "*" : "");
    }
    fputs("</tr></thead>\n<tbody>\n", file);
    for (size_t p = 0; p < POLICIES; p++)
        html_row(file, evaluation, &axes, p);
    fputs("</tbody>\n", file);
    html_table_end(file);
    fprintf(file,
            "<p class=\"note\">Ours: %zu head%s, %lld sets of each size; &plusmn; is half of a "
            "95&nbsp;%% interval over %s. Published: mean of ten heads.<br>* Published figures at "
            "512, 1,024 and 2,048 items are cross-checked; those at the other sizes were noted "
            "from memory and are uncertain.</p>\n",
            seeds_of(evaluation), seeds_of(evaluation) == 1 ? "" : "s",
            (long long)json_integer_value(json_object_get(evaluation, "sets")),
            seeds_of(evaluation) == 1 ? "sets (seeds differ by 3 to 6 points from 512 to 4,096)"
                                      : "seeds and sets");
}

/* One of our figures beside the published one. */
typedef struct comparison {
    share ours;
    double published, off; /* per cent, points */
    double error;          /* standard error of the difference */
    bool is_certain, is_beyond;
} comparison;

/*
 * The published figures are means of ten seeds and have errors like ours, which are not published:
 * they are taken to be what ours would be with ten seeds. One seed says nothing about seeds; then
 * the error is that of our sets.
 */
static double error_of_difference(share ours, double seeds) {
    double own = ours.error * ours.error;
    double published = seeds > 1 ? own + ours.variance * (1.0 / 10 - 1 / seeds) : 0;
    return sqrt(own + fmax(0, published));
}

/* False where there is nothing to compare. */
static bool compare(const json_t *evaluation, size_t policy, double n, comparison *to) {
    const published_size *size = published_at(n);
    if (!size)
        return false;
    to->ours = ours(evaluation, policy, n);
    to->published = published_value(size, policy);
    to->off = to->ours.mean - to->published;
    to->error = error_of_difference(to->ours, (double)seeds_of(evaluation));
    to->is_certain = size->is_certain;
    to->is_beyond = fabs(to->off) > 2 * to->error;
    return isfinite(to->off);
}

table1_count table1_compare(const json_t *evaluation) {
    results_axes axes = results_axes_of(evaluation);
    table1_count count = {0};
    for (size_t p = 0; p < POLICIES; p++)
        for (size_t s = 0; s < axes.size_count; s++) {
            comparison c;
            if (!compare(evaluation, p, axes.sizes[s], &c))
                continue;
            count.all++;
            count.all_within += !c.is_beyond;
            count.certain += c.is_certain;
            count.certain_within += c.is_certain && !c.is_beyond;
            if (c.is_certain)
                count.certain_error = fmax(count.certain_error, c.error);
        }
    return count;
}

static void print_distances(FILE *file, const json_t *evaluation, const results_axes *axes,
                            size_t p) {
    comparison c;
    fprintf(file, "%-9s", policies[p]);
    for (size_t s = 0; s < axes->size_count; s++)
        if (compare(evaluation, p, axes->sizes[s], &c))
            fprintf(file, " %+6.1f", c.off);
    fprintf(file, "\n  errors ");
    for (size_t s = 0; s < axes->size_count; s++)
        if (compare(evaluation, p, axes->sizes[s], &c))
            fprintf(file, " %6.1f", fabs(c.off) / c.error);
    fputc('\n', file);
}

static void print_sizes(FILE *file, const results_axes *axes) {
    fprintf(file, "%-9s", "points");
    for (size_t s = 0; s < axes->size_count; s++) {
        const published_size *size = published_at(axes->sizes[s]);
        char text[32];
        snprintf(text, sizeof text, "%.0f%s", axes->sizes[s], size && !size->is_certain ? "*" : "");
        if (size)
            fprintf(file, " %6s", text);
    }
    fputc('\n', file);
}

size_t table1_check(FILE *file, const json_t *evaluation) {
    results_axes axes = results_axes_of(evaluation);
    size_t certain = 0, all = 0;
    fputs("Ours minus published in points, and in standard errors of the difference:\n", file);
    print_sizes(file, &axes);
    for (size_t p = 0; p < POLICIES; p++)
        print_distances(file, evaluation, &axes, p);
    for (size_t p = 0; p < POLICIES; p++)
        for (size_t s = 0; s < axes.size_count; s++) {
            comparison c;
            if (!compare(evaluation, p, axes.sizes[s], &c) || !c.is_beyond)
                continue;
            all++;
            certain += c.is_certain;
            fprintf(file,
                    "%s at n = %.0f: ours %.1f (standard error %.2f, of the difference %.2f), "
                    "published %.1f%s, off by %+.1f\n",
                    policies[p], axes.sizes[s], c.ours.mean, c.ours.error, c.error, c.published,
                    c.is_certain ? "" : " (uncertain)", c.off);
        }
    fprintf(file,
            "%zu figures differ from the published ones by more than two standard errors, %zu of "
            "them at sizes that are certain.\n%s\n",
            all, certain,
            seeds_of(evaluation) == 1
                ? "Errors are over sets only: one seed says nothing about the spread of seeds."
                : "Errors are over seeds and sets. Those of the published means are not known; "
                  "they are taken to be as large as ours with ten seeds.");
    return certain;
}
