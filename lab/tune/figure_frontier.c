/* Gains against prices: a point for every arm or candidate, with intervals, and names that keep out
 * of each other's way. */
#include "report/html.h"
#include "tune/draw.h"
#include "tune/figures.h"

#include <math.h>
#include <string.h>

enum { HEIGHT = 460, LEFT = 70, TOP = 40, RIGHT = 800, BOTTOM = 410 };

typedef struct point {
    const char *name;
    draw_look look;
    lab_interval x, y;
} point;

typedef struct box {
    double left, top, right, bottom;
} box;

static bool overlap(const box *a, const box *b) {
    return a->left < b->right && b->left < a->right && a->top < b->bottom && b->top < a->bottom;
}

static draw_frame empty_frame(void) {
    return (draw_frame){LEFT, TOP, RIGHT, BOTTOM, draw_range_empty(), draw_range_empty()};
}

/* ---- points ---- */

static double inside(double value, double low, double high) { return fmin(fmax(value, low), high); }

static void draw_bars(FILE *file, const draw_frame *f, const point *p) {
    char look[DRAW_CLASS_SIZE];
    double x = draw_x(f, p->x.mean), y = draw_y(f, p->y.mean);
    if (isfinite(p->x.low) && isfinite(p->x.high))
        fprintf(file, "<path class=\"bar %s\" d=\"M%.1f %.1fH%.1f\"/>", draw_class(p->look, look),
                inside(draw_x(f, p->x.low), LEFT, RIGHT), y,
                inside(draw_x(f, p->x.high), LEFT, RIGHT));
    if (isfinite(p->y.low) && isfinite(p->y.high))
        fprintf(file, "<path class=\"bar %s\" d=\"M%.1f %.1fV%.1f\"/>\n", draw_class(p->look, look),
                x, inside(draw_y(f, p->y.low), TOP, BOTTOM),
                inside(draw_y(f, p->y.high), TOP, BOTTOM));
}

static void draw_dot(FILE *file, const draw_frame *f, const point *p, double radius,
                     const char *title) {
    char look[DRAW_CLASS_SIZE];
    fprintf(file, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>",
            draw_class(p->look, look), draw_x(f, p->x.mean), draw_y(f, p->y.mean), radius);
    html_text(file, title);
    fputs("</title></circle>\n", file);
}

/* ---- names ---- */

/* The box of a name at one of many places around a point, nearest first. */
static box place_at(double x, double y, double width, size_t attempt) {
    enum { DIRECTIONS = 8 };
    static const double across[DIRECTIONS] = {1, 1, -1, -1, 1, -1, 0, 0};
    static const double down[DIRECTIONS] = {-1, 1, -1, 1, 0, 0, -1, 1};
    size_t round = attempt / DIRECTIONS, direction = attempt % DIRECTIONS;
    double distance = 8 + 9 * (double)round;
    double shift = across[direction];
    double left = shift > 0 ? x + distance : shift < 0 ? x - distance - width : x - width / 2;
    double top = y + down[direction] * distance - DRAW_LINE / 2.0;
    return (box){left, top, left + width, top + DRAW_LINE};
}

static bool is_free(const box *own, const box *taken, size_t count) {
    bool good = own->left >= LEFT + 2 && own->right <= RIGHT - 2 && own->top >= TOP &&
                own->bottom <= BOTTOM;
    for (size_t i = 0; good && i < count; i++)
        good = !overlap(own, &taken[i]);
    return good;
}

