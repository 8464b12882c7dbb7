/* Figures of the experiment on CLRS-Text: a panel for each algorithm; see clrs.h. */
#include "report/clrs.h"
#include "report/plot.h"
#include "report/published_clrs.h"
#include "report/results.h"

#include <math.h>
#include <string.h>

enum { ARMS_MAX = 16 };

/* What one figure shows. */
typedef struct panels {
    const json_t *result;
    const char *title;
    const char *names[CLRS_NAMES_MAX]; /* algorithms */
    size_t count;
    const json_t *arms[ARMS_MAX];
    size_t arm_count;
    const char *label; /* the member by which arms are called */
    size_t shaded;     /* arms whose intervals are shown */
    size_t columns, rows;
    int height, legend; /* pixels */
} panels;

static json_int_t length_of(const json_t *row) {
    return json_integer_value(json_object_get(row, "length"));
}

/* $data<panel>: the length, then mean, low and high of every arm. */
static void write_data(FILE *script, const panels *p, size_t panel) {
    size_t i;
    const json_t *row;
    fprintf(script, "$data%zu << END\n", panel);
    json_array_foreach(json_object_get(p->arms[0], "rows"), i, row) {
        const char *name = json_string_value(json_object_get(row, "algorithm"));
        if (!name || strcmp(name, p->names[panel]) != 0)
            continue;
        fprintf(script, "%lld", (long long)length_of(row));
        for (size_t a = 0; a < p->arm_count; a++) {
            const json_t *same = clrs_row(p->arms[a], name, length_of(row));
            fprintf(script, " %.5g %.5g %.5g", 100 * results_value(same, "exact", "mean"),
                    100 * results_value(same, "exact", "low"),
                    100 * results_value(same, "exact", "high"));
        }
        fputc('\n', script);
    }
    fputs("END\n", script);
}

/* The published curve, as far as ours goes. False where there is none. */
static bool write_published(FILE *script, const panels *p, size_t panel, json_int_t longest) {
    published_clrs_point points[PUBLISHED_CLRS_MAX];
    size_t count = published_clrs(p->names[panel], points);
    fprintf(script, "$published%zu << END\n", panel);
    for (size_t i = 0; i < count; i++)
        if (points[i].length <= longest)
            fprintf(script, "%d %.5g\n", points[i].length, 100 * points[i].tuned);
    fputs("END\n", script);
    return count > 0 && points[0].length <= longest;
}

static json_int_t longest_of(const panels *p) {
    json_int_t longest = 0;
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(p->arms[0], "rows"), i, row) {
        if (length_of(row) > longest)
            longest = length_of(row);
    }
    return longest;
}

/* Where training was, as a band behind the curves. */
static void mark_training(FILE *script, const json_t *result) {
    const json_t *lengths = json_object_get(json_object_get(result, "training"), "lengths");
    fprintf(script,
            "set object 1 rectangle from first %lld.5,graph 0 to first %lld.5,graph 1 behind "
            "fillcolor '#eeeeee' fillstyle solid noborder\n",
            (long long)json_integer_value(json_array_get(lengths, 0)) - 1,
            (long long)json_integer_value(json_array_get(lengths, 1)));
}

static void draw_panel(FILE *script, const panels *p, size_t panel) {
    json_int_t longest = longest_of(p);
    write_data(script, p, panel);
    bool has_published = write_published(script, p, panel, longest);
    fputs("set title ", script);
    plot_text(script, p->names[panel]);
    fprintf(script, " noenhanced offset 0,-0.6\nset xrange [3.5:%lld.5]\nplot ",
            (long long)longest);
    if (has_published)
        fprintf(script, "$published%zu using 1:2 with lines lc '#aaaaaa' lw 3, ", panel);
    for (size_t a = 0; a < p->shaded; a++)
        fprintf(script,
                "$data%zu using 1:%zu:%zu with filledcurves fs transparent solid 0.18 noborder ls "
                "%zu, ",
                panel, 3 + 3 * a, 4 + 3 * a, a + 1);
    for (size_t a = 0; a < p->arm_count; a++)
        fprintf(script, "%s$data%zu using 1:%zu with linespoints ls %zu", a ? ", " : "", panel,
                2 + 3 * a, a + 1);
    fputc('\n', script);
}

