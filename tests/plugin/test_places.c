/*
 * Layers and heads that settings name and the model does not have are reported with the variable
 * that names them, and nothing else is.
 */
#include "places.h"
#include "llama/environment.h"
#include "temporary.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char reported[2048];
static places seen;

static void keep(const char *line) {
    size_t used = strlen(reported);
    snprintf(reported + used, sizeof reported - used, "%s\n", line);
}

/* Five layers of eight heads. */
static void before_each(void) {
    environment_clear();
    memset(&seen, 0, sizeof seen);
    for (unsigned layer = 0; layer < 5; layer++)
        places_see(&seen, layer, 8);
}

__attribute__((constructor)) static void before(void) { check_before_each(before_each); }

/* What is reported under the settings of the environment. */
static const char *report(void) {
    settings s;
    message why = {""};
    reported[0] = 0;
    if (CHECK_MSG(settings_load(&s, &why), "%s", why.text)) {
        places_report(&seen, &s, keep);
        settings_free(&s);
    }
    return reported;
}

static const char *report_of(const char *layers, const char *heads) {
    setenv("WHET_POLICY", "adaptive", 1);
    setenv("WHET_LAYERS", layers, 1);
    setenv("WHET_HEADS", heads, 1);
    return report();
}

TEST(what_the_model_has_is_not_reported) {
    CHECK_STR(report(), "");
    CHECK_STR(report_of("", ""), "");
    CHECK_STR(report_of("0,1,4", "0-7"), "");
    CHECK_STR(report_of("", "7"), "");
}

TEST(a_missing_layer_is_reported_with_its_variable) {
    CHECK_STR(
        report_of("5", ""),
        "WHET_LAYERS: the model has no layer 5, only 0 to 4; the policy had no effect there\n");
    CHECK_STR(
        report_of("0,65535", "3"),
        "WHET_LAYERS: the model has no layer 65535, only 0 to 4; the policy had no effect there\n");
}

TEST(the_missing_part_of_a_range_is_reported) {
    CHECK_STR(
        report_of("3-70,60-61", ""),
        "WHET_LAYERS: the model has no layers 5-70, only 0 to 4; the policy had no effect there\n"
        "WHET_LAYERS: the model has no layers 60-61, only 0 to 4; the policy had no effect "
        "there\n");
}

TEST(a_missing_head_is_reported_with_its_variable) {
    CHECK_STR(report_of("", "0,8"),
              "WHET_HEADS: the model has no head 8, only 0 to 7; the policy had no effect there\n");
    CHECK_STR(
        report_of("2", "6-40"),
        "WHET_HEADS: the model has no heads 8-40, only 0 to 7; the policy had no effect there\n");
}

TEST(heads_are_counted_in_the_layers_that_are_named) {
    places_see(&seen, 4, 16);
    places_see(&seen, 4, 12); /* of another model */
    CHECK_STR(report_of("4", "15"), "");
    CHECK_STR(
        report_of("3", "15"),
        "WHET_HEADS: the model has no head 15, only 0 to 7; the policy had no effect there\n");
}

TEST(a_layer_without_attention_is_reported) {
    places_see(&seen, 8, 8);
    CHECK_STR(
        report_of("6", ""),
        "WHET_LAYERS: the model has no layer 6, only 0 to 8; the policy had no effect there\n");
    CHECK_STR(report_of("4-6", ""), "");
}

TEST(a_rule_of_a_file_is_reported_by_its_number) {
    char path[] = "/tmp/whet-places.XXXXXX", expected[512];
    static const char text[] = "{\"rules\": [{\"layers\": \"1\", \"policy\": \"adaptive\"},\n"
                               "{\"layers\": \"20-21\", \"policy\": \"adaptive\"},\n"
                               "{\"heads\": \"9\", \"policy\": \"adaptive\"}]}";
    temporary_file(path, text);
    setenv("WHET_CONFIG", path, 1);
    snprintf(expected, sizeof expected,
             "WHET_CONFIG=%s: \"layers\" of rule 2: the model has no layers 20-21, only 0 to 4; "
             "the policy had no effect there\n"
             "WHET_CONFIG=%s: \"heads\" of rule 3: the model has no head 9, only 0 to 7; "
             "the policy had no effect there\n",
             path, path);
    CHECK_STR(report(), expected);
    unlink(path);
}

TEST(the_first_of_many_are_reported_and_the_rest_counted) {
    static const char last[] = "and 12 more that the model does not have\n";
    report_of("10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29", "");
    size_t lines = 0;
    for (const char *p = reported; *p; p++)
        lines += *p == '\n';
    CHECK_INT(lines, PLACES_REPORTED + 1);
    CHECK_MSG(strlen(reported) > sizeof last &&
                  strcmp(reported + strlen(reported) + 1 - sizeof last, last) == 0,
              "%s", reported);
}

TEST(nothing_is_reported_without_attention) {
    memset(&seen, 0, sizeof seen);
    CHECK_STR(report_of("99", "99"), "");
}
