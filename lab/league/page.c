/*
 * The page of a league: the ranking, curves over sizes, a heat map for each arm, costs and what
 * failed. It needs no other file and no script.
 */
#include "league/results.h"

#include "report/html.h"
#include "tune/draw.h"

#include <math.h>
#include <string.h>

static const char own_css[] =
    "td.heat{--k:calc(var(--v)*1%);background:color-mix(in oklab,#0072b2 var(--k),var(--card));"
    "text-align:center}td.heat.full{color:#fff}td.heat small{color:inherit;opacity:.8}\n"
    ".maps{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(24rem,100%),1fr));gap:"
    "1rem}"
    ".maps>div{min-width:0}"
    ".maps table{width:100%}.maps h3{margin:.4rem 0}\n";

static const char *positions_name(const league_request *r, size_t positions) {
    return lm_positions_names[r->positions[positions]];
}

/* ---- ranking ---- */

static void write_interval(FILE *file, const lab_interval *of, bool is_signed) {
    fprintf(file, is_signed ? "%+.1f" : "%.1f", 100 * of->mean);
    if (isfinite(of->low) && isfinite(of->high))
        fprintf(file, "<small class=\"interval\">%.1f to %.1f</small>", 100 * of->low,
                100 * of->high);
}

static void write_ranking(FILE *file, const league_results *results) {
    const league_request *r = results->request;
    fputs("<section id=\"ranking\">\n<h2>Ranking</h2>\n<p>Right answers in per cent beyond the "
          "training size, averaged over sizes, with 95 % intervals over tasks and seeds; the "
          "difference to softmax is paired by task and seed. Cost is processor time in training, "
          "relative to softmax.</p>\n",
          file);
    html_table_begin(file);
    fputs("<thead><tr><th>policy</th><th>positions</th><th>models</th><th>right, %</th>"
          "<th>against softmax</th><th>cost</th></tr></thead>\n<tbody>\n",
          file);
    for (size_t i = 0; i < results->standing_count; i++) {
        const league_standing *standing = &results->standings[i];
        fputs("<tr><th scope=\"row\">", file);
        html_text(file, r->arms.list[standing->arm].name);
        fprintf(file, "</th><td>%s</td><td>%zu</td><td>", positions_name(r, standing->positions),
                standing->models);
        write_interval(file, &standing->right, false);
        fputs("</td><td>", file);
        write_interval(file, &standing->difference, true);
        if (isfinite(standing->cost))
            fprintf(file, "</td><td>%.2f</td></tr>\n", standing->cost);
        else
            fputs("</td><td>–</td></tr>\n", file);
    }
    fputs("</tbody>\n", file);
    html_table_end(file);
    fputs("</section>\n", file);
}

/* ---- curves ---- */

typedef double (*entry_value)(const league_entry *entry);

static double right_of(const league_entry *entry) { return 100 * entry->right.mean; }
static double entropy_of(const league_entry *entry) { return entry->entropy; }
static double beta_of(const league_entry *entry) { return entry->beta; }

/* The mean over tasks at one multiple; NaN where no task has a value. */
static double mean_at(const league_results *results, size_t p, size_t a, size_t m,
                      entry_value value) {
    double sum = 0;
    size_t count = 0;
    for (size_t t = 0; t < results->request->task_count; t++) {
        const league_entry *entry = league_entry_at(results, t, p, a, m);
        double own = entry->seeds > 0 ? value(entry) : (double)NAN;
        if (isfinite(own)) {
            sum += own;
            count++;
        }
    }
    return count ? sum / (double)count : (double)NAN;
}

enum { HEIGHT = 430, LEFT = 60, TOP = 40, RIGHT = 560, BOTTOM = 380, LABELS = 600, CURVES = 12 };

typedef struct chart {
    const league_results *results;
    size_t positions;
    entry_value value;
    const char *y_name, *label;
    bool is_log; /* the y axis, which begins at 0 otherwise */
    draw_frame frame;
} chart;

