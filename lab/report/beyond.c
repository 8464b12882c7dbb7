/* A row for each recipe, a column for each policy that any of them was evaluated under. */
#include "report/beyond.h"
#include "base/table.h"
#include "report/html.h"
#include "report/results.h"
#include <math.h>
#include <string.h>

typedef struct policy_columns {
    const char *names[RESULTS_POLICIES_MAX];
    size_t count;
    double n; /* the largest size, which is what counts */
} policy_columns;

static const json_t *evaluation_of(const json_t *recipe) {
    return json_object_get(recipe, "evaluation");
}

static const char *text_of(const json_t *recipe, const char *key) {
    const char *text = json_string_value(json_object_get(recipe, key));
    return text ? text : "";
}

static policy_columns columns_of(const json_t *beyond) {
    policy_columns columns = {.count = 0};
    size_t i;
    const json_t *recipe;
    json_array_foreach(json_object_get(beyond, "recipes"), i, recipe) {
        results_axes axes = results_axes_of(evaluation_of(recipe));
        for (size_t s = 0; s < axes.size_count; s++)
            columns.n = fmax(columns.n, axes.sizes[s]);
        for (size_t p = 0; p < axes.policy_count; p++) {
            size_t at = 0;
            while (at < columns.count && strcmp(columns.names[at], axes.policies[p]) != 0)
                at++;
            if (at == columns.count && at < RESULTS_POLICIES_MAX)
                columns.names[columns.count++] = axes.policies[p];
        }
    }
    return columns;
}

static double accuracy(const json_t *recipe, const policy_columns *columns, size_t policy) {
    return 100 *
           results_value(results_row(evaluation_of(recipe), columns->names[policy], columns->n),
                         "accuracy", "mean");
}

bool beyond_print(FILE *file, const json_t *beyond) {
    policy_columns columns = columns_of(beyond);
    size_t i;
    const json_t *recipe;
    lab_table table = lab_table_start(columns.count + 2);
    lab_table_add(&table, "%% at n = %.0f", columns.n);
    lab_table_add(&table, "path");
    for (size_t p = 0; p < columns.count; p++)
        lab_table_add(&table, "%s", columns.names[p]);
    json_array_foreach(json_object_get(beyond, "recipes"), i, recipe) {
        lab_table_add(&table, "%s", text_of(recipe, "name"));
        lab_table_add(&table, "%s", text_of(recipe, "path"));
        for (size_t p = 0; p < columns.count; p++) {
            double value = accuracy(recipe, &columns, p);
            if (isfinite(value))
                lab_table_add(&table, "%.1f", value);
            else
                lab_table_add(&table, "-");
        }
    }
    if (!lab_table_finish(&table, file))
        return false;
    json_array_foreach(json_object_get(beyond, "recipes"), i, recipe) {
        fprintf(file, "%s: %s\n", text_of(recipe, "name"), text_of(recipe, "change"));
    }
    return true;
}

static void write_cell(FILE *file, const char *before, const char *text, const char *after) {
    fputs(before, file);
    html_text(file, text);
    fputs(after, file);
}

void beyond_html(FILE *file, const json_t *beyond) {
    policy_columns columns = columns_of(beyond);
    size_t i;
    const json_t *recipe;
    html_table_begin(file);
    fputs("<thead><tr><th scope=\"col\">recipe</th>"
          "<th scope=\"col\">path</th>",
          file);
    for (size_t p = 0; p < columns.count; p++)
        write_cell(file, "<th scope=\"col\">", columns.names[p], "</th>");
    fputs("</tr></thead>\n<tbody>\n", file);
    json_array_foreach(json_object_get(beyond, "recipes"), i, recipe) {
        write_cell(file, "<tr><th scope=\"row\">", text_of(recipe, "name"), "<small>");
        write_cell(file, "", text_of(recipe, "change"), "</small></th>");
        write_cell(file, "<td>", text_of(recipe, "path"), "</td>");
        for (size_t p = 0; p < columns.count; p++) {
            double value = accuracy(recipe, &columns, p);
            if (isfinite(value))
                fprintf(file, "<td>%.1f</td>", value);
            else
                fputs("<td>&ndash;</td>", file);
        }
        fputs("</tr>\n", file);
    }
    fputs("</tbody>\n", file);
    html_table_end(file);
    fprintf(file,
            "<p class=\"note\">Accuracy in per cent among %.0f items, %lld "
            "seed%s of %lld steps. Path a: the key sees the class, and hard policies do not count; "
            "path b: anything goes. The paper has 14.0 with its own rule.</p>\n",
            columns.n, (long long)json_integer_value(json_object_get(beyond, "seeds")),
            json_integer_value(json_object_get(beyond, "seeds")) == 1 ? "" : "s",
            (long long)json_integer_value(json_object_get(beyond, "steps")));
}
