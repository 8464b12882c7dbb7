/*
 * Settings: what is accepted, and that everything else is refused.
 */
#include "settings.h"
#include "llama/environment.h"
#include "temporary.h"
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void before(void) { check_before_each(environment_clear); }

static bool policy_is(const settings *s, unsigned layer, unsigned head, const char *name) {
    char text[256];
    whet_policy_name(policy_config_find(&s->config, layer, head), text, sizeof text);
    return CHECK_STR(text, name);
}

/* Expects a refusal with a reason that mentions this. */
static void check_refused(const char *mention) {
    settings s;
    message why = {""};
    CHECK(!settings_load(&s, &why));
    CHECK_MSG(strstr(why.text, mention) != NULL, "\"%s\" does not mention %s", why.text, mention);
    CHECK(s.config.rules == NULL && s.stats_path == NULL && s.config_path == NULL);
}

TEST(nothing_set_means_softmax_everywhere) {
    settings s;
    message why;
    REQUIRE(settings_load(&s, &why));
    policy_is(&s, 0, 0, "softmax");
    policy_is(&s, 99, 7, "softmax");
    CHECK(!s.stats_path && !s.verbose);
    settings_free(&s);
}

TEST(a_policy_with_a_strength_for_some_layers_and_heads) {
    settings s;
    message why;
    setenv("WHET_POLICY", "adaptive", 1);
    setenv("WHET_STRENGTH", "0.25", 1);
    setenv("WHET_LAYERS", "0-3,7", 1);
    setenv("WHET_HEADS", "2,5-6", 1);
    REQUIRE(settings_load(&s, &why));
    policy_is(&s, 0, 2, "adaptive:strength=0.25");
    policy_is(&s, 7, 6, "adaptive:strength=0.25");
    policy_is(&s, 4, 2, "softmax");
    policy_is(&s, 3, 3, "softmax");
    settings_free(&s);
}

TEST(a_strength_weakens_the_temperature_of_a_composition) {
    settings s;
    message why = {""};
    setenv("WHET_POLICY", "length:64+topk:8", 1);
    setenv("WHET_STRENGTH", "0.5", 1);
    if (CHECK_MSG(settings_load(&s, &why), "%s", why.text))
        policy_is(&s, 0, 0, "length:64:strength=0.5+topk:8");
    settings_free(&s);
    setenv("WHET_POLICY", "length:64:strength=0.5+topk:8", 1);
    check_refused("WHET_STRENGTH=0.5: the policy already has a strength");
}

TEST(a_strength_may_begin_with_its_point) {
    settings s;
    message why = {""};
    setenv("WHET_POLICY", "adaptive", 1);
    setenv("WHET_STRENGTH", ".5", 1);
    if (CHECK_MSG(settings_load(&s, &why), "%s", why.text))
        policy_is(&s, 0, 0, "adaptive:strength=0.5");
    settings_free(&s);
    setenv("WHET_STRENGTH", ".", 1);
    check_refused("WHET_STRENGTH=.: ");
}

TEST(every_policy_of_the_library_is_accepted_by_name) {
    for (size_t i = 0; whet_policy_table(i); i++) {
        settings s;
        message why;
        setenv("WHET_POLICY", whet_policy_table(i)->example, 1);
        CHECK(settings_load(&s, &why));
        settings_free(&s);
    }
}

TEST(recording_takes_all_rows_the_last_or_every_nth) {
    static const struct {
        const char *text;
        size_t interval;
    } taken[] = {{"all", 1}, {"last", SIZE_MAX}, {"1", 1}, {"16", 16}, {"~100", 2}};
    setenv("WHET_STATS", "rows.csv", 1);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        settings s;
        message why;
        setenv("WHET_STATS_ROWS", taken[i].text, 1);
        REQUIRE(settings_load(&s, &why));
        CHECK(settings_interval(&s, 101) == taken[i].interval);
        CHECK_STR(s.stats_path, "rows.csv");
        settings_free(&s);
    }
}