/* One legend for all panels, in a strip of its own below them. */
static void begin_legend(FILE *script, const panels *p) {
    fprintf(script,
            "unset object 1\nunset title\nunset xlabel\nunset ylabel\nunset tics\nunset border\n"
            "unset grid\nset lmargin at screen 0\nset rmargin at screen 1\n"
            "set bmargin at screen 0\nset tmargin at screen %.4f\nset origin 0,0\nset size 1,1\n"
            "set xrange [0:1]\nset yrange [0:1]\nset key center center horizontal\nplot ",
            (double)p->legend / p->height);
}

static void draw_legend(FILE *script, const panels *p) {
    begin_legend(script, p);
    fputs("NaN with lines lc '#aaaaaa' lw 3 title 'Gemma 2B, tuned (published)'", script);
    for (size_t a = 0; a < p->arm_count; a++) {
        fprintf(script, ", NaN with linespoints ls %zu title ", a + 1);
        plot_text(script, json_string_value(json_object_get(p->arms[a], p->label)));
    }
    fputc('\n', script);
}

static void draw_panels(FILE *script, const void *context) {
    const panels *p = context;
    double bottom = (p->legend + 50.0) / p->height, top = 1 - 65.0 / p->height;
    fprintf(script,
            "set multiplot layout %zu,%zu margins 0.075,0.985,%.4f,%.4f spacing 0.04,%.4f title "
            "\"%s\"\n",
            p->rows, p->columns, bottom, top, 85.0 / p->height, p->title);
    fputs("unset key\nset yrange [0:100]\nset ytics 25\nset xlabel 'length' offset 0,0.5\n",
          script);
    mark_training(script, p->result);
    for (size_t panel = 0; panel < p->count; panel++) {
        fputs(panel % p->columns == 0 ? "set ylabel 'exact answers, %' offset 1\n"
                                      : "unset ylabel\n",
              script);
        draw_panel(script, p, panel);
    }
    draw_legend(script, p);
    fputs("unset multiplot\n", script);
}

static void add_arms(panels *p, bool (*is_shown)(const json_t *arm)) {
    size_t i;
    const json_t *arm;
    json_array_foreach(json_object_get(p->result, "arms"), i, arm) {
        if (p->arm_count < ARMS_MAX && is_shown(arm))
            p->arms[p->arm_count++] = arm;
    }
}

static bool draw(const char *path, panels *p, lab_error *error) {
    if (p->count == 0 || p->arm_count == 0)
        return lab_fail(error, LAB_INPUT, "%s: there are no answers to draw", path);
    p->columns = p->count <= 3 ? p->count : p->count == 4 ? 2 : p->count <= 9 ? 3 : 5;
    p->rows = (p->count + p->columns - 1) / p->columns;
    p->legend = 12 + 18 * (int)(p->arm_count / 3 + 1);
    p->height = 50 + p->legend + (int)p->rows * 270;
    const plot_request request = {path, p->title, 1000, p->height};
    return plot_draw(&request, draw_panels, p, error);
}

static bool is_main(const json_t *arm) { return json_is_true(json_object_get(arm, "is_main")); }

static bool is_of_softmax(const json_t *arm) {
    const char *trained = json_string_value(json_object_get(arm, "trained"));
    return trained && strcmp(trained, "softmax") == 0;
}

bool figure_clrs(const char *path, const json_t *result, int half, lab_error *error) {
    const char *names[CLRS_NAMES_MAX];
    size_t count = clrs_algorithms_of(result, names), first = half ? (count + 1) / 2 : 0;
    panels p = {.result = result,
                .title = half ? "CLRS-Text, the other algorithms (shaded: lengths of training)"
                              : "CLRS-Text, exact answers by length (shaded: lengths of training)",
                .label = "name",
                .count = half ? count / 2 : (count + 1) / 2};
    memcpy(p.names, names + first, p.count * sizeof *names);
    add_arms(&p, is_main);
    p.shaded = p.arm_count;
    return draw(path, &p, error);
}

bool figure_clrs_policies(const char *path, const json_t *result, lab_error *error) {
    panels p = {.result = result,
                .title = "Trained with softmax: other policies at inference",
                .label = "policy"};
    p.count = clrs_algorithms_of(result, p.names);
    add_arms(&p, is_of_softmax);
    p.shaded = p.arm_count < 2 ? p.arm_count : 2; /* more would hide each other */
    return draw(path, &p, error);
}

/* ---- entropies ---- */

