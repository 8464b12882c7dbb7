/* Figure 3; see probe_figure.h. */
#include "report/probe_figure.h"
#include "report/plot.h"

#include <math.h>
#include <string.h>

/* Mean and deviation over a layer's heads. */
typedef struct layer_summary {
    double mean, deviation;
} layer_summary;

static double value_of(const probe_result *r, size_t policy, size_t size, size_t layer, size_t head,
                       probe_measure measure, bool is_share) {
    double entropy = probe_mean(r, policy, size, layer, head, measure);
    return is_share ? entropy / probe_ceiling(r, size) : entropy;
}

static layer_summary summary_of(const probe_result *r, size_t policy, size_t size, size_t layer,
                                probe_measure measure, bool is_share) {
    double sum = 0, squares = 0, count = 0;
    for (size_t head = 0; head < r->heads; head++) {
        double value = value_of(r, policy, size, layer, head, measure, is_share);
        if (isnan(value))
            continue;
        sum += value;
        squares += value * value;
        count++;
    }
    double mean = sum / count;
    return (layer_summary){mean, sqrt(fmax(0, squares / count - mean * mean))};
}

/* Heads and their mean are those of the plainest policy, before it acts: with softmax, which
 * changes nothing, there is no need to say so. */
static bool is_plain(const probe_figure *f) {
    return strcmp(f->request->policies[probe_plainest(f->request)], "softmax") == 0;
}

/* Columns: size, ceiling, mean, deviation, means after each policy, heads. */
static void write_data(FILE *script, const probe_figure *f, size_t layer, bool is_share) {
    const probe_result *r = f->result;
    const size_t base = probe_plainest(f->request);
    fprintf(script, "$layer%zu%s << END\n", layer, is_share ? "share" : "");
    for (size_t s = 0; s < r->sizes; s++) {
        layer_summary summary = summary_of(r, base, s, layer, PROBE_ENTROPY, is_share);
        fprintf(script, "%llu %.6g %.6g %.6g", (unsigned long long)r->size[s],
                is_share ? 1 : probe_ceiling(r, s), summary.mean, summary.deviation);
        for (size_t p = 0; p < r->policies; p++)
            fprintf(script, " %.6g",
                    summary_of(r, p, s, layer, PROBE_ENTROPY_AFTER, is_share).mean);
        for (size_t head = 0; head < r->heads; head++)
            fprintf(script, " %.6g", value_of(r, base, s, layer, head, PROBE_ENTROPY, is_share));
        fputc('\n', script);
    }
    fputs("END\n", script);
}

/* The curves of a panel; those of the legend are the same with no data. */
static void write_mean(FILE *script, const char *when, const char *policy) {
    fprintf(script, "'mean%s'.", when);
    plot_text(script, policy);
    fputs(" noenhanced", script);
}

static void write_curves(FILE *script, const probe_figure *f, const char *data, bool is_legend) {
    const probe_result *r = f->result;
    const size_t base = probe_plainest(f->request);
    fprintf(script,
            "plot %s using 1:2 with lines lc '#888888' lw 1.2 dt 3 title 'all tokens alike'", data);
    fprintf(script,
            ", %s using 1:($3-$4):($3+$4) with filledcurves fc '#0072B2' fs transparent solid 0.18 "
            "noborder title 'mean ± standard deviation'",
            data);
    for (size_t head = 0; head < (is_legend ? 1 : r->heads); head++)
        fprintf(script, ", %s using 1:%zu with %s lc '#3a93c9' lw 0.7 %s", data,
                5 + r->policies + head, r->sizes > 1 ? "lines" : "points pt 6 ps 0.5",
                head ? "notitle" : "title 'heads'");
    fprintf(script, ", %s using 1:3 with linespoints ls 1 title ", data);
    write_mean(script, is_plain(f) ? ", " : " before ", f->request->policies[base]);
    for (size_t p = 0, style = 1; p < r->policies; p++) {
        if (is_plain(f) && p == base)
            continue;
        fprintf(script, ", %s using 1:%zu with linespoints ls %zu title ", data, 5 + p,
                1 + style++ % PLOT_STYLES);
        write_mean(script, is_plain(f) ? ", " : " after ", f->request->policies[p]);
    }
    fputc('\n', script);
}