TEST(details_of_last_rows_are_recorded_where_the_policy_applies) {
    settings s;
    message why;
    setenv("WHET_STATS", "rows.csv", 1);
    REQUIRE(settings_load(&s, &why));
    CHECK(!settings_has_details(&s));
    settings_free(&s);
    setenv("WHET_STATS_KEYS", "8", 1);
    setenv("WHET_POLICY", "adaptive", 1);
    setenv("WHET_LAYERS", "2-3", 1);
    REQUIRE(settings_load(&s, &why));
    CHECK(settings_has_details(&s) && s.stats_keys == 8 && !s.stats_gaps);
    CHECK(index_set_has(&s.stats_layers, 2) && !index_set_has(&s.stats_layers, 4));
    CHECK(index_set_has(&s.stats_heads, 9));
    settings_free(&s);
}

TEST(skip_is_a_number) {
    settings s;
    message why;
    REQUIRE(settings_load(&s, &why));
    CHECK(s.skip == 0);
    settings_free(&s);
    setenv("WHET_SKIP", "1e-3", 1);
    REQUIRE(settings_load(&s, &why));
    CHECK(s.skip == 1e-3f);
    settings_free(&s);
}

TEST(invariance_is_a_switch) {
    settings s;
    message why;
    REQUIRE(settings_load(&s, &why));
    CHECK(!s.invariant);
    settings_free(&s);
    setenv("WHET_INVARIANT", "1", 1);
    REQUIRE(settings_load(&s, &why));
    CHECK(s.invariant);
    settings_free(&s);
    setenv("WHET_SKIP", "1e-3", 1);
    CHECK(!settings_load(&s, &why));
    CHECK(strstr(why.text, "WHET_INVARIANT and WHET_SKIP are both set"));
}