/* The mean over all algorithms of a head's entropy at a length; and ln of how many tokens it saw.
 */
static double entropy_at(const json_t *arm, json_int_t length, size_t layer, size_t head,
                         double *uniform) {
    double sum = 0, tokens = 0;
    size_t i, count = 0;
    const json_t *row;
    json_array_foreach(json_object_get(arm, "rows"), i, row) {
        const json_t *number =
            json_array_get(json_array_get(json_object_get(row, "entropy_after"), layer), head);
        if (length_of(row) != length || !json_is_number(number))
            continue;
        sum += json_number_value(number);
        tokens += log(json_number_value(json_object_get(row, "question_tokens")) +
                      json_number_value(json_object_get(row, "answer_tokens")) / 2);
        count++;
    }
    *uniform = count ? tokens / (double)count : (double)NAN;
    return count ? sum / (double)count : (double)NAN;
}

static size_t size_of_shape(const json_t *result, const char *name) {
    json_int_t value = json_integer_value(json_object_get(json_object_get(result, "shape"), name));
    return value > 0 && value < 4096 ? (size_t)value : 0;
}

static void write_entropies(FILE *script, const panels *p, size_t index) {
    const json_t *arm = p->arms[index], *row;
    size_t layers = size_of_shape(p->result, "layers"), heads = size_of_shape(p->result, "heads");
    size_t i;
    fprintf(script, "$entropy%zu << END\n", index);
    json_array_foreach(json_object_get(arm, "rows"), i, row) {
        const char *name = json_string_value(json_object_get(row, "algorithm"));
        if (!name || strcmp(name, p->names[0]) != 0)
            continue; /* lengths are the same for all */
        double uniform;
        entropy_at(arm, length_of(row), 0, 0, &uniform);
        fprintf(script, "%lld %.5g", (long long)length_of(row), uniform);
        for (size_t h = 0; h < layers * heads; h++)
            fprintf(script, " %.5g",
                    entropy_at(arm, length_of(row), h / heads, h % heads, &uniform));
        fputc('\n', script);
    }
    fputs("END\n", script);
}

static void draw_entropies(FILE *script, const void *context) {
    const panels *p = context;
    size_t layers = size_of_shape(p->result, "layers"), heads = size_of_shape(p->result, "heads");
    fprintf(script,
            "set multiplot layout 1,%zu margins 0.06,0.985,0.22,0.84 spacing 0.045 title 'Entropy "
            "of every head while answering, mean of all algorithms'\nunset key\n"
            "set yrange [0:*]\nset xrange [3.5:%lld.5]\nset xlabel 'length' offset 0,0.5\n",
            p->arm_count, (long long)longest_of(p));
    mark_training(script, p->result);
    for (size_t a = 0; a < p->arm_count; a++) {
        write_entropies(script, p, a);
        fputs("set title ", script);
        plot_text(script, json_string_value(json_object_get(p->arms[a], "name")));
        fprintf(script, " offset 0,-0.6\n%s\n",
                a ? "unset ylabel" : "set ylabel 'entropy, nats' offset 1");
        fprintf(script, "plot $entropy%zu using 1:2 with lines lc '#999999' dt 3 lw 2", a);
        for (size_t h = 0; h < layers * heads; h++)
            fprintf(script, ", $entropy%zu using 1:%zu with lines ls %zu lw 1.2", a, 3 + h,
                    h / heads % PLOT_STYLES + 1);
        fputc('\n', script);
    }
    begin_legend(script, p);
    fputs("NaN with lines lc '#999999' dt 3 lw 2 title 'ln n, uniform'", script);
    for (size_t layer = 0; layer < layers; layer++)
        fprintf(script, ", NaN with lines ls %zu title 'layer %zu'", layer % PLOT_STYLES + 1,
                layer);
    fputs("\nunset multiplot\n", script);
}

bool figure_clrs_entropy(const char *path, const json_t *result, lab_error *error) {
    panels p = {.result = result, .height = 420, .legend = 45};
    p.count = clrs_algorithms_of(result, p.names);
    add_arms(&p, is_main);
    if (p.count == 0 || p.arm_count == 0)
        return lab_fail(error, LAB_INPUT, "%s: there are no entropies to draw", path);
    const plot_request request = {path, "Entropy of every head while answering", 1000, p.height};
    return plot_draw(&request, draw_entropies, &p, error);
}