static void write_panel(FILE *script, const probe_figure *f, size_t layer, bool is_share) {
    char data[48];
    snprintf(data, sizeof data, "$layer%zu%s", layer, is_share ? "share" : "");
    fprintf(script, "set title 'layer %zu'\nunset key\n", layer);
    /* The same in every panel, with the ceiling just inside; that of a single token is 0. */
    fprintf(script, "set yrange [0:%g]\n",
            is_share ? 1.02 : fmax(0.1, 1.02 * probe_ceiling(f->result, f->result->sizes - 1)));
    write_curves(script, f, data, false);
}

/* A panel with nothing but the key. */
static void write_legend(FILE *script, const probe_figure *f) {
    fputs("unset title\nunset border\nunset tics\nunset xlabel\nunset ylabel\nunset grid\n"
          "unset logscale\nset key left center\nset xrange [0:1]\nset yrange [0:1]\n"
          "$nothing << END\n",
          script);
    for (size_t row = 0; row < 2; row++) {
        for (size_t column = 0; column < 6 + f->result->policies; column++)
            fputs("-9 ", script);
        fputc('\n', script);
    }
    fputs("END\n", script);
    write_curves(script, f, "$nothing", true);
}

static const char *x_label(const probe_figure *f) {
    return f->request->text ? "tokens of the text" : "numbers in the sequence";
}

static void write_axes(FILE *script, const probe_figure *f) {
    const probe_result *r = f->result;
    double first = (double)r->size[0], last = (double)r->size[r->sizes - 1];
    double room = last > first ? 1 : 2; /* around a single size */
    fprintf(script, "set logscale x 2\nset xrange [%.12g:%.12g]\nset xlabel '%s'\n", first / room,
            last * room, x_label(f));
}

/* Titles come from outside: gnuplot would take some characters for more than themselves, and a
 * picture holds nothing but UTF-8 without control characters. */
static void write_title(FILE *script, const char *text) {
    json_t *valid = lab_json_text(text);
    const char *at = valid ? json_string_value(valid) : "";
    for (; *at; at++) {
        bool is_plain = (unsigned char)*at >= ' ' && *at != 0x7f && *at != '\'' && *at != '\\';
        fputc(is_plain ? *at : ' ', script);
    }
    json_decref(valid);
}

static void draw_one(FILE *script, const probe_figure *f) {
    size_t layer = (size_t)f->layer;
    write_data(script, f, layer, false);
    write_data(script, f, layer, true);
    fputs("set multiplot layout 1,3 title '", script);
    write_title(script, f->title);
    fputs("' noenhanced\n", script);
    write_axes(script, f);
    fputs("set ylabel 'entropy of the last position, nats'\n", script);
    write_panel(script, f, layer, false);
    fputs("set ylabel 'entropy / ln n'\n", script);
    write_panel(script, f, layer, true);
    write_legend(script, f);
    fputs("unset multiplot\n", script);
}

/* Panels side by side, and below each other. */
static int columns_for(size_t layers) { return layers <= 4 ? (int)layers : layers <= 12 ? 4 : 6; }

static int rows_for(size_t layers) {
    int columns = columns_for(layers);
    return ((int)layers + columns - 1) / columns;
}

