/* The panels of a picture; see plot_panels.h. */
#include "report/plot_panels.h"

#include "report/html.h"

#include <stdlib.h>
#include <string.h>

enum { LABEL_SIZE = 128 };

/* What holds where a script has been read to. */
typedef struct reading {
    const char *text; /* all of it */
    char title[LABEL_SIZE], x[LABEL_SIZE], y[LABEL_SIZE];
    bool has_log_x, has_log_y;
    json_t *panels;
} reading;

static bool begins(const char *line, const char *word) {
    return strncmp(line, word, strlen(word)) == 0;
}

/* The string between the first quotes of a line, which may be single or double. */
static void take_label(const char *line, size_t length, char label[LABEL_SIZE]) {
    size_t from = strcspn(line, "'\"\n"), to = from + 1, size = 0;
    if (from >= length || line[from] == '\n')
        return;
    for (; to < length && line[to] != line[from] && line[to] != '\\' && size < LABEL_SIZE - 5; to++)
        label[size++] = line[to];
    label[size] = '\0';
}

/* "set logscale x 2" and "unset logscale y". */
static void take_scale(reading *r, const char *axes, bool is_log) {
    size_t length = strspn(axes, "xy");
    for (size_t i = 0; i < length; i++)
        *(axes[i] == 'x' ? &r->has_log_x : &r->has_log_y) = is_log;
    if (length == 0)
        r->has_log_x = r->has_log_y = is_log;
}

static void take_setting(reading *r, const char *line, size_t length) {
    if (begins(line, "set title "))
        take_label(line, length, r->title);
    else if (begins(line, "set xlabel "))
        take_label(line, length, r->x);
    else if (begins(line, "set ylabel "))
        take_label(line, length, r->y);
    else if (begins(line, "set logscale "))
        take_scale(r, line + strlen("set logscale "), true);
    else if (begins(line, "unset logscale"))
        take_scale(r, line + strlen("unset logscale") + (line[14] == ' '), false);
}

/* The numbers of a block of data, line by line: what colours stand for. */
static json_t *cells_of(const reading *r, const char *plot) {
    char head[64];
    json_t *rows = json_array(), *row = NULL;
    snprintf(head, sizeof head, "%.*s << END\n", (int)strcspn(plot, " "), plot);
    const char *at = strstr(r->text, head);
    for (at = at ? at + strlen(head) : "END"; !begins(at, "END");) {
        char *end;
        double value = strtod(at, &end);
        if (*at == '\n' || end == at) {
            row = NULL;
            at += strcspn(at, "\n");
            at += *at == '\n';
            if (!*at)
                break;
            continue;
        }
        if (!row && json_array_append_new(rows, json_array()) == 0)
            row = json_array_get(rows, json_array_size(rows) - 1);
        json_array_append_new(row, lab_json_number(value));
        at = end + strspn(end, " ");
    }
    return rows;
}

static void add_panel(reading *r, const char *plot, size_t length) {
    json_t *panel = json_pack("{s:o, s:o, s:o, s:b, s:b}", "title", lab_json_text(r->title), "x",
                              lab_json_text(r->x), "y", lab_json_text(r->y), "logX", r->has_log_x,
                              "logY", r->has_log_y);
    const char *image = strstr(plot, " with image"), *matrix = strstr(plot, " matrix with image");
    if (image && image < plot + length) {
        json_object_set_new(panel, "isMatrix", json_boolean(matrix && matrix <= image));
        json_object_set_new(panel, "cells", cells_of(r, plot + strlen("plot ")));
    }
    json_array_append_new(r->panels, panel);
}

json_t *plot_panels_ask(FILE *script, const char *text) {
    unsigned mark = lab_json_mark();
    reading r = {.text = text, .panels = json_array()};
    bool is_plot = false, is_data = false;
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        length += line[length] == '\n';
        fwrite(line, 1, length, script);
        if (!is_data && !is_plot)
            take_setting(&r, line, length);
        if (!is_data && begins(line, "plot ")) {
            is_plot = true;
            add_panel(&r, line, length);
        }
        bool goes_on = length > 1 && line[length - 2] == '\\';
        if (is_plot && !goes_on) {
            fputs("print sprintf('" PLOT_PANEL_LINE
                  "%.9g %.9g %.9g %.9g %.9g %.9g %.9g %.9g', GPVAL_X_MIN, "
                  "GPVAL_X_MAX, GPVAL_Y_MIN, GPVAL_Y_MAX, GPVAL_TERM_XMIN, GPVAL_TERM_XMAX, "
                  "GPVAL_TERM_YMIN, GPVAL_TERM_YMAX)\n",
                  script);
            is_plot = false;
        }
        is_data = is_data ? !begins(line, "END\n") : *line == '$';
        line += length;
    }
    return lab_json_whole(r.panels, mark);
}

void plot_panels_answer(json_t *panels, const char *log_path) {
    char line[512];
    size_t index = 0;
    FILE *log = fopen(log_path, "r");
    while (log && fgets(line, sizeof line, log)) {
        char *at = line + strlen(PLOT_PANEL_LINE);
        if (!begins(line, PLOT_PANEL_LINE))
            continue;
        json_t *numbers = json_array();
        for (char *end; at[0] && at[0] != '\n'; at = end) {
            double value = strtod(at, &end);
            if (end == at)
                break;
            json_array_append_new(numbers, lab_json_number(value));
        }
        json_object_set_new(json_array_get(panels, index++), "axes", numbers);
    }
    if (log)
        fclose(log);
}

void plot_panels_write(FILE *file, const json_t *panels) {
    char *text = json_dumps(panels, JSON_COMPACT | JSON_REAL_PRECISION(7));
    fputs("<metadata>", file);
    html_text(file, text ? text : "[]");
    fputs("</metadata>", file);
    free(text);
}
