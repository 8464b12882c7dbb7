/*
 * The table of `whet demo`: a line for each n, a column for each policy. Names
 * of policies are broken before colons and pluses, so that columns stay narrow; columns
 * that do not fit side by side follow in a table of their own below.
 */
#include "chart.h"
#include "demo.h"
#include "text.h"

#include <stdbool.h>
#include <string.h>

enum {
    TABLE_WIDTH = 80,
    TABLE_LEFT = 17,       /* n and entropy */
    COLUMN_WIDTH_MIN = 7,  /* with the blanks before it */
    COLUMN_WIDTH_MAX = 16, /* longer parts of a name are cut */
    HEADER_LINES = 8       /* of the parts of a name; what is left is cut */
};

/* What begins a part of a name. */
static const char breaks[] = ":+";

/* Part `line` of a name: "target:0.5+topk:9" has the parts "target", ":0.5", "+topk" and ":9". */
static const char *name_part(const char *name, int line, int *length) {
    for (; line > 0 && *name; line--)
        name += 1 + strcspn(name + 1, breaks);
    *length = *name ? 1 + (int)strcspn(name + 1, breaks) : 0;
    return name;
}

static int column_width(const char *name) {
    int width = COLUMN_WIDTH_MIN;
    for (int line = 0; line < HEADER_LINES; line++) {
        int length;
        name_part(name, line, &length);
        if (length + 2 > width)
            width = length + 2;
    }
    return width < COLUMN_WIDTH_MAX ? width : COLUMN_WIDTH_MAX;
}

static void print_names(const demo_result *result, size_t first, size_t end, int line,
                        terminal_style style) {
    int blanks = 0; /* held back, so that no line ends in them */
    for (size_t i = first; i < end; i++) {
        int length, width = column_width(result->policies->names[i]);
        const char *part = name_part(result->policies->names[i], line, &length);
        int shown = length < width - 1 ? length : width - 1;
        blanks += width - shown;
        if (shown == 0)
            continue;
        chart_color(stdout, style, i);
        printf("%*s%.*s", blanks, "", shown, part);
        chart_plain(stdout, style);
        blanks = 0;
    }
    putchar('\n');
}

static int header_lines(const demo_result *result, size_t first, size_t end) {
    int lines = 1;
    for (size_t i = first; i < end; i++)
        for (int line = lines; line < HEADER_LINES; line++) {
            int length;
            name_part(result->policies->names[i], line, &length);
            if (length > 0)
                lines = line + 1;
        }
    return lines;
}

static void print_percent(int width, double share) {
    double percent = 100 * share;
    printf("%*.*f", width, percent < 9.995 ? 2 : 1, percent);
}

/* The policies from first up to end, which fit side by side. */
static void print_panel(const demo_result *result, size_t first, size_t end, terminal_style style) {
    int lines = header_lines(result, first, end);
    for (int line = 0; line < lines; line++) {
        bool is_last = line + 1 == lines;
        printf("%8s%9s", is_last ? "n" : "", is_last ? "entropy" : "");
        print_names(result, first, end, line, style);
    }
    for (size_t k = 0; k < DEMO_SIZES; k++) {
        char number[NUMBER_SIZE];
        printf("%8s%9.3f", grouped(result->sizes[k], number), result->entropy[k]);
        for (size_t i = first; i < end; i++)
            print_percent(column_width(result->policies->names[i]), result->weight[i][k]);
        putchar('\n');
    }
}

void print_demo_table(const demo_result *result, terminal_style style) {
    char largest[NUMBER_SIZE];
    printf("A head that is sharp among %d items disperses among %s.\n", DEMO_SMALLEST,
           grouped(DEMO_LARGEST, largest));
    printf("Its logits are %d x priority, priorities uniform. The entropy is that of\n",
           DEMO_SLOPE);
    printf("softmax, in nats; the columns show the weight on the largest item, in %%, by\n"
           "policy.\n");
    printf("All figures are means over random sets: %zu for n = %d, %zu for n = %s.\n",
           result->sets[0], DEMO_SMALLEST, result->sets[DEMO_SIZES - 1], largest);
    for (size_t first = 0; first < result->policies->count;) {
        int width = TABLE_LEFT;
        size_t end = first;
        while (end < result->policies->count &&
               width + column_width(result->policies->names[end]) <= TABLE_WIDTH)
            width += column_width(result->policies->names[end++]);
        putchar('\n');
        print_panel(result, first, end, style);
        first = end;
    }
}
