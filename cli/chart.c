/*
 * Line charts in the terminal. Curves are drawn into a grid of dots, several to
 * a character cell where braille is to be had (2 across, 4 down) and one where
 * it is not; a letter stands at each point of a curve, so that curves can be
 * told apart without colours. Earlier series are drawn over later ones.
 */
#include "chart.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
    CELLS_A_POINT = 5,
    WIDTH = (CHART_POINTS_MAX - 1) * CELLS_A_POINT + 1, /* in cells */
    HEIGHT = 19,
    MARGIN = 9, /* columns left of the curves, the axis included */
    NO_SERIES = -1
};

typedef struct dot_cell {
    unsigned char dots; /* bit 2 * row + column of the dot within the cell */
    char letter;
    int series;
} dot_cell;

typedef struct dot_canvas {
    dot_cell cells[HEIGHT][WIDTH];
    int dots_across; /* in a cell */
    int dots_down;
    int decades;
    bool unicode;
} dot_canvas;

/* Seven that differ, most of them as the user's theme has them; then brighter ones. */
static const char *const colors[] = {"31", "33",       "32", "36", "35",
                                     "94", "38;5;208", "95", "92", "96"};

static char letter_of(size_t series) { return CHART_LETTERS[series % (sizeof CHART_LETTERS - 1)]; }

void chart_color(FILE *file, terminal_style style, size_t series) {
    if (style.color)
        fprintf(file, "\033[%sm", colors[series % (sizeof colors / sizeof colors[0])]);
}

void chart_plain(FILE *file, terminal_style style) {
    if (style.color)
        fputs("\033[0m", file);
}

static void clear(dot_canvas *canvas, bool unicode, int decades) {
    memset(canvas, 0, sizeof *canvas);
    canvas->unicode = unicode;
    canvas->decades = decades;
    canvas->dots_across = unicode ? 2 : 1;
    canvas->dots_down = unicode ? 4 : 1;
    for (int row = 0; row < HEIGHT; row++)
        for (int column = 0; column < WIDTH; column++)
            canvas->cells[row][column].series = NO_SERIES;
}

/* The middle of a cell is where its letter stands, so curves run from middle to middle. */
static double dot_row(const dot_canvas *canvas, double share) {
    double top = canvas->dots_down * 0.5 - 0.5;
    double depth = share > 0 ? -log10(share) / canvas->decades : 1;
    return top + fmin(fmax(depth, 0), 1) * (HEIGHT - 1) * canvas->dots_down;
}

static void set_dot(dot_canvas *canvas, int x, int y, int series) {
    dot_cell *cell = &canvas->cells[y / canvas->dots_down][x / canvas->dots_across];
    int bit = 2 * (y % canvas->dots_down) + x % canvas->dots_across;
    if (cell->series != series)
        cell->dots = 0;
    cell->dots = (unsigned char)(cell->dots | 1u << bit);
    cell->series = series;
}

/* From one point to the next: a dot in each column, and what is needed to close steep parts. */
static void draw_segment(dot_canvas *canvas, int point, double from, double to, int series) {
    int steps = CELLS_A_POINT * canvas->dots_across;
    int x0 = point * steps;
    double y0 = dot_row(canvas, from), y1 = dot_row(canvas, to);
    int last = (int)lround(y0);
    for (int step = 0; step <= steps; step++) {
        int y = (int)lround(y0 + (y1 - y0) * step / steps);
        int direction = y < last ? -1 : 1;
        while (last != y && last + direction != y) {
            last += direction;
            set_dot(canvas, x0 + step, last, series);
        }
        set_dot(canvas, x0 + step, y, series);
        last = y;
    }
}

static void draw_series(dot_canvas *canvas, const line_chart *chart, int series) {
    const double *shares = chart->series[series].shares;
    for (int i = 0; i + 1 < (int)chart->points; i++)
        draw_segment(canvas, i, shares[i], shares[i + 1], series);
}

static void put_letters(dot_canvas *canvas, const line_chart *chart, int series) {
    for (size_t i = 0; i < chart->points; i++) {
        int row = (int)lround(dot_row(canvas, chart->series[series].shares[i])) / canvas->dots_down;
        dot_cell *cell = &canvas->cells[row][i * CELLS_A_POINT];
        cell->letter = letter_of((size_t)series);
        cell->series = series;
    }
}

static void print_braille(FILE *file, unsigned dots) {
    /* Braille numbers its dots 1 2 3 7 down the left and 4 5 6 8 down the right. */
    static const unsigned char bit_of_dot[8] = {0, 3, 1, 4, 2, 5, 6, 7};
    unsigned pattern = 0;
    for (unsigned dot = 0; dot < 8; dot++)
        if (dots >> dot & 1)
            pattern |= 1u << bit_of_dot[dot];
    unsigned code = 0x2800 + pattern;
    fputc((int)(0xe0 | code >> 12), file);
    fputc((int)(0x80 | (code >> 6 & 0x3f)), file);
    fputc((int)(0x80 | (code & 0x3f)), file);
}

