/* Curves over positions, with a label at the end of each. */
#include "report/html.h"
#include "tune/draw.h"
#include "tune/figures.h"

#include <math.h>
#include <string.h>

enum { HEIGHT = 420, LEFT = 70, TOP = 40, RIGHT = 600, BOTTOM = 370, LABELS = 640 };

typedef struct curve {
    const char *name;
    draw_look look;
    double values[TUNE_BINS]; /* NaN: none */
} curve;

typedef struct chart {
    const tune_result *result;
    const char *y_name, *label;
    char id[32]; /* of what clips it, one of its own in the page */
    draw_frame frame;
    curve curves[TUNE_ARMS_MAX];
    size_t count;
} chart;

/* The middle of a bin. */
static double position_of(const chart *c, size_t bin) {
    return ((double)bin + 0.5) / TUNE_BINS * (double)c->result->context;
}

static void draw_curve(FILE *file, const chart *c, const curve *own) {
    char look[DRAW_CLASS_SIZE];
    bool is_joined = false;
    fprintf(file, "<path class=\"curve %s\" d=\"", draw_class(own->look, look));
    for (size_t i = 0; i < TUNE_BINS; i++) {
        bool is_there = isfinite(own->values[i]);
        if (is_there)
            fprintf(file, "%c%.1f %.1f", is_joined ? 'L' : 'M',
                    draw_x(&c->frame, position_of(c, i)), draw_y(&c->frame, own->values[i]));
        is_joined = is_there;
    }
    fputs("\"><title>", file);
    html_text(file, own->name);
    fputs("</title></path>\n", file);
}

/* The last bin that has a value. */
static size_t end_of(const curve *own) {
    size_t end = TUNE_BINS;
    while (end > 0 && !isfinite(own->values[end - 1]))
        end--;
    return end;
}

/* Where it ends, at the edge if that is outside of the frame. */
static double height_of(const chart *c, const curve *own) {
    size_t end = end_of(own);
    return end ? fmin(fmax(draw_y(&c->frame, own->values[end - 1]), TOP), BOTTOM) : BOTTOM;
}

static void draw_label(FILE *file, const chart *c, const curve *own, double height) {
    char look[DRAW_CLASS_SIZE], text[TUNE_NAME_SIZE + 32];
    size_t end = end_of(own), repetitions = tune_repetitions(c->result, own->name);
    double last = end ? own->values[end - 1] : (double)NAN;
    double from = draw_x(&c->frame, position_of(c, end ? end - 1 : 0)) + 3;
    const char *beyond = last > c->frame.y.high ? " ↑" : last < c->frame.y.low ? " ↓" : "";
    if (repetitions > 1)
        snprintf(text, sizeof text, "%s, mean of %zu%s", own->name, repetitions, beyond);
    else
        snprintf(text, sizeof text, "%s%s", own->name, beyond);
    fprintf(file,
            "<path class=\"leader\" d=\"M%.1f %.1fL%d %.1fL%d %.1f\"/>"
            "<path class=\"curve %s\" d=\"M%d %.1fh18\"/>\n",
            from, height_of(c, own), RIGHT + 6, height_of(c, own), LABELS - 24, height,
            draw_class(own->look, look), LABELS - 22, height);
    draw_text(file, LABELS + 2, height + 4, "start", "", text);
}

static void draw_labels(FILE *file, const chart *c) {
    double heights[TUNE_ARMS_MAX] = {0};
    for (size_t i = 0; i < c->count; i++)
        heights[i] = height_of(c, &c->curves[i]);
    draw_spread(heights, c->count, TOP, BOTTOM);
    for (size_t i = 0; i < c->count; i++)
        draw_label(file, c, &c->curves[i], heights[i]);
}

static void draw_chart(FILE *file, const chart *c) {
    char word[48];
    draw_begin(file, HEIGHT, c->label);
    fprintf(file,
            "<clipPath id=\"%s\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n",
            c->id, LEFT, TOP - 2, RIGHT - LEFT, BOTTOM - TOP + 4);
    draw_axes(file, &c->frame, "position in the sequence, tokens", c->y_name);
    draw_labels(file, c);
    fprintf(file, "<g clip-path=\"url(#%s)\">\n", c->id);
    for (int is_strong = 0; is_strong < 2; is_strong++) /* those above the others */
        for (size_t i = 0; i < c->count; i++)
            if (c->curves[i].look.is_strong == is_strong)
                draw_curve(file, c, &c->curves[i]);
    fputs("</g>\n", file);
    snprintf(word, sizeof word, "trained context: %.0f", c->result->n0);
    draw_mark(file, &c->frame, c->result->n0, word);
    draw_end(file);
}

static chart chart_of(const tune_result *result, size_t domain, const char *kind) {
    chart c = {.result = result,
               .frame = {.left = LEFT,
                         .top = TOP,
                         .right = RIGHT,
                         .bottom = BOTTOM,
                         .x = {.low = 0, .high = (double)result->context},
                         .y = draw_range_empty()}};
    snprintf(c.id, sizeof c.id, "%s%zu", kind, domain == SIZE_MAX ? 0 : domain + 1);
    return c;
}

static curve *add_curve(chart *c, const char *name, size_t domain) {
    curve *own = &c->curves[c->count++];
    own->name = name;
    own->look = draw_look_of(c->result, name);
    tune_arm_bins(c->result, name, domain, own->values);
    return own;
}

void tune_figure_position(FILE *file, const tune_result *result, size_t domain) {
    const char *names[TUNE_ARMS_MAX];
    size_t count = tune_arms(result, names);
    chart c = chart_of(result, domain, "position");
    c.y_name = "perplexity (logarithmic)";
    c.label = "Perplexity of every arm by position";
    c.frame.y.is_log = true;
    for (size_t i = 0; i < count; i++) {
        curve *own = add_curve(&c, names[i], domain);
        for (size_t bin = 0; bin < TUNE_BINS; bin++) {
            own->values[bin] = exp(own->values[bin]);
            draw_range_include(&c.frame.y, own->values[bin]);
        }
    }
    draw_range_pad(&c.frame.y, 0.04, 0.02);
    draw_chart(file, &c);
}

/* Rules and controls may be far away: the frame is made for what was learned. */
static bool sets_the_range(const char *name) {
    return strcmp(name, "permuted") != 0 && !strstr(name, "rule");
}

void tune_figure_position_change(FILE *file, const tune_result *result, size_t domain) {
    const char *names[TUNE_ARMS_MAX];
    double base[TUNE_BINS];
    size_t count = tune_arms(result, names);
    chart c = chart_of(result, domain, "change");
    c.y_name = "change of perplexity against softmax";
    c.label = "Change of perplexity against softmax by position";
    c.frame.y.is_change = true;
    draw_range_include(&c.frame.y, 0);
    tune_arm_bins(result, "softmax", domain, base);
    for (size_t i = 0; i < count; i++) {
        if (tune_arm_is_other(names[i]))
            continue;
        curve *own = add_curve(&c, names[i], domain);
        for (size_t bin = 0; bin < TUNE_BINS; bin++) {
            own->values[bin] = 100 * expm1(own->values[bin] - base[bin]);
            if (sets_the_range(names[i]))
                draw_range_include(&c.frame.y, own->values[bin]);
        }
    }
    draw_range_pad(&c.frame.y, 0.12, 0.2);
    draw_chart(file, &c);
}
