/* The table of the experiment on CLRS-Text from a result that is made up, and the published points.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"

#include "report/clrs.h"
#include "report/published_clrs.h"

#include <stdio.h>
#include <stdlib.h>

#define ROW(algorithm, length, exact, final)                                                       \
    "{'algorithm': '" algorithm "', 'hints': false, 'length': " length ", 'samples': 10,"          \
    " 'exact': {'mean': " exact ", 'low': 0, 'high': 1},"                                          \
    " 'final': {'mean': " final ", 'low': 0, 'high': 1},"                                          \
    " 'entropy_after': [[1.5, 2]], 'question_tokens': 50, 'answer_tokens': 10}"

static const char
    result_text[] =
        "{'scale': 'quick', 'shape': {'layers': 1, 'width': 8, 'heads': 2}, 'parameters': 1000,"
        " 'training': {'lengths': [4, 8], 'steps': 50, 'batch': 32, 'accumulate': 2}, 'seeds': 1,"
        " 'samples': 10, 'arms': ["
        "{'name': 'softmax', 'trained': 'softmax', 'policy': 'softmax', 'is_main': true, 'rows': "
        "[" ROW("bfs", "4", "1", "1") "," ROW("bfs", "8", "0.5", "1") "," ROW(
            "bfs", "9", "0.25",
            "0.25") "," ROW("bfs", "24", "null",
                            "null") "," ROW("minimum", "4", "0.125",
                                            "0.125") "]},"
                                                     "{'name': 'adaptive at inference only', "
                                                     "'trained': 'softmax', 'policy': 'adaptive',"
                                                     " 'is_main': true, 'rows': [" ROW(
                                                         "bfs", "4", "0", "0") "]}]}";

static json_t *parse_result(void) {
    static char text[sizeof result_text];
    for (size_t i = 0; i < sizeof result_text; i++)
        text[i] = result_text[i] == '\'' ? '"' : result_text[i];
    json_t *json = json_loads(text, 0, NULL);
    REQUIRE(json != NULL);
    return json;
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
    json_t *result = parse_result();
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

TEST(the_table_has_means_inside_training_and_beyond) {
    json_t *result = parse_result();
    char *text = written(result, false);
    /* 4 to 8: the mean of 100 and 50; 9 to 16: 25; 24: nothing was there */
    CHECK_MSG(strstr(text, "75.0  25.0   -") != NULL, "%s", text);
    CHECK_MSG(strstr(text, "4-8  9-16  24") != NULL, "%s", text);
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
