// Files of policies by layer and head: what they mean, and what is refused.
#include "support/check.h"

#include "base/atomic_file.h"
#include "lm/policy_file.h"

#include <string.h>
#include <unistd.h>

enum { LAYERS = 3, HEADS = 4 };

static whet_policy policies[LAYERS * HEADS];
static lab_error error;
static char path[64];

__attribute__((destructor)) static void remove_file(void) { unlink(path); }

static bool read_text(const char *text) {
    snprintf(path, sizeof path, "/tmp/whet-policies-%d.json", (int)getpid());
    REQUIRE(replace_file_bytes(path, text, strlen(text)));
    error = (lab_error){0};
    return lm_policy_file_read(path, LAYERS, HEADS, policies, &error);
}

static void check_names(const char *const *expected) {
    for (size_t i = 0; i < LAYERS * HEADS; i++) {
        char name[64];
        whet_policy_name(&policies[i], name, sizeof name);
        CHECK_STR(name, expected[i]);
    }
}

TEST(the_last_rule_that_names_a_head_decides) {
    REQUIRE(read_text("{\"policy\": \"fixed:2\", \"about\": {\"x\": [1]}, \"rules\": ["
                      "{\"layers\": \"1-2\", \"policy\": \"softmax\"},"
                      "{\"layers\": \"2\", \"heads\": \"0,2-3\", \"policy\": \"fixed:3\"},"
                      "{\"heads\": \"3\", \"policy\": \"hinge:0.1:0.2:8\"}]}"));
    static const char *const expected[] = {"fixed:2", "fixed:2", "fixed:2", "hinge:0.1:0.2:8",
                                           "softmax", "softmax", "softmax", "hinge:0.1:0.2:8",
                                           "fixed:3", "softmax", "fixed:3", "hinge:0.1:0.2:8"};
    check_names(expected);
}

TEST(an_empty_file_is_softmax) {
    REQUIRE(read_text("{}"));
    static const char *const expected[LAYERS * HEADS] = {
        "softmax", "softmax", "softmax", "softmax", "softmax", "softmax",
        "softmax", "softmax", "softmax", "softmax", "softmax", "softmax"};
    check_names(expected);
}

TEST(wrong_files_are_refused_with_the_reason) {
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", ":1: '{' expected"},
        {"[]", ":1: '{' expected"},
        {"{\"polcy\": \"softmax\"}", ":1: unknown key \"polcy\""},
        {"{\"policy\": 3}", ":1: expected a string in double quotes"},
        {"{\"policy\": \"fxed:2\"}", "did you mean 'fixed'"},
        {"{\"strength\": 0.5}", ":1: strength without a policy"},
        {"{\"rules\": {}}", ":1: '[' expected"},
        {"{\"rules\": [3]}", ":1: '{' expected"},
        {"{\"rules\": [\n{\"layers\": \"1\"}]}", ":2: rule without a policy"},
        {"{\"rules\": [{\"layers\": \"1\", \"strength\": 0.5}]}", "rule without a policy"},
        {"{\"rules\": [{\"heads\": \"x\", \"policy\": \"fixed:2\"}]}", "not a list such as"},
        {"{\"rules\": [{\"strength\": 2, \"policy\": \"fixed:2\"}]}", "out of range (0 to 1)"},
        {"{\"rules\": [{\"strength\": 0.5, \"policy\": \"topk:2\"}]}",
         "strength does not apply to a map without a temperature"},
        {"{\"policy\": \"fixed:2:strength=0.5\", \"strength\": 0.5}",
         "the policy already has a strength"},
        {"{\"policy\": \"softmax\", \"policy\": \"softmax\"}", "duplicate key"},
        {"{\"policy\": \"softmax\"", ":1: '}' expected"},
        {"{} {}", ":1: unexpected text after the end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_MSG(!read_text(cases[i].text), "accepted: %s", cases[i].text);
        CHECK_MSG(strstr(error.text, cases[i].reason), "%s: %s", cases[i].text, error.text);
        CHECK_INT(error.kind, LAB_INPUT);
    }
}

TEST(places_that_the_model_does_not_have_are_refused) {
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"{\"rules\": [{\"layers\": \"3\", \"policy\": \"fixed:2\"}]}",
         ": \"layers\" of rule 1: the model has no layer 3, only 0 to 2"},
        {"{\"rules\": [{\"policy\": \"fixed:2\"}, {\"heads\": \"0,2-9\", \"policy\": "
         "\"fixed:2\"}]}",
         ": \"heads\" of rule 2: the model has no heads 4-9, only 0 to 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_MSG(!read_text(cases[i].text), "accepted: %s", cases[i].text);
        CHECK_MSG(strstr(error.text, cases[i].reason), "%s: %s", cases[i].text, error.text);
        CHECK_INT(error.kind, LAB_INPUT);
    }
}