/* Whether an arm has a value at any size: maps that do not sum to one have no entropy. */
static bool has_values(const chart *c, size_t arm) {
    bool has_any = false;
    for (size_t m = 0; m < c->results->request->scale.multiple_count; m++)
        has_any = has_any || isfinite(mean_at(c->results, c->positions, arm, m, c->value));
    return has_any;
}

/* The arms to draw: softmax and the best of the others. */
static size_t arms_to_draw(const chart *c, size_t arms[CURVES]) {
    const league_results *results = c->results;
    size_t count = 0;
    for (size_t i = 0; i < results->standing_count && count < CURVES; i++)
        if (results->standings[i].positions == c->positions &&
            has_values(c, results->standings[i].arm) &&
            (count + 1 < CURVES ||
             strcmp(results->request->arms.list[results->standings[i].arm].name, "softmax") == 0))
            arms[count++] = results->standings[i].arm;
    return count;
}

static draw_look look_of(const league_request *r, size_t arm, size_t place) {
    if (strcmp(r->arms.list[arm].name, "softmax") == 0)
        return (draw_look){0, false, true};
    return (draw_look){1 + place % (DRAW_COLOURS - 1), place >= DRAW_COLOURS - 1, false};
}

static double end_height(const chart *c, size_t arm) {
    const league_scale *scale = &c->results->request->scale;
    for (size_t m = scale->multiple_count; m-- > 0;) {
        double value = mean_at(c->results, c->positions, arm, m, c->value);
        if (isfinite(value))
            return draw_y(&c->frame, value);
    }
    return BOTTOM;
}

static void draw_curve(FILE *file, const chart *c, size_t arm, size_t place, double height) {
    const league_request *r = c->results->request;
    char look[DRAW_CLASS_SIZE];
    bool is_joined = false;
    draw_class(look_of(r, arm, place), look);
    fprintf(file, "<path class=\"curve %s\" d=\"", look);
    for (size_t m = 0; m < r->scale.multiple_count; m++) {
        double value = mean_at(c->results, c->positions, arm, m, c->value);
        if (!isfinite(value))
            continue;
        fprintf(file, "%c%.1f %.1f", is_joined ? 'L' : 'M',
                draw_x(&c->frame, (double)r->scale.multiples[m]), draw_y(&c->frame, value));
        is_joined = true;
    }
    fprintf(file,
            "\"/>\n<path class=\"leader\" d=\"M%d %.1fL%d %.1f\"/><path class=\"curve %s\" "
            "d=\"M%d %.1fh18\"/>\n",
            RIGHT + 2, end_height(c, arm), LABELS - 24, height, look, LABELS - 22, height);
    draw_text(file, LABELS + 2, height + 4, "start", "", r->arms.list[arm].name);
}

/* Between the beginning and the end of a figure. */
static void draw_chart(FILE *file, chart *c) {
    const league_scale *scale = &c->results->request->scale;
    size_t arms[CURVES], count = arms_to_draw(c, arms);
    double heights[CURVES];
    c->frame =
        (draw_frame){.left = LEFT,
                     .top = TOP,
                     .right = RIGHT,
                     .bottom = BOTTOM,
                     .x = {.low = 0.95,
                           .high = 1.05 * (double)scale->multiples[scale->multiple_count - 1],
                           .is_log = true},
                     .y = draw_range_empty()};
    for (size_t i = 0; i < count; i++)
        for (size_t m = 0; m < scale->multiple_count; m++)
            draw_range_include(&c->frame.y,
                               mean_at(c->results, c->positions, arms[i], m, c->value));
    c->frame.y.is_log = c->is_log;
    if (!c->is_log)
        draw_range_include(&c->frame.y, 0);
    draw_range_pad(&c->frame.y, 0.03, 0.05);
    if (!c->is_log)
        c->frame.y.low = 0;
    draw_axes(file, &c->frame, "size, as a multiple of the largest in training", c->y_name);
    for (size_t i = 0; i < count; i++)
        heights[i] = end_height(c, arms[i]);
    draw_spread(heights, count, TOP, BOTTOM);
    for (size_t i = 0; i < count; i++)
        draw_curve(file, c, arms[i], i, heights[i]);
}

