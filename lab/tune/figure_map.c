/* Beta by layer and head: blue where attention becomes softer, orange where it becomes sharper,
 * stronger the further from 1. Colours lie over the ground with an opacity, so that 1 looks like
 * the page in the light and in the dark. */
#include "tune/draw.h"
#include "tune/figures.h"

#include <math.h>

enum { LEFT = 52, TOP = 52, GAP = 62, SCALE = 60 };

typedef struct map {
    const tune_setting *setting;
    double width, height; /* of a cell */
    double strongest;     /* |ln beta| of the strongest colour */
} map;

static double log_beta(const tune_setting *s, size_t head, double n) {
    return s->a[head] + s->h[head] * fmax(0, log(n / s->n0));
}

static double strongest_of(const tune_setting *s, double n) {
    double strongest = log(1.05);
    for (size_t i = 0; i < s->layers * s->heads; i++)
        strongest = fmax(strongest, fabs(log_beta(s, i, n)));
    return strongest;
}

static double opacity_of(const map *m, double value) { return fmin(1, fabs(value) / m->strongest); }

static void draw_colour(FILE *file, const map *m, double x, double y, double width, double height,
                        double value) {
    fprintf(file,
            "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
            "fill-opacity=\"%.3f\"/>",
            value < 0 ? "less" : "more", x, y, width, height, opacity_of(m, value));
}

static void draw_cell(FILE *file, const map *m, size_t layer, size_t head, double left, double n) {
    size_t index = layer * m->setting->heads + head;
    double value = log_beta(m->setting, index, n);
    double x = left + (double)head * m->width, y = TOP + (double)layer * m->height;
    char text[32];
    fputs("<g>", file);
    draw_colour(file, m, x, y, m->width, m->height, value);
    if (m->width >= 30 && m->height >= 14) {
        snprintf(text, sizeof text, "%.2f", exp(value));
        draw_text(file, x + m->width / 2, y + m->height / 2 + 4, "middle",
                  opacity_of(m, value) > 0.8 ? "cell on" : "cell", text);
    }
    fprintf(file, "<title>layer %zu, head %zu: β = %.3f (a = %.4f, h = %.4f)</title></g>\n", layer,
            head, exp(value), m->setting->a[index], m->setting->h[index]);
}

/* Every one, or every fifth, tenth ... where not all fit. */
static size_t step_for(double space, double wanted) {
    static const size_t steps[] = {1, 2, 5, 10, 20, 50, 100};
    for (size_t i = 0; i + 1 < sizeof steps / sizeof *steps; i++)
        if (space * (double)steps[i] >= wanted)
            return steps[i];
    return 100;
}

static void draw_panel(FILE *file, const map *m, double left, double n, const char *title) {
    const tune_setting *s = m->setting;
    char text[32];
    double width = (double)s->heads * m->width, height = (double)s->layers * m->height;
    draw_text(file, left + width / 2, TOP - 28, "middle", "", title);
    size_t step = step_for(m->width, 22);
    for (size_t head = 0; head < s->heads; head += step) {
        snprintf(text, sizeof text, "%zu", head);
        draw_text(file, left + ((double)head + 0.5) * m->width, TOP - 8, "middle", "soft cell",
                  text);
    }
    step = step_for(m->height, 12);
    for (size_t layer = 0; layer < s->layers; layer += step) {
        snprintf(text, sizeof text, "%zu", layer);
        draw_text(file, left - 6, TOP + ((double)layer + 0.5) * m->height + 4, "end", "soft cell",
                  text);
    }
    fprintf(file,
            "<g class=\"cells\"><rect class=\"ground\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
            "height=\"%.1f\"/>\n",
            left, TOP, width, height);
    for (size_t layer = 0; layer < s->layers; layer++)
        for (size_t head = 0; head < s->heads; head++)
            draw_cell(file, m, layer, head, left, n);
    fputs("</g>\n", file);
}

static void draw_scale(FILE *file, const map *m, double y) {
    enum { STEPS = 41, WIDTH = 328 };
    double left = (DRAW_WIDTH - WIDTH) / 2.0;
    char text[32];
    fputs("<g class=\"scale\">", file);
    for (int i = 0; i < STEPS; i++)
        draw_colour(file, m, left + i * (double)WIDTH / STEPS, y, (double)WIDTH / STEPS, 12,
                    m->strongest * (2.0 * i / (STEPS - 1) - 1));
    fputs("</g>\n", file);
    for (int i = 0; i < 5; i++) {
        double share = i / 4.0;
        snprintf(text, sizeof text, "%.2f", exp(m->strongest * (2 * share - 1)));
        draw_text(file, left + WIDTH * share, y + 28, "middle", "soft", text);
    }
    draw_text(file, left - 30, y + 11, "end", "soft", "softer");
    draw_text(file, left + WIDTH + 30, y + 11, "start", "soft", "sharper: β");
}

void tune_figure_map(FILE *file, const tune_result *r, const tune_setting *setting) {
    bool has_two = (double)r->context > setting->n0;
    double longest = has_two ? (double)r->context : setting->n0;
    double space = has_two ? (DRAW_WIDTH - LEFT - GAP - 20) / 2.0 : DRAW_WIDTH - LEFT - 20;
    double strongest = fmax(strongest_of(setting, setting->n0), strongest_of(setting, longest));
    map m = {.setting = setting,
             .width = fmin(54, space / (double)setting->heads),
             .strongest = strongest};
    m.height = fmax(7, fmin(fmin(26, 1.6 * m.width), 560 / (double)setting->layers));
    double bottom = TOP + (double)setting->layers * m.height;
    double used = (double)setting->heads * m.width * (has_two ? 2 : 1) + (has_two ? GAP : 0);
    double left = LEFT + fmax(0, (DRAW_WIDTH - LEFT - 20 - used) / 2);
    char title[64];
    draw_begin(file, bottom + SCALE, "Beta by layer and head");
    snprintf(title, sizeof title, "β up to n = %.0f keys", setting->n0);
    draw_panel(file, &m, left, setting->n0, title);
    if (has_two) {
        snprintf(title, sizeof title, "β at n = %zu keys", r->context);
        draw_panel(file, &m, left + (double)setting->heads * m.width + GAP, longest, title);
    }
    draw_scale(file, &m, bottom + 20);
    draw_end(file);
}