static void draw_all(FILE *script, const probe_figure *f) {
    size_t layers = f->result->layers;
    for (size_t layer = 0; layer < layers; layer++)
        write_data(script, f, layer, f->is_share);
    fprintf(script, "set multiplot layout %d,%d title '", rows_for(layers + 1),
            columns_for(layers + 1));
    write_title(script, f->title);
    fputs("' noenhanced\n", script);
    write_axes(script, f);
    size_t columns = (size_t)columns_for(layers + 1);
    for (size_t layer = 0; layer < layers; layer++) {
        /* Labels at the left and at the foot alone. */
        const char *label = f->is_share ? "entropy / ln n" : "entropy, nats";
        fprintf(script, "set ylabel '%s'\n", layer % columns == 0 ? label : " ");
        if (layer + columns >= layers)
            fprintf(script, "set xlabel '%s'\n", x_label(f));
        else
            fputs("set xlabel ' '\n", script);
        write_panel(script, f, layer, f->is_share);
    }
    write_legend(script, f);
    fputs("unset multiplot\n", script);
}

static void draw(FILE *script, const void *context) {
    const probe_figure *figure = context;
    if (figure->layer == UINT64_MAX)
        draw_all(script, figure);
    else
        draw_one(script, figure);
}

/* ---- the beta that n calls for ---- */

static void draw_needs_panel(FILE *script, const probe_result *r, size_t layer) {
    fprintf(script, "$layer%zu << END\n", layer);
    for (size_t s = 0; s < r->sizes; s++) {
        fprintf(script, "%llu", (unsigned long long)r->size[s]);
        for (size_t head = 0; head < r->heads; head++)
            fprintf(script, " %.6g", probe_beta_called_for(r, s, layer, head));
        fputc('\n', script);
    }
    fprintf(script, "END\nset title 'layer %zu'\nunset key\nplot 1 with lines lc '#888888' dt 3",
            layer);
    for (size_t head = 0; head < r->heads; head++)
        fprintf(script, ", $layer%zu using 1:%zu with linespoints lc '#3a93c9' lw 0.8 pt 7 ps 0.25",
                layer, 2 + head);
    fputc('\n', script);
}

static void draw_needs(FILE *script, const void *context) {
    const probe_figure *f = context;
    const probe_result *r = f->result;
    size_t layers = r->layers, columns = (size_t)columns_for(layers);
    double low = 1, high = 2;
    for (size_t i = 0; i < layers * r->heads * r->sizes; i++) {
        double beta = probe_beta_called_for(r, i % r->sizes, i / r->sizes / r->heads,
                                            i / r->sizes % r->heads);
        low = beta < low ? beta : low;
        high = beta > high ? beta : high;
    }
    fprintf(script, "set multiplot layout %d,%zu title '", rows_for(layers), columns);
    write_title(script, f->title);
    fputs(": beta with which the largest weight stays as on the shortest input' noenhanced\n",
          script);
    write_axes(script, f);
    fprintf(script, "set logscale y 2\nset yrange [%g:%g]\n", low / 1.1, high * 1.1);
    for (size_t layer = 0; layer < layers; layer++) {
        fprintf(script, "set ylabel '%s'\n", layer % columns == 0 ? "β that n calls for" : " ");
        fprintf(script, "set xlabel '%s'\n", layer + columns >= layers ? x_label(f) : " ");
        draw_needs_panel(script, r, layer);
    }
    fputs("unset multiplot\n", script);
}

bool figure_gaps(const char *path, const probe_figure *figure, lab_error *error) {
    size_t layers = figure->result->layers;
    plot_request request = {path, "Beta that the number of elements calls for, by head",
                            60 + 260 * columns_for(layers), 60 + 230 * rows_for(layers)};
    return plot_draw(&request, draw_needs, figure, error);
}

bool figure_probe(const char *path, const probe_figure *figure, lab_error *error) {
    size_t panels = figure->result->layers + 1;
    plot_request request = {path, "Entropy of heads against the number of elements", 1100, 420};
    if (figure->layer == UINT64_MAX) {
        request.width = 60 + 260 * columns_for(panels);
        request.height = 60 + 230 * rows_for(panels);
    }
    return plot_draw(&request, draw, figure, error);
}