static void write_curves(FILE *file, const league_results *results) {
    static const struct {
        entry_value value;
        const char *title, *y_name;
        bool is_log;
    } kinds[] = {
        {right_of, "Right answers", "right, %, mean over tasks", false},
        {entropy_of, "Entropy of heads", "entropy after the policy, nats", false},
        {beta_of, "Inverse temperature of heads", "beta, mean over heads and tasks", true}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        fprintf(file, "<section>\n<h2>%s against size</h2>\n", kinds[k].title);
        for (size_t p = 0; p < results->request->position_count; p++) {
            chart c = {.results = results,
                       .positions = p,
                       .value = kinds[k].value,
                       .y_name = kinds[k].y_name,
                       .label = kinds[k].title,
                       .is_log = kinds[k].is_log};
            fprintf(file, "<h3>positions: %s</h3>\n", positions_name(results->request, p));
            draw_begin(file, HEIGHT, c.label);
            draw_chart(file, &c);
            draw_end(file);
        }
        fputs("</section>\n", file);
    }
}

/* ---- heat maps ---- */

static void write_heat(FILE *file, const league_entry *entry) {
    double percent = 100 * entry->right.mean;
    if (entry->seeds == 0) {
        fputs("<td class=\"none\">–</td>", file);
        return;
    }
    fprintf(file, "<td class=\"heat%s\" style=\"--v:%.0f\" title=\"%.1f to %.1f\">%.0f</td>",
            percent > 85 ? " full" : "", percent, 100 * entry->right.low, 100 * entry->right.high,
            percent);
}

static void write_map(FILE *file, const league_results *results, size_t p, size_t a) {
    const league_request *r = results->request;
    fputs("<div><h3>", file);
    html_text(file, r->arms.list[a].name);
    fputs("</h3>\n<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th>task</th>", file);
    for (size_t m = 0; m < r->scale.multiple_count; m++)
        fprintf(file, "<th>%llu×</th>", (unsigned long long)r->scale.multiples[m]);
    fputs("</tr></thead>\n<tbody>\n", file);
    for (size_t t = 0; t < r->task_count; t++) {
        fprintf(file, "<tr><th scope=\"row\">%s</th>", r->tasks[t].name);
        for (size_t m = 0; m < r->scale.multiple_count; m++)
            write_heat(file, league_entry_at(results, t, p, a, m));
        fputs("</tr>\n", file);
    }
    fputs("</tbody></table></div></div>\n", file);
}

static bool has_results(const league_results *results, size_t p, size_t a) {
    for (size_t i = 0; i < results->standing_count; i++)
        if (results->standings[i].positions == p && results->standings[i].arm == a)
            return true;
    return false;
}

static void write_maps(FILE *file, const league_results *results) {
    const league_request *r = results->request;
    fputs("<section id=\"maps\">\n<h2>Task by size</h2>\n<p>Right answers in per cent; the pointer "
          "shows 95 % intervals.</p>\n",
          file);
    for (size_t p = 0; p < r->position_count; p++) {
        fprintf(file, "<h3>positions: %s</h3>\n<div class=\"maps\">\n", positions_name(r, p));
        for (size_t a = 0; a < r->arms.count; a++)
            if (has_results(results, p, a))
                write_map(file, results, p, a);
        fputs("</div>\n", file);
    }
    fputs("</section>\n", file);
}

/* ---- the rest ---- */