static void print_cell(FILE *file, const dot_canvas *canvas, const dot_cell *cell,
                       terminal_style style) {
    if (cell->series == NO_SERIES) {
        fputc(' ', file);
        return;
    }
    chart_color(file, style, (size_t)cell->series);
    if (cell->letter)
        fputc(cell->letter, file);
    else if (canvas->unicode)
        print_braille(file, cell->dots);
    else
        fputc('.', file);
    chart_plain(file, style);
}

static int last_used_column(const dot_canvas *canvas, int row) {
    int column = WIDTH - 1;
    while (column >= 0 && canvas->cells[row][column].series == NO_SERIES)
        column--;
    return column;
}

/* The power of ten whose tick is in this row, counted down from 100 %; -1 if there is none. */
static int decade_of_row(const dot_canvas *canvas, int row) {
    for (int decade = 0; decade <= canvas->decades; decade++)
        if ((int)lround(dot_row(canvas, pow(10, -decade))) / canvas->dots_down == row)
            return decade;
    return -1;
}

static void print_row(FILE *file, const dot_canvas *canvas, int row, terminal_style style) {
    int decade = decade_of_row(canvas, row);
    bool has_tick = decade >= 0;
    if (has_tick)
        fprintf(file, "%*g %% ", MARGIN - 4, pow(10, 2 - decade));
    else
        fprintf(file, "%*s", MARGIN - 1, "");
    if (canvas->unicode)
        fputs(has_tick ? "┤" : "│", file);
    else
        fputc(has_tick ? '+' : '|', file);
    int last = last_used_column(canvas, row);
    for (int column = 0; column <= last; column++)
        print_cell(file, canvas, &canvas->cells[row][column], style);
    fputc('\n', file);
}

static void print_axis(FILE *file, const line_chart *chart, const dot_canvas *canvas) {
    fprintf(file, "%*s%s", MARGIN - 1, "", canvas->unicode ? "└" : "+");
    for (size_t column = 0; column <= (chart->points - 1) * CELLS_A_POINT; column++) {
        bool has_tick = column % CELLS_A_POINT == 0;
        if (canvas->unicode)
            fputs(has_tick ? "┴" : "─", file);
        else
            fputc(has_tick ? '+' : '-', file);
    }
    fputc('\n', file);
}

/* Puts a label under its point if it leaves a blank on both sides. */
static void place_label(char *line, size_t size, size_t point, const char *label) {
    size_t length = strlen(label);
    size_t start = MARGIN + point * CELLS_A_POINT - length / 2;
    if (start + length + 1 >= size)
        return;
    for (size_t i = start - 1; i <= start + length; i++)
        if (line[i] != ' ')
            return;
    for (size_t i = 0; i < length; i++)
        line[start + i] = label[i];
}

static void print_labels(FILE *file, const line_chart *chart) {
    char line[MARGIN + WIDTH + MARGIN];
    memset(line, ' ', sizeof line);
    place_label(line, sizeof line, chart->points - 1, chart->x_labels[chart->points - 1]);
    for (size_t i = 0; i < chart->points; i += 2)
        place_label(line, sizeof line, i, chart->x_labels[i]);
    size_t used = sizeof line;
    while (used > 0 && line[used - 1] == ' ')
        used--;
    fprintf(file, "%.*s\n", (int)used, line);
    int middle = MARGIN + (int)(chart->points - 1) * CELLS_A_POINT / 2;
    fprintf(file, "%*s%s\n", middle - (int)strlen(chart->x_title) / 2, "", chart->x_title);
}

static void print_legend(FILE *file, const line_chart *chart, terminal_style style) {
    size_t limit = MARGIN + WIDTH, used = 0;
    for (size_t i = 0; i < chart->series_count; i++) {
        size_t needed = strlen(chart->series[i].name) + 5;
        if (used > 0 && used + needed > limit) {
            fputc('\n', file);
            used = 0;
        }
        fprintf(file, "%*s", used == 0 ? MARGIN : 3, "");
        used += used == 0 ? MARGIN + needed - 3 : needed;
        chart_color(file, style, i);
        fprintf(file, "%c %s", letter_of(i), chart->series[i].name);
        chart_plain(file, style);
    }
    fputc('\n', file);
}

void draw_chart(FILE *file, const line_chart *chart, terminal_style style) {
    dot_canvas canvas;
    clear(&canvas, style.unicode, chart->decades);
    for (int series = (int)chart->series_count - 1; series >= 0; series--)
        draw_series(&canvas, chart, series);
    for (int series = (int)chart->series_count - 1; series >= 0; series--)
        put_letters(&canvas, chart, series);
    fprintf(file, "%s\n", chart->title);
    for (int row = 0; row < HEIGHT; row++)
        print_row(file, &canvas, row, style);
    print_axis(file, chart, &canvas);
    print_labels(file, chart);
    print_legend(file, chart, style);
}
