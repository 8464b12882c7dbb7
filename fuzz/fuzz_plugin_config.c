/*
 * The plug-in's configuration file, and its lists of layers and heads. Any bytes may be such a
 * file; one that is taken has policies that are sound for every layer and head, one that is refused
 * says why in printable words.
 */
#include "input.h"
#include "llama/policy_config.h"
#include <string.h>

static void check_message(const message *why) {
    size_t n = strnlen(why->text, sizeof why->text);
    FUZZ_CHECK(n > 0 && n < sizeof why->text);
    for (size_t i = 0; i < n; i++)
        FUZZ_CHECK(why->text[i] >= ' ' && why->text[i] <= '~');
}

static void check_config(const uint8_t *data, size_t size) {
    static const unsigned places[] = {0, 1, 2, 7, 31, 65535};
    policy_config config = policy_config_start();
    message why = {""};
    /* to the byte, so that sanitizers catch a read too far */
    char *text = fuzz_allocate(size);
    if (size > 0)
        memcpy(text, data, size);
    if (policy_config_parse(&config, text, size, &why)) {
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            for (size_t j = 0; j < sizeof places / sizeof *places; j++) {
                const whet_policy *policy = policy_config_find(&config, places[i], places[j]);
                FUZZ_CHECK(whet_policy_check(policy, NULL, 0) == WHET_OK);
            }
    } else {
        check_message(&why);
    }
    policy_config_free(&config);
    free(text);
}

static void check_list(const uint8_t *data, size_t size) {
    index_set set = {0};
    message why = {""};
    char *text = fuzz_allocate(size + 1);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = 0;
    if (index_set_parse(text, &set, &why)) {
        FUZZ_CHECK(set.count > 0);
        for (size_t i = 0; i < set.count; i++)
            FUZZ_CHECK(set.ranges[i].first <= set.ranges[i].last &&
                       set.ranges[i].last <= INDEX_MAX && index_set_has(&set, set.ranges[i].last));
    } else {
        FUZZ_CHECK(why.text[0] != 0);
    }
    free(set.ranges);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_config(data, size);
    check_list(data, size);
    return 0;
}
