/*
 * The results as a table and as JSON.
 */
#include "comparison.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void comparison_add(comparison *to, const compared_case *added) {
    if (to->count == COMPARED_MAX)
        abort(); /* a mistake in the program */
    to->cases[to->count++] = *added;
}

void comparison_add_lone(lone_cases *to, const char *name) {
    if (to->count == COMPARED_MAX)
        abort(); /* a mistake in the program */
    snprintf(to->names[to->count++], COMPARED_NAME, "%s", name);
}

static int compare_places(const void *a, const void *b) {
    const compared_case *one = a;
    const compared_case *other = b;
    return (one->place > other->place) - (one->place < other->place);
}

void comparison_sort(comparison *sorted) {
    qsort(sorted->cases, sorted->count, sizeof *sorted->cases, compare_places);
}

bool comparison_is_above(const comparison *in, const compared_case *one) {
    return one->ratio.low > in->bar;
}

size_t comparison_above(const comparison *in) {
    size_t above = 0;
    for (size_t i = 0; i < in->count; i++)
        above += comparison_is_above(in, &in->cases[i]);
    return above;
}

static int name_width(const comparison *shown) {
    size_t width = strlen("case");
    for (size_t i = 0; i < shown->count; i++) {
        size_t length = strlen(shown->cases[i].name);
        width = length > width ? length : width;
    }
    return (int)width;
}

static void print_lone(const lone_cases *lone, const char *which) {
    for (size_t i = 0; i < lone->count; i++)
        printf("only in %s, not compared: %s\n", which, lone->names[i]);
}

void comparison_print(const comparison *shown) {
    int width = name_width(shown);
    printf("OLD %s: %s\nNEW %s: %s\n\n", shown->old_library, shown->old_path, shown->new_library,
           shown->new_path);
    printf("%-*s  %9s  %9s  %7s  %-14s  %5s\n", width, "case", "OLD ms", "NEW ms", "NEW/OLD",
           "95 % interval", "pairs");
    for (size_t i = 0; i < shown->count; i++) {
        const compared_case *one = &shown->cases[i];
        printf("%-*s  %9.3f  %9.3f  %7.3f  %.3f to %.3f  %5zu%s\n", width, one->name,
               1e3 * one->old_seconds, 1e3 * one->new_seconds, one->ratio.median, one->ratio.low,
               one->ratio.high, one->ratio.pairs,
               comparison_is_above(shown, one) ? "  SLOWER" : "");
    }
    printf("\n");
    print_lone(&shown->only_old, "OLD");
    print_lone(&shown->only_new, "NEW");
    size_t above = comparison_above(shown);
    printf("%zu of %zu cases %s entirely above %g\n", above, shown->count,
           above == 1 ? "lies" : "lie", shown->bar);
}

static json_t *lone_to_json(const lone_cases *lone) {
    json_t *list = json_array();
    for (size_t i = 0; i < lone->count; i++)
        json_array_append_new(list, lab_json_text(lone->names[i]));
    return list;
}

static json_t *case_to_json(const comparison *in, const compared_case *one) {
    return json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:I, s:b}", "case", lab_json_text(one->name),
                     "old_seconds", one->old_seconds, "new_seconds", one->new_seconds, "ratio",
                     one->ratio.median, "low", one->ratio.low, "high", one->ratio.high, "pairs",
                     (json_int_t)one->ratio.pairs, "above_bar", comparison_is_above(in, one));
}

static json_t *to_json(const comparison *written) {
    unsigned mark = lab_json_mark();
    json_t *cases = json_array();
    for (size_t i = 0; i < written->count; i++)
        json_array_append_new(cases, case_to_json(written, &written->cases[i]));
    json_t *all = json_pack(
        "{s:{s:o, s:o}, s:{s:o, s:o}, s:f, s:I, s:o, s:o, s:o}", "old", "path",
        lab_json_text(written->old_path), "library", lab_json_text(written->old_library), "new",
        "path", lab_json_text(written->new_path), "library", lab_json_text(written->new_library),
        "bar", written->bar, "above_bar", (json_int_t)comparison_above(written), "cases", cases,
        "only_old", lone_to_json(&written->only_old), "only_new", lone_to_json(&written->only_new));
    return lab_json_whole(all, mark);
}

bool comparison_write_json(const comparison *written, const char *path) {
    lab_error error = {.kind = LAB_NO_ERROR};
    json_t *json = to_json(written);
    bool is_written = lab_json_write(path, json, &error);
    if (!is_written)
        fprintf(stderr, "compare-builds: %s\n", error.text);
    json_decref(json);
    return is_written;
}