static void draw_names(FILE *file, const draw_frame *f, const point *points, size_t count) {
    enum { ATTEMPTS = 8 * 20 };
    box taken[2 * TUNE_ARMS_MAX];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        double x = draw_x(f, points[i].x.mean), y = draw_y(f, points[i].y.mean);
        taken[used++] = (box){x - 7, y - 7, x + 7, y + 7};
    }
    for (size_t i = 0; i < count; i++) {
        double x = draw_x(f, points[i].x.mean), y = draw_y(f, points[i].y.mean);
        double width = draw_text_width(points[i].name);
        box own = place_at(x, y, width, 0);
        size_t attempt = 0;
        while (++attempt < ATTEMPTS && !is_free(&own, taken, used))
            own = place_at(x, y, width, attempt);
        taken[used++] = own;
        double middle = (own.top + own.bottom) / 2;
        if (attempt > 8)
            fprintf(file, "<path class=\"leader\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x, y,
                    inside(x, own.left, own.right), middle);
        draw_text(file, own.left, middle + 4, "start", "halo", points[i].name);
    }
}

/* ---- arms ---- */

static point point_of(const tune_result *r, const char *name) {
    point p = {.name = name, .look = draw_look_of(r, name)};
    lab_interval price = tune_total_change(r, name, TUNE_ALL);
    lab_interval gain = tune_task_change(r, name, "softmax", tune_right);
    double share = tune_task_mean(r, name, tune_right);
    p.x = (lab_interval){100 * price.mean, 100 * price.low, 100 * price.high, 0};
    p.y = (lab_interval){100 * share, 100 * (share + gain.low - gain.mean),
                         100 * (share + gain.high - gain.mean), 0};
    return p;
}

static void draw_arms(FILE *file, const point *points, size_t count) {
    draw_frame f = empty_frame();
    f.x.is_change = true;
    for (size_t i = 0; i < count; i++) {
        draw_range_include(&f.x, points[i].x.mean);
        draw_range_include(&f.y, points[i].y.mean);
        draw_range_include(&f.y, points[i].y.low);
        draw_range_include(&f.y, points[i].y.high);
    }
    draw_range_pad(&f.x, 0.15, 0.1);
    draw_range_pad(&f.y, 0.08, 0.5);
    f.y.low = fmax(f.y.low, -0.04 * (f.y.high - f.y.low)); /* shares are not negative */
    draw_begin(file, HEIGHT, "Right answer tokens against the change of perplexity");
    draw_axes(file, &f, "price: change of perplexity on the check texts, against softmax",
              "right answer tokens, %");
    for (size_t i = 0; i < count; i++)
        draw_bars(file, &f, &points[i]);
    draw_names(file, &f, points, count);
    for (size_t i = 0; i < count; i++)
        draw_dot(file, &f, &points[i], points[i].look.is_strong ? 6 : 5, points[i].name);
    draw_end(file);
}

size_t tune_figure_frontier(FILE *file, const tune_result *r, const char **left_out) {
    const char *names[TUNE_ARMS_MAX];
    size_t arms = tune_arms(r, names), count = 0, skipped = 0;
    point points[TUNE_ARMS_MAX];
    double widest = 2; /* per cent */
    for (size_t i = 0; i < arms; i++)
        if (!tune_arm_is_other(names[i]) && !strstr(names[i], "rule"))
            widest = fmax(widest, fabs(point_of(r, names[i]).x.mean));
    for (size_t i = 0; i < arms; i++) {
        points[count] = point_of(r, names[i]);
        bool is_drawn = fabs(points[count].x.mean) <= 2 * widest && isfinite(points[count].y.mean);
        if (is_drawn)
            count++;
        else
            left_out[skipped++] = names[i];
    }
    draw_arms(file, points, count);
    return skipped;
}

/* ---- candidates ---- */

/* Losses of texts are shown as changes of perplexity, those of answers in nats. */
static point candidate_point(const tune_request *request, const tune_candidate *c) {
    point p = {.look = {c->by == TUNE_BY_ALL ? 2 : 3, c->share < 1, false}};
    p.x = (lab_interval){100 * c->worst, NAN, NAN, 0};
    p.y = c->gain;
    if (!request->task)
        p.y = (lab_interval){100 * expm1(c->gain.mean), 100 * expm1(c->gain.low),
                             100 * expm1(c->gain.high), 0};
    return p;
}

