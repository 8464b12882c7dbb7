/* The table of the experiment on CLRS-Text from a result that is made up, and the published points.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"

#include "report/clrs.h"
#include "report/published_clrs.h"

#include <stdio.h>
#include <stdlib.h>

/* A share below 0 stands for none. */
static json_t *share(double mean) {
    json_t *number = mean < 0 ? json_null() : json_real(mean);
    return json_pack("{s:o, s:f, s:f}", "mean", number, "low", 0.0, "high", 1.0);
}

static json_t *row(const char *algorithm, int length, double exact, double final) {
    return json_pack("{s:s, s:b, s:i, s:i, s:o, s:o, s:[[f, f]], s:i, s:i}", "algorithm", algorithm,
                     "hints", 0, "length", length, "samples", 10, "exact", share(exact), "final",
                     share(final), "entropy_after", 1.5, 2.0, "question_tokens", 50,
                     "answer_tokens", 10);
}

static json_t *made_up_result(void) {
    json_t *plain = json_pack("[o, o, o, o, o]", row("bfs", 4, 1, 1), row("bfs", 8, 0.5, 1),
                              row("bfs", 9, 0.25, 0.25), row("bfs", 24, -1, -1),
                              row("minimum", 4, 0.125, 0.125));
    json_t *other = json_pack("[o]", row("bfs", 4, 0, 0));
    json_t *result = json_pack(
        "{s:s, s:{s:i, s:i, s:i}, s:i, s:{s:[i, i], s:i, s:i, s:i}, s:i, s:i, "
        "s:[{s:s, s:s, s:s, s:b, s:o}, {s:s, s:s, s:s, s:b, s:o}]}",
        "scale", "quick", "shape", "layers", 1, "width", 8, "heads", 2, "parameters", 1000,
        "training", "lengths", 4, 8, "steps", 50, "batch", 32, "accumulate", 2, "seeds", 1,
        "samples", 10, "arms", "name", "softmax", "trained", "softmax", "policy", "softmax",
        "is_main", 1, "rows", plain, "name", "adaptive at inference only", "trained", "softmax",
        "policy", "adaptive", "is_main", 1, "rows", other);
    REQUIRE(result != NULL);
    return result;
}

/* What a function writes, to be freed. */
static char *written(const json_t *result, bool as_html) {
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    REQUIRE(file != NULL);
    if (as_html)
        clrs_html(file, result);
    else
        CHECK(clrs_print(file, result));
    fclose(file);
    return text;
}

TEST(rows_and_algorithms_are_found) {
    const char *names[CLRS_NAMES_MAX];
    json_t *result = made_up_result();
    const json_t *arm = json_array_get(json_object_get(result, "arms"), 0);
    CHECK_INT(clrs_algorithms_of(result, names), 2);
    CHECK_STR(names[0], "bfs");
    CHECK_STR(names[1], "minimum");
    CHECK(clrs_row(arm, "bfs", 9) != NULL);
    CHECK(clrs_row(arm, "bfs", 10) == NULL);
    CHECK(clrs_row(NULL, "bfs", 9) == NULL);
    CHECK_INT(clrs_algorithms_of(NULL, names), 0);
    json_decref(result);
}

static json_t *seed(double exact, int samples) {
    json_t *number = exact < 0 ? json_null() : json_real(exact);
    return json_pack("{s:i, s:{s:o, s:n, s:n}}", "samples", samples, "exact", "mean", number, "low",
                     "high");
}

static json_t *combined(double a, double b, int samples) {
    json_t *of[] = {seed(a, samples), seed(b, samples)};
    json_t *result = clrs_combine((const json_t *const *)of, 2, "exact");
    json_decref(of[0]);
    json_decref(of[1]);
    REQUIRE(result != NULL);
    return result;
}

static double part(const json_t *of, const char *name) {
    return json_number_value(json_object_get(of, name));
}

TEST(seeds_that_agree_leave_the_doubt_of_their_questions) {
    json_t *all = combined(1, 1, 50); /* Wilson's interval of 100 in 100 */
    CHECK_NEAR(part(all, "low"), 0.963, 1e-3);
    CHECK_NEAR(part(all, "high"), 1, 1e-12);
    json_decref(all);
    all = combined(0.25, 0.75, 1000); /* seeds differ by more than questions can */
    CHECK_NEAR(part(all, "mean"), 0.5, 1e-12);
    CHECK(part(all, "low") == 0 && part(all, "high") == 1);
    json_decref(all);
}

TEST(what_a_seed_was_not_asked_has_no_interval) {
    json_t *all = combined(1, -1, 50);
    CHECK(json_is_null(json_object_get(all, "mean")));
    CHECK(json_is_null(json_object_get(all, "low")));
    CHECK(json_is_null(json_object_get(all, "high")));
    json_decref(all);
}

TEST(the_table_has_means_inside_training_and_beyond) {
    json_t *result = made_up_result();
    char *text = written(result, false);
    /* 4 to 8: the mean of 100 and 50; 9 to 16: 25; 24: nothing was there */
    CHECK_MSG(strstr(text, "75.0  25.0   -") != NULL, "%s", text);
    CHECK_MSG(strstr(text, "4-8  9-16  24") != NULL, "%s", text);
    CHECK_MSG(strstr(text, "longer than the model's context: bfs of 24\n") != NULL, "%s", text);
    free(text);
    text = written(result, true);
    CHECK(strstr(text, "<td>75.0<small>final 100.0</small></td><td>25.0</td><td>&ndash;</td>") !=
          NULL);
    CHECK(strstr(text, "50 steps of 64 sequences of lengths 4 to 8, 1 seed;") != NULL);
    free(text);
    json_decref(result);
}

TEST(published_points_are_those_of_the_table_without_hidden_ones) {
    published_clrs_point points[PUBLISHED_CLRS_MAX];
    size_t count = published_clrs("bfs", points);
    CHECK(count > 20 && count <= PUBLISHED_CLRS_MAX);
    CHECK_INT(points[0].length, 4);
    CHECK(points[0].is_trained);
    for (size_t i = 0; i < count; i++) {
        CHECK(points[i].tuned >= 0 && points[i].tuned <= 1);
        CHECK(i == 0 || points[i].length > points[i - 1].length);
    }
    CHECK_INT(published_clrs("bf", points), 0);
    CHECK_INT(published_clrs("", points), 0);
    /* at 4 the line of minimum lies under another */
    CHECK(published_clrs("minimum", points) > 0);
    CHECK_INT(points[0].length, 5);
}
