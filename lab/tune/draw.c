/* Frames, axes and labels as SVG; see draw.h. */
#include "tune/draw.h"

#include "report/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Okabe and Ito's colours, as in the figures of `whet reproduce`; the first is for softmax, the
 * second for what was chosen. */
const char draw_css[] =
    ":root{--c0:#000;--c1:#d55e00;--c2:#0072b2;--c3:#009e73;--c4:#cc79a7;--c5:#e69f00;"
    "--c6:#56b4e9;--c7:#8c7a00}\n"
    "@media(prefers-color-scheme:dark){:root{--c0:#fff;--c1:#f07a26;--c2:#3d9be0;--c3:#1fbf92;"
    "--c7:#b9a52c}}\n"
    "figure svg{display:block;width:100%;min-width:44rem;height:auto}\n"
    "svg text{fill:var(--ink);font:13px system-ui,sans-serif;font-variant-numeric:tabular-nums}"
    "svg .soft{fill:var(--soft)}svg .on{fill:#fff}svg .cell{font-size:11px}\n"
    "svg .halo{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}\n"
    ".axis{stroke:var(--soft);fill:none}.grid{stroke:var(--line);fill:none}"
    ".mark{stroke:var(--soft);stroke-dasharray:2 3;fill:none}\n"
    ".c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}"
    ".c5{--c:var(--c5)}.c6{--c:var(--c6)}.c7{--c:var(--c7)}\n"
    ".curve{stroke:var(--c);fill:none;stroke-width:1.6;stroke-linejoin:round}"
    ".curve.strong{stroke-width:3}.curve.dashed{stroke-dasharray:6 4}"
    ".leader{fill:none;stroke:var(--line)}svg .leader{stroke-width:1}\n"
    ".dot{fill:var(--c);stroke:var(--card)}.dot.dashed{fill:var(--card);stroke:var(--c);"
    "stroke-width:2}.bar{stroke:var(--c);stroke-width:1.4;opacity:.55}\n"
    ".ring{fill:none;stroke:var(--c1);stroke-width:2}.more{fill:#d55e00}.less{fill:#0072b2}"
    ".cells rect{stroke:var(--line);stroke-width:.5}.cells .ground{fill:var(--card)}.scale "
    "rect{stroke:none}\n"
    ".sideways{display:none;color:var(--soft);font-size:.85rem;margin:.3rem 0}"
    "td small{white-space:normal}small.interval{white-space:nowrap}"
    "h1,h3,p code{overflow-wrap:anywhere}.chosen>*{font-weight:600}.chosen small{font-weight:400}"
    "details{margin:1rem 0}summary{cursor:pointer;color:var(--mark)}\n"
    "@media(max-width:46rem){.sideways{display:block}th[scope=row]{white-space:normal;"
    "max-width:7.5rem}"
    "dl{grid-template-columns:minmax(0,1fr);gap:0}dd{margin-bottom:.5rem}}\n";

/* ---- ranges ---- */

draw_range draw_range_empty(void) { return (draw_range){INFINITY, -INFINITY, false, false}; }

void draw_range_include(draw_range *range, double value) {
    if (!isfinite(value))
        return;
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

void draw_range_pad(draw_range *range, double share, double at_least) {
    if (!isfinite(range->low) || !isfinite(range->high))
        range->low = range->high = 1;
    if (range->is_log) {
        double factor = exp(fmax(share * log(range->high / range->low), at_least));
        range->low /= factor;
        range->high *= factor;
        return;
    }
    double more = fmax(share * (range->high - range->low), at_least);
    range->low -= more;
    range->high += more;
}

static double along(const draw_range *range, double value) {
    return range->is_log ? log(value / range->low) / log(range->high / range->low)
                         : (value - range->low) / (range->high - range->low);
}

double draw_x(const draw_frame *f, double value) {
    return f->left + (f->right - f->left) * along(&f->x, value);
}

double draw_y(const draw_frame *f, double value) {
    return f->bottom - (f->bottom - f->top) * along(&f->y, value);
}

/* ---- text ---- */

void draw_text(FILE *file, double x, double y, const char *anchor, const char *class_name,
               const char *text) {
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor,
            class_name);
    html_text(file, text);
    fputs("</text>\n", file);
}

double draw_text_width(const char *text) {
    size_t characters = 0;
    for (; *text; text++)
        characters += ((unsigned char)*text & 0xC0) != 0x80;
    return 7.2 * (double)characters;
}

static int by_height(const void *one, const void *other) {
    double a = **(double *const *)one, b = **(double *const *)other;
    return (a > b) - (a < b);
}

void draw_spread(double *heights, size_t count, double top, double bottom) {
    double *sorted[TUNE_ARMS_MAX];
    if (count == 0 || count > TUNE_ARMS_MAX)
        return;
    for (size_t i = 0; i < count; i++)
        sorted[i] = &heights[i];
    qsort(sorted, count, sizeof *sorted, by_height);
    *sorted[0] = fmax(*sorted[0], top);
    for (size_t i = 1; i < count; i++)
        *sorted[i] = fmax(*sorted[i], *sorted[i - 1] + DRAW_LINE);
    *sorted[count - 1] = fmin(*sorted[count - 1], bottom);
    for (size_t i = count - 1; i-- > 0;)
        *sorted[i] = fmin(*sorted[i], *sorted[i + 1] - DRAW_LINE);
}