static void write_failures(FILE *file, const league_results *results) {
    fputs("<section id=\"failed\">\n<h2>What failed</h2>\n", file);
    if (json_array_size(results->failed) == 0)
        fputs("<p>No training failed.</p>\n", file);
    else
        fputs("<ul>\n", file);
    for (size_t i = 0; i < json_array_size(results->failed); i++) {
        static const char *const keys[] = {"task", "positions", "arm", "failed"};
        fputs("<li>", file);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const char *text =
                json_string_value(json_object_get(json_array_get(results->failed, i), keys[k]));
            fputs(k > 0 ? ", " : "", file);
            html_text(file, text ? text : "");
        }
        fputs("</li>\n", file);
    }
    if (json_array_size(results->failed) > 0)
        fputs("</ul>\n", file);
    fputs("</section>\n", file);
}

static void write_made(FILE *file, const league_results *results) {
    const league_request *r = results->request;
    const league_scale *scale = &r->scale;
    char text[160];
    fputs("<section id=\"made\">\n<h2>How it was made</h2>\n<dl>\n", file);
    for (size_t i = 0; i < r->arms.count; i++) {
        fputs("<dt>", file);
        html_text(file, r->arms.list[i].name);
        fputs("</dt><dd>", file);
        html_text(file, r->arms.list[i].summary);
        fputs(" (<code>", file);
        html_text(file, r->arms.list[i].policy);
        fputs("</code>)</dd>\n", file);
    }
    snprintf(text, sizeof text, "%u layers, width %u, %u heads", scale->layers, scale->width,
             scale->heads);
    html_fact(file, "models", text);
    snprintf(text, sizeof text, "%llu steps of %u sequences, %zu learning rates, %zu seeds",
             (unsigned long long)scale->steps, scale->batch, scale->rate_count, scale->seeds);
    html_fact(file, "training", text);
    snprintf(text, sizeof text, "up to %zu samples at each size, of up to %zu tokens",
             scale->samples, scale->tokens_max);
    html_fact(file, "tests", text);
    html_machine(file);
    fputs("</dl>\n</section>\n", file);
}

/* Those of the page that figures use. */
static const char chart_colours[] =
    ":root{--ink:#1c2430;--soft:#5a6675;--line:#d5dbe3;--card:#fff}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e5e9ef;--soft:#9aa6b4;--line:#36404d;--card:#"
    "1a2029}}\n";

/* A chart for each kind of positions, below one another. */
void league_svg(FILE *file, const void *context) {
    enum { TITLE = 20 };
    const league_results *results = context;
    const league_request *r = results->request;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %zu\">\n"
            "<title>Right answers against size</title>\n<style>%s%s</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"var(--card)\"/>\n",
            DRAW_WIDTH, r->position_count * (HEIGHT + TITLE), chart_colours, draw_css);
    for (size_t p = 0; p < r->position_count; p++) {
        chart c = {.results = results,
                   .positions = p,
                   .value = right_of,
                   .y_name = "right, %, mean over tasks"};
        char title[64];
        snprintf(title, sizeof title, "positions: %s", positions_name(r, p));
        fprintf(file, "<g transform=\"translate(0 %zu)\">\n", p * (HEIGHT + TITLE) + TITLE);
        draw_text(file, LEFT, 0, "start", "", title);
        draw_chart(file, &c);
        fputs("</g>\n", file);
    }
    fputs("</svg>\n", file);
}

void league_page(FILE *file, const void *context) {
    const league_results *results = context;
    html_page_begin(file, "The league", draw_css);
    fprintf(file, "<style>%s</style>\n<h1>The league</h1>\n", own_css);
    fprintf(file,
            "<p class=\"lead\">%zu of %zu models: small decoders trained with every policy on "
            "every task, tested at multiples of their training size.</p>\n",
            results->models, results->expected);
    write_ranking(file, results);
    write_curves(file, results);
    write_maps(file, results);
    write_failures(file, results);
    write_made(file, results);
    html_page_end(file);
}
