/*
 * The demo's chart as a picture: a self-contained SVG, light background, one
 * curve a policy, both axes logarithmic. Each curve is named at its right
 * end, in its own colour; where ends lie close together the names are moved
 * apart, just as far as they need, and a thin line leads back.
 */
#include "demo.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>

enum {
    PLOT_LEFT = 74,
    PLOT_TOP = 78,
    PLOT_WIDTH = 640,
    PLOT_HEIGHT = 320,
    LABEL_LEFT = PLOT_LEFT + PLOT_WIDTH + 22,
    LABEL_HEIGHT = 16,
    PICTURE_HEIGHT = PLOT_TOP + PLOT_HEIGHT + 66,
    LABELS_MAX = 21 /* what fits the plot's height; further curves have no name */
};

/* Readable on white, and distinct for most kinds of colour blindness. */
static const char *const colors[] = {"#c1272d", "#0072b2", "#56a3d9", "#7a5195",
                                     "#b07d00", "#00805a", "#d4587a", "#5b5b5b"};

static const char *color(size_t i) { return colors[i % (sizeof colors / sizeof colors[0])]; }

static double x_of(size_t k) {
    return PLOT_LEFT + (double)PLOT_WIDTH * (double)k / (DEMO_SIZES - 1);
}

static double y_of(const demo_result *result, double share) {
    double depth = share > 0 ? -log10(share) / result->decades : 1;
    return PLOT_TOP + PLOT_HEIGHT * fmin(fmax(depth, 0), 1);
}

static void write_text(FILE *file, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        default:
            fputc(*text, file);
        }
    }
}

static size_t longest_name(const policy_list *policies) {
    size_t longest = 0;
    for (size_t i = 0; i < policies->count; i++) {
        size_t length = 0;
        while (policies->names[i][length])
            length++;
        longest = length > longest ? length : longest;
    }
    return longest;
}

static void write_head(FILE *file, const demo_result *result) {
    /* Bold letters of this size are about 8 wide in the widest of the common fonts. */
    size_t width = LABEL_LEFT + longest_name(result->policies) * 17 / 2 + 14;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %zu %d\" width=\"%zu\" "
            "height=\"%d\"\n"
            "     font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\" "
            "font-size=\"13\" fill=\"#333\">\n"
            "<title>Weight on the largest of n items, by policy</title>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, PICTURE_HEIGHT, width, PICTURE_HEIGHT);
    fprintf(file,
            "<text x=\"%d\" y=\"30\" font-size=\"18\" font-weight=\"600\" fill=\"#111\">"
            "A sharp head disperses as its input grows</text>\n"
            "<text x=\"%d\" y=\"52\" fill=\"#555\">Weight on the largest of n items; "
            "logits %d × priority, priorities uniform, mean over random sets</text>\n",
            PLOT_LEFT, PLOT_LEFT, DEMO_SLOPE);
}

/* A line at each power of ten, with its label, and fainter ones between. */
static void write_y_axis(FILE *file, const demo_result *result) {
    fputs("<g text-anchor=\"end\" font-size=\"12\" fill=\"#555\" stroke-width=\"1\">\n", file);
    for (int decade = 0; decade <= result->decades; decade++) {
        double share = pow(10, -decade), y = y_of(result, share);
        fprintf(file,
                "<path d=\"M%d %.1fh%d\" stroke=\"%s\"/>"
                "<text x=\"%d\" y=\"%.1f\">%g %%</text>\n",
                PLOT_LEFT, y, PLOT_WIDTH, decade == result->decades ? "#888" : "#d4d4d4",
                PLOT_LEFT - 9, y + 4, 100 * share);
        for (int part = 2; part <= 9 && decade > 0; part++)
            fprintf(file, "<path d=\"M%d %.1fh%d\" stroke=\"#f1f1f1\"/>\n", PLOT_LEFT,
                    y_of(result, part * share), PLOT_WIDTH);
    }
    fprintf(file,
            "</g>\n<text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\">"
            "weight on the largest item</text>\n",
            PLOT_TOP + PLOT_HEIGHT / 2);
}