TEST(what_is_not_understood_is_refused) {
    static const struct {
        const char *name, *value, *other, *mention;
    } wrong[] = {
        {"WHET_POLICY", "adaptve", NULL, "WHET_POLICY=adaptve: "},
        {"WHET_STRENGTH", "0.5", NULL, "without WHET_POLICY"},
        {"WHET_STRENGTH", "half", "adaptive", "WHET_STRENGTH=half: "},
        {"WHET_STRENGTH", "1.5", "adaptive", "WHET_STRENGTH=1.5: out of range (0 to 1)"},
        {"WHET_STRENGTH", "-1", "adaptive", "WHET_STRENGTH"},
        {"WHET_STRENGTH", "nan", "adaptive", "WHET_STRENGTH"},
        {"WHET_STRENGTH", "0x1", "adaptive", "WHET_STRENGTH"},
        {"WHET_STRENGTH", "0.5", "topk:3",
         "WHET_STRENGTH=0.5: strength does not apply to a map without a temperature"},
        {"WHET_STRENGTH", "0.5", "adaptive:strength=0.5",
         "WHET_STRENGTH=0.5: the policy already has a strength"},
        {"WHET_SKIP", "1", NULL, "WHET_SKIP=1 is not a number from 0 to below 1"},
        {"WHET_SKIP", "-0.1", NULL, "WHET_SKIP=-0.1 is not a number"},
        {"WHET_SKIP", "0.999999999999", NULL, "WHET_SKIP=0.999999999999 is not"},
        {"WHET_SKIP", "nan", NULL, "WHET_SKIP=nan is not"},
        {"WHET_INVARIANT", "2", NULL, "WHET_INVARIANT=2 is not 0 or 1"},
        {"WHET_SKIP", "little", NULL, "WHET_SKIP=little is not"},
        {"WHET_LAYERS", "3", NULL, "without WHET_POLICY"},
        {"WHET_LAYERS", "3-", "adaptive", "WHET_LAYERS=3-: not a list"},
        {"WHET_LAYERS", "3-1", "adaptive", "WHET_LAYERS=3-1: not a list"},
        {"WHET_LAYERS", "1,,2", "adaptive", "WHET_LAYERS=1,,2: not a list"},
        {"WHET_LAYERS", "1;2", "adaptive", "WHET_LAYERS=1;2: not a list"},
        {"WHET_LAYERS", "65536", "adaptive", "WHET_LAYERS=65536: not a list"},
        {"WHET_LAYERS", "99999999999999999999", "adaptive", "9999"},
        {"WHET_HEADS", " 1", "adaptive", "WHET_HEADS= 1: not a list"},
        {"WHET_HEADS", "all", "adaptive", "WHET_HEADS=all: not a list"},
        {"WHET_VERBOSE", "yes", NULL, "WHET_VERBOSE"},
        {"WHET_STATS_ROWS", "last", NULL, "without WHET_STATS"},
        {"WHET_STATS_KEYS", "8", NULL, "WHET_STATS_KEYS is set without WHET_STATS"},
        {"WHET_STATS_KEYS", "0", NULL, "WHET_STATS_KEYS=0 is not a number from 1 to 64"},
        {"WHET_STATS_KEYS", "65", NULL, "WHET_STATS_KEYS=65 is not a number"},
        {"WHET_STATS_KEYS", "8x", NULL, "WHET_STATS_KEYS=8x is not a number"},
        {"WHET_STATS_GAPS", "1", NULL, "WHET_STATS_GAPS is set without WHET_STATS"},
        {"WHET_STATS_GAPS", "yes", NULL, "WHET_STATS_GAPS=yes is not 0 or 1"},
        {"WHET_POLCY", "adaptive", NULL, "unknown setting WHET_POLCY"},
        {"WHET_STATS_ROW", "1", NULL, "unknown setting WHET_STATS_ROW"},
        {"WHET_", "1", NULL, "unknown setting WHET_"},
        {"WHET_MODE", "hook", NULL, "unknown setting WHET_MODE"},
        {"WHET_CONFIG", "/there/is/no/such/file", NULL, "WHET_CONFIG=/there/is/no/such/file: "},
        {"WHET_CONFIG", "/", NULL, "WHET_CONFIG=/: cannot read: "},
        {"WHET_CONFIG", "any", "adaptive", "both"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        environment_clear();
        setenv(wrong[i].name, wrong[i].value, 1);
        if (wrong[i].other)
            setenv("WHET_POLICY", wrong[i].other, 1);
        check_refused(wrong[i].mention);
    }
    environment_clear();
    setenv("WHET_STATS", "rows.csv", 1);
    static const char *const rows[] = {"first", "0", "-3", "2.5", "3 ",
                                       "70000", "~", "~0", "~x",  "~~3"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setenv("WHET_STATS_ROWS", rows[i], 1);
        check_refused(" is not one of all, last, N (every N-th row) or ~N (about N rows of every "
                      "evaluation), with N from 1 to 65535");
    }
}

TEST(variables_of_the_library_and_the_program_are_accepted) {
    settings s;
    message why = {""};
    setenv("WHET_POLCY", "", 1); /* unset for one command */
    setenv("WHET_ISA", "scalar", 0);
    setenv("WHET_BLAS", "libblas.so", 1);
    setenv("WHET_LLAMA", "/somewhere", 1);
    setenv("WHET_PLUGIN", "libggml-whet.so", 1);
    CHECK_MSG(settings_load(&s, &why), "%s", why.text);
    settings_free(&s);
}

TEST(an_unknown_instruction_set_is_refused) {
    setenv("WHET_ISA", "mmx", 1);
    check_refused("unknown WHET_ISA 'mmx'; supported here: ");
    unsetenv("WHET_ISA");
}

/* ---- the file ---- */

static bool parse(settings *s, const char *text, message *why) {
    *s = (settings){.config = policy_config_start()};
    bool taken = policy_config_parse(&s->config, text, strlen(text), why);
    if (!taken)
        settings_free(s);
    return taken;
}

TEST(a_file_gives_policies_by_layer_and_head_and_its_last_rule_decides) {
    static const char text[] =
        "{\n"
        "  \"policy\": \"fixed:1.5\",\n"
        "  \"rules\": [\n"
        "    {\"layers\": \"2-4\", \"policy\": \"adaptive\", \"strength\": 0.5},\n"
        "    {\"heads\": \"1\", \"policy\": \"topk:8\"},\n"
        "    {\"layers\": \"4\", \"heads\": \"0,1\", \"policy\": \"softmax\"}\n"
        "  ]\n"
        "}\n";
    settings s;
    message why;
    REQUIRE(parse(&s, text, &why));
    policy_is(&s, 0, 0, "fixed:1.5");
    policy_is(&s, 2, 0, "adaptive:strength=0.5");
    policy_is(&s, 2, 1, "topk:8");
    policy_is(&s, 4, 1, "softmax");
    policy_is(&s, 4, 2, "adaptive:strength=0.5");
    settings_free(&s);
}

TEST(a_file_is_read_from_where_the_environment_says) {
    char path[] = "/tmp/whet-config.XXXXXX";
    temporary_file(path, "{\"policy\":\"hardmax\"}");
    setenv("WHET_CONFIG", path, 1);
    settings s;
    message why;
    CHECK(settings_load(&s, &why));
    policy_is(&s, 5, 5, "hardmax");
    settings_free(&s);
    unlink(path);
}

TEST(a_recording_does_not_replace_the_file_with_the_policies) {
    char path[] = "/tmp/whet-config.XXXXXX", other[64];
    temporary_file(path, "{}");
    setenv("WHET_CONFIG", path, 1);
    snprintf(other, sizeof other, "/tmp/.%s", path + 4); /* the same file by another name */
    setenv("WHET_STATS", other, 1);
    check_refused("same file as WHET_CONFIG");
    unlink(path);
}

TEST(a_strength_may_have_any_json_number_format) {
    static const char *const numbers[] = {"0.5", "5e-1", "50E-02", "0.05e+1"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[80];
        settings s;
        message why = {""};
        snprintf(text, sizeof text, "{\"policy\": \"adaptive\", \"strength\": %s}", numbers[i]);
        if (CHECK_MSG(parse(&s, text, &why), "%s", why.text))
            policy_is(&s, 0, 0, "adaptive:strength=0.5");
        settings_free(&s);
    }
}

TEST(an_empty_object_and_an_empty_list_are_fine) {
    settings s;
    message why;
    CHECK(parse(&s, "{}", &why));
    CHECK(parse(&s, " { \"rules\" : [ ] } ", &why));
    policy_is(&s, 1, 1, "softmax");
    settings_free(&s);
}

TEST(information_about_a_file_may_be_any_json) {
    static const char text[] =
        "{\"about\": {\"texts\": [\"\\u00e9\\n\\\"\", \"\xc3\xa9\"], \"gain\": -1.5e-2,\n"
        "  \"policy\": \"nonsense\", \"flags\": [true, false, null, {}, [], [[0]]]},\n"
        " \"rules\": [{\"layers\": \"0\", \"heads\": \"1\", \"about\": 3,\n"
        "  \"policy\": \"hinge:-0.25:0.5:64\"}]}";
    settings s;
    message why = {""};
    bool taken = parse(&s, text, &why);
    CHECK_MSG(taken, "%s", why.text);
    REQUIRE(taken);
    policy_is(&s, 0, 0, "softmax");
    policy_is(&s, 0, 1, "hinge:-0.25:0.5:64");
    settings_free(&s);
}

TEST(every_head_of_a_model_may_have_a_rule_of_its_own) {
    enum { LAYERS = 48, HEADS = 64, LINE = 80 };
    char *text = malloc(LAYERS * HEADS * LINE), *at = text;
    settings s;
    message why = {""};
    at += sprintf(at, "{\"rules\": [");
    for (unsigned i = 0; i < LAYERS * HEADS; i++)
        at += sprintf(at, "%s{\"layers\": \"%u\", \"heads\": \"%u\", \"policy\": \"fixed:%u\"}",
                      i ? ", " : "", i / HEADS, i % HEADS, i + 1);
    sprintf(at, "]}");
    REQUIRE(parse(&s, text, &why));
    for (unsigned i = 0; i < LAYERS * HEADS; i++)
        CHECK_NEAR(policy_config_find(&s.config, i / HEADS, i % HEADS)->value[0], i + 1, 0);
    policy_is(&s, LAYERS, 0, "softmax");
    policy_is(&s, 0, HEADS, "softmax");
    settings_free(&s);
    free(text);
}

/* `depth` arrays inside one another. */
static bool parse_nested(int depth, message *why) {
    char text[300];
    settings s;
    int n = snprintf(text, sizeof text, "{\"about\": ");
    for (int i = 0; i < 2 * depth; i++)
        text[n++] = i < depth ? '[' : ']';
    text[n++] = '}';
    text[n] = 0;
    bool taken = parse(&s, text, why);
    if (taken)
        settings_free(&s);
    return taken;
}

TEST(information_is_nested_no_deeper_than_a_limit) {
    message why = {""};
    CHECK_MSG(parse_nested(32, &why), "%s", why.text);
    CHECK(!parse_nested(34, &why));
    CHECK_STR(why.text, "1: \"about\" is nested too deeply");
}

TEST(a_file_that_is_not_of_the_format_is_refused_with_its_line) {
    static const struct {
        const char *text, *mention;
    } wrong[] = {
        {"", "1: "},
        {"[]", "'{' expected"},
        {"{", "string"},
        {"{\"policy\": \"adaptive\"} x", "unexpected text after the end"},
        {"{\"policy\": \"adaptive\"", "'}' expected"},
        {"{\"policy\": \"adaptve\"}", "\"policy\": adaptve: "},
        {"{\"policy\" \"softmax\"}", "':' expected"},
        {"{\"policy\": softmax}", "double quotes"},
        {"{\"policy\": \"soft\\u006dax\"}", "backslashes"},
        {"{\"policy\": \"softmax", "unterminated string"},
        {"{\"policy\": \"softmax\", \"policy\": \"softmax\"}", "duplicate key"},
        {"{\"polcy\": \"softmax\"}", "polcy"},
        {"{\"layers\": \"1\"}", "layers"},
        {"{\"strength\": 0.5}", "without a policy"},
        {"{\"policy\": \"adaptive\", \"strength\": \"0.5\"}", "number"},
        {"{\"policy\": \"adaptive\", \"strength\": 2}", "\"strength\": 2: out of range (0 to 1)"},
        {"{\"policy\": \"adaptive\", \"strength\": 0.5.5}", "number"},
        {"{\"policy\": \"adaptive\", \"strength\": 01}", "number"},
        {"{\"policy\": \"adaptive\", \"strength\": 1.}", "number"},
        {"{\"policy\": \"adaptive\", \"strength\": .5}", "number"},
        {"{\"policy\": \"adaptive\", \"strength\": 5e}", "number"},
        {"{\"policy\": \"adaptive\", \"strength\": 5e-}", "number"},
        {"{\"policy\": \"adaptive\", \"strength\": -0.5}", "number"},
        {"{\"rules\": {}}", "'[' expected"},
        {"{\"rules\": [{}]}", "without a policy"},
        {"{\"rules\": [{\"policy\": \"adaptive\"},]}", "'{' expected"},
        {"{\n\"rules\": [\n{\"policy\": \"adaptive\",\n\"layers\": \"x\"}]}",
         "4: \"layers\": x: not a list"},
        {"{\"rules\": [{\"policy\": \"adaptive\", \"heads\": 3}]}", "double quotes"},
        {"{\"rules\": [{\"policy\": \"adaptive\", \"heads\": \"9-3\"}]}",
         "\"heads\": 9-3: not a list"},
        {"{\"rules\": [{\"rules\": []}]}", "rules"},
        {"{\"about\": 1, \"about\": 2}", "duplicate key"},
        {"{\"about\": }", "expected a value"},
        {"{\"about\": 01}", "expected a value"},
        {"{\"about\": --1}", "expected a value"},
        {"{\"about\": nul}", "expected a value"},
        {"{\"about\": {1: 2}}", "double quotes"},
        {"{\"about\": {\"a\" 2}}", "':' expected"},
        {"{\"about\": {\"a\": 2]}", "'}' expected"},
        {"{\"about\": [2}", "']' expected"},
        {"{\"about\": [2,]}", "expected a value"},
        {"{\"about\": \"\\x\"}", "unknown escape"},
        {"{\"about\": \"\\u12g4\"}", "hexadecimal"},
        {"{\n\"about\": [\n\"a\tb\"]}", "3: control character"},
        {"{\"about\": \"a", "unterminated string"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        settings s;
        message why = {""};
        CHECK_MSG(!parse(&s, wrong[i].text, &why), "%s was taken", wrong[i].text);
        CHECK_MSG(strstr(why.text, wrong[i].mention) != NULL, "\"%s\" does not mention %s",
                  why.text, wrong[i].mention);
    }
}

TEST(a_file_cut_short_anywhere_is_refused) {
    static const char text[] =
        "{\"policy\": \"adaptive\", \"strength\": 0.5, \"rules\": [{\"layers\": \"1-2\", "
        "\"heads\": \"3\", \"policy\": \"fixed:2\"}, {\"policy\": \"softmax\"}], "
        "\"about\": {\"a\": [-1.5, true, null, \"\\u0041\\n\"], \"b\": {}}}";
    for (size_t n = 0; n + 1 < sizeof text - 1; n++) {
        settings s = {.config = policy_config_start()};
        message why;
        /* exact size, so that a sanitizer notices a read too far */
        char *part = malloc(n ? n : 1);
        memcpy(part, text, n);
        CHECK(!policy_config_parse(&s.config, part, n, &why));
        settings_free(&s);
        free(part);
    }
}

TEST(numbers_have_a_point_in_every_locale) {
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8"};
    double number = 0;
    CHECK(policy_config_number("0.125", &number));
    CHECK_NEAR(number, 0.125, 0);
    bool found = false;
    for (size_t i = 0; i < sizeof locales / sizeof *locales && !found; i++)
        found = setlocale(LC_ALL, locales[i]) != NULL;
    if (!found)
        SKIP("no locale with a decimal comma is installed");
    CHECK(policy_config_number("0.125", &number));
    CHECK_NEAR(number, 0.125, 0);
    setlocale(LC_ALL, "C");
}

TEST(many_rules_are_kept_in_order) {
    enum { RULES = 1000 };
    size_t capacity = RULES * 64 + 64, used = 0;
    char *text = malloc(capacity);
    used += (size_t)snprintf(text, capacity, "{\"rules\": [");
    for (int i = 0; i < RULES; i++)
        used += (size_t)snprintf(text + used, capacity - used,
                                 "%s{\"layers\": \"%d\", \"policy\": \"fixed:%d\"}", i ? "," : "",
                                 i, i + 1);
    snprintf(text + used, capacity - used, "]}");
    settings s;
    message why;
    REQUIRE(parse(&s, text, &why));
    CHECK_INT(s.config.rule_count, RULES);
    policy_is(&s, 0, 0, "fixed:1");
    policy_is(&s, 999, 3, "fixed:1000");
    policy_is(&s, 1000, 3, "softmax");
    settings_free(&s);
    free(text);
}