static void draw_candidate(FILE *file, const draw_frame *f, const tune_request *request,
                           const tune_result *r, const tune_candidate *c) {
    char title[256];
    const point p = candidate_point(request, c);
    if (!isfinite(p.x.mean) || !isfinite(p.y.mean))
        return;
    snprintf(title, sizeof title,
             "by %s, seed %zu, step %zu, share %g: gain %+.3f%s, worst domain %+.2f %%",
             tune_by_names[c->by], c->seed, c->step, c->share, p.y.mean,
             request->task ? " nats" : " %", p.x.mean);
    draw_bars(file, f, &p);
    draw_dot(file, f, &p, 4, title);
    if (tune_is_chosen(r, c))
        fprintf(file, "<circle class=\"ring\" cx=\"%.1f\" cy=\"%.1f\" r=\"8\"/>\n",
                draw_x(f, p.x.mean), draw_y(f, p.y.mean));
}

static void draw_key(FILE *file, const tune_request *request) {
    static const char *const what[] = {"one number for all heads", "one for each layer",
                                       "one for each head"};
    double x = LEFT + 230;
    fprintf(file, "<circle class=\"dot c2\" cx=\"%.0f\" cy=\"%d\" r=\"4\"/>", x, TOP - 16);
    draw_text(file, x + 9, TOP - 12, "start", "", what[TUNE_BY_ALL]);
    x += 30 + draw_text_width(what[TUNE_BY_ALL]);
    if (request->by != TUNE_BY_ALL) {
        fprintf(file, "<circle class=\"dot c3\" cx=\"%.0f\" cy=\"%d\" r=\"4\"/>", x, TOP - 16);
        draw_text(file, x + 9, TOP - 12, "start", "", what[request->by]);
        x += 30 + draw_text_width(what[request->by]);
    }
    fprintf(file, "<circle class=\"ring\" cx=\"%.0f\" cy=\"%d\" r=\"6\"/>", x, TOP - 16);
    draw_text(file, x + 11, TOP - 12, "start", "", "chosen");
}

void tune_figure_candidates(FILE *file, const tune_request *request, const tune_result *r) {
    draw_frame f = empty_frame();
    f.x.is_change = true;
    f.y.is_change = !request->task;
    draw_range_include(&f.x, 0);
    draw_range_include(&f.y, 0);
    for (size_t i = 0; i < r->candidate_count; i++) {
        const point p = candidate_point(request, &r->candidates[i]);
        draw_range_include(&f.x, p.x.mean);
        draw_range_include(&f.y, p.y.mean);
    }
    if (100 * request->limit <= fmax(1, 3 * (f.x.high - f.x.low))) /* else it is far away */
        draw_range_include(&f.x, 100 * request->limit);
    /* Wide intervals may leave the frame. */
    double most = f.y.high + (f.y.high - f.y.low) / 2, least = f.y.low - (f.y.high - f.y.low);
    for (size_t i = 0; i < r->candidate_count; i++) {
        const point p = candidate_point(request, &r->candidates[i]);
        draw_range_include(&f.y, fmax(p.y.low, least));
        draw_range_include(&f.y, fmin(p.y.high, most));
    }
    draw_range_pad(&f.x, 0.08, 0.1);
    draw_range_pad(&f.y, 0.06, request->task ? 0.005 : 0.1);
    draw_begin(file, HEIGHT, "Gain of every candidate against its price");
    draw_axes(file, &f, "largest change of perplexity in any validation domain",
              request->task ? "change of the answers' loss, nats" : "change of perplexity");
    draw_mark(file, &f, 100 * request->limit, "limit");
    draw_key(file, request);
    for (size_t i = 0; i < r->candidate_count; i++)
        draw_candidate(file, &f, request, r, &r->candidates[i]);
    draw_end(file);
}