/* ---- axes ---- */

static double nice_step(double span) {
    double power = pow(10, floor(log10(span))), rest = span / power;
    return power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
}

/* Values with a grid line, at most `limit`. */
static size_t ticks_of(const draw_range *range, double *values, size_t limit) {
    size_t count = 0;
    double ratio = range->high / range->low;
    if (range->is_log && ratio > 4) {
        static const double steps[] = {1, 2, 5};
        size_t used = ratio > 2000 ? 1 : 3;
        int last = (int)floor(log10(range->high));
        for (int power = (int)floor(log10(range->low)); power <= last; power++)
            for (size_t i = 0; i < used && count < limit; i++) {
                double value = pow(10, power) * steps[i];
                if (value >= range->low && value <= range->high)
                    values[count++] = value;
            }
        return count;
    }
    double step = nice_step((range->high - range->low) / 6), first = ceil(range->low / step);
    while (count < limit && (first + (double)count) * step <= range->high) {
        values[count] = (first + (double)count) * step;
        count++;
    }
    return count;
}

static void number_of(const draw_range *range, double value, char *text, size_t size) {
    double rounded = fabs(value) < 1e-9 * (range->high - range->low) ? 0 : value;
    if (!range->is_change)
        snprintf(text, size, "%s%.4g", rounded < 0 ? "−" : "", fabs(rounded));
    else if (rounded == 0)
        snprintf(text, size, "0 %%");
    else
        snprintf(text, size, "%s%.3g %%", rounded < 0 ? "−" : "+", fabs(rounded));
}

static void draw_line(FILE *file, const char *class_name, double x1, double y1, double x2,
                      double y2) {
    fprintf(file, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", class_name, x1, y1, x2, y2);
}

void draw_axes(FILE *file, const draw_frame *f, const char *x_name, const char *y_name) {
    enum { TICKS = 24 };
    double values[TICKS];
    char text[32];
    size_t count = ticks_of(&f->y, values, TICKS);
    for (size_t i = 0; i < count; i++) {
        double y = draw_y(f, values[i]);
        bool is_zero = f->y.is_change && fabs(values[i]) < 1e-9;
        draw_line(file, is_zero ? "axis" : "grid", f->left, y, f->right, y);
        number_of(&f->y, values[i], text, sizeof text);
        draw_text(file, f->left - 7, y + 4, "end", "soft", text);
    }
    count = ticks_of(&f->x, values, TICKS);
    for (size_t i = 0; i < count; i++) {
        double x = draw_x(f, values[i]);
        bool is_zero = f->x.is_change && fabs(values[i]) < 1e-9;
        draw_line(file, is_zero ? "axis" : "grid", x, f->top, x, f->bottom);
        number_of(&f->x, values[i], text, sizeof text);
        draw_text(file, x, f->bottom + 18, "middle", "soft", text);
    }
    draw_line(file, "axis", f->left, f->bottom, f->right, f->bottom);
    draw_text(file, (f->left + f->right) / 2, f->bottom + 38, "middle", "soft", x_name);
    draw_text(file, 12, f->top - 12, "start", "soft", y_name);
}

void draw_mark(FILE *file, const draw_frame *f, double x, const char *word) {
    if (x <= f->x.low || x >= f->x.high)
        return;
    double at = draw_x(f, x);
    bool is_right = at + 8 + draw_text_width(word) > f->right;
    draw_line(file, "mark", at, f->top, at, f->bottom);
    draw_text(file, is_right ? at - 5 : at + 5, f->top + 12, is_right ? "end" : "start",
              "soft halo", word);
}

/* ---- figures ---- */

void draw_begin(FILE *file, double height, const char *label) {
    fputs("<p class=\"sideways\">Scroll the figure sideways.</p>\n<figure tabindex=\"0\">\n"
          "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"",
          file);
    html_text(file, label);
    fprintf(file, "\" viewBox=\"0 0 %d %.0f\">\n", DRAW_WIDTH, height);
}

void draw_end(FILE *file) { fputs("</svg>\n</figure>\n", file); }

draw_look draw_look_of(const tune_result *result, const char *name) {
    enum { FIRST = 2, OTHERS = DRAW_COLOURS - FIRST };
    const char *names[TUNE_ARMS_MAX];
    size_t count = tune_arms(result, names), place = 0;
    if (strcmp(name, "softmax") == 0)
        return (draw_look){0, false, true};
    if (strcmp(name, "chosen") == 0)
        return (draw_look){1, false, true};
    for (size_t i = 0; i < count && strcmp(names[i], name) != 0; i++)
        place += strcmp(names[i], "softmax") != 0 && strcmp(names[i], "chosen") != 0;
    return (draw_look){FIRST + place % OTHERS, place / OTHERS % 2 == 1, false};
}

const char *draw_class(draw_look look, char text[DRAW_CLASS_SIZE]) {
    snprintf(text, DRAW_CLASS_SIZE, "c%zu%s%s", look.colour, look.is_dashed ? " dashed" : "",
             look.is_strong ? " strong" : "");
    return text;
}