static void write_x_axis(FILE *file, const demo_result *result) {
    fputs("<g text-anchor=\"middle\" font-size=\"11\" fill=\"#555\">\n", file);
    for (size_t k = 0; k < DEMO_SIZES; k++) {
        char number[NUMBER_SIZE];
        fprintf(file,
                "<path d=\"M%.1f %dv5\" stroke=\"#888\"/>"
                "<text x=\"%.1f\" y=\"%d\">%s</text>\n",
                x_of(k), PLOT_TOP + PLOT_HEIGHT, x_of(k), PLOT_TOP + PLOT_HEIGHT + 20,
                grouped(result->sizes[k], number));
    }
    fprintf(file,
            "</g>\n<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">"
            "n, the number of items</text>\n",
            PLOT_LEFT + PLOT_WIDTH / 2, PLOT_TOP + PLOT_HEIGHT + 46);
}

static void write_curve(FILE *file, const demo_result *result, size_t policy) {
    fprintf(file,
            "<g stroke=\"%s\" fill=\"%s\"><path fill=\"none\" stroke-width=\"2.2\" "
            "stroke-linejoin=\"round\" d=\"",
            color(policy), color(policy));
    for (size_t k = 0; k < DEMO_SIZES; k++)
        fprintf(file, "%c%.1f %.1f", k == 0 ? 'M' : 'L', x_of(k),
                y_of(result, result->weight[policy][k]));
    fputs("\"/>\n", file);
    for (size_t k = 0; k < DEMO_SIZES; k++)
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" stroke=\"none\"/>", x_of(k),
                y_of(result, result->weight[policy][k]));
    fputs("</g>\n", file);
}

typedef struct label {
    size_t policy;
    double end; /* where the curve ends */
    double y;   /* where the name stands */
} label;

static int compare_labels(const void *a, const void *b) {
    const label *first = a, *second = b;
    if (first->end != second->end)
        return first->end < second->end ? -1 : 1;
    return first->policy < second->policy ? -1 : first->policy > second->policy;
}

/*
 * Moves labels, sorted from top to bottom, apart: each run of labels that touch
 * is centred on the mean of their ends, and joined with the run above it while
 * the two overlap.
 */
static void spread_labels(label *labels, size_t count) {
    size_t run_start[LABELS_MAX];
    size_t runs = 0;
    for (size_t i = 0; i < count; i++) {
        run_start[runs++] = i;
        for (;;) {
            size_t start = run_start[runs - 1];
            double mean = 0, length = (double)(i - start + 1);
            for (size_t j = start; j <= i; j++)
                mean += labels[j].end / length;
            double top = mean - (length - 1) * LABEL_HEIGHT / 2;
            double lowest = PLOT_TOP + PLOT_HEIGHT - (length - 1) * LABEL_HEIGHT;
            top = fmax(fmin(top, lowest), PLOT_TOP);
            for (size_t j = start; j <= i; j++)
                labels[j].y = top + (double)(j - start) * LABEL_HEIGHT;
            if (runs < 2 || labels[start].y >= labels[start - 1].y + LABEL_HEIGHT)
                break;
            runs--;
        }
    }
}

static void write_labels(FILE *file, const demo_result *result) {
    label labels[LABELS_MAX] = {0};
    size_t count = result->policies->count < LABELS_MAX ? result->policies->count : LABELS_MAX;
    for (size_t i = 0; i < count; i++)
        labels[i] = (label){.policy = i, .end = y_of(result, result->weight[i][DEMO_SIZES - 1])};
    qsort(labels, count, sizeof labels[0], compare_labels);
    spread_labels(labels, count);
    for (size_t i = 0; i < count; i++) {
        const char *stroke = color(labels[i].policy);
        fprintf(file,
                "<path d=\"M%d %.1fL%d %.1f\" fill=\"none\" stroke=\"%s\" stroke-width=\"0.8\"/>"
                "<text x=\"%d\" y=\"%.1f\" fill=\"%s\" font-weight=\"600\">",
                PLOT_LEFT + PLOT_WIDTH + 5, labels[i].end, LABEL_LEFT - 4, labels[i].y, stroke,
                LABEL_LEFT, labels[i].y + 4.5, stroke);
        write_text(file, result->policies->names[labels[i].policy]);
        fputs("</text>\n", file);
    }
}

void write_demo_svg(FILE *file, const void *context) {
    const demo_result *result = context;
    write_head(file, result);
    write_y_axis(file, result);
    write_x_axis(file, result);
    for (size_t i = result->policies->count; i-- > 0;)
        write_curve(file, result, i);
    write_labels(file, result);
    fputs("</svg>\n", file);
}
