// Settings: permutations, and the configuration they become, read back by the plug-in's parser.
#include "support/check.h"

#include "base/json.h"
#include "tune/setting.h"

#include <math.h>
#include <string.h>

static tune_setting setting_of(size_t layers, size_t heads) {
    tune_setting setting;
    REQUIRE(tune_setting_create(layers, heads, 256, &setting));
    return setting;
}

// The policy that a configuration gives a head, by its rules.
static const char *policy_at(const json_t *config, size_t layer, size_t head) {
    const char *found = json_string_value(json_object_get(config, "policy"));
    size_t i;
    const json_t *rule;
    json_array_foreach(json_object_get(config, "rules"), i, rule) {
        const char *heads = json_string_value(json_object_get(rule, "heads"));
        if (strtoul(json_string_value(json_object_get(rule, "layers")), NULL, 10) != layer) {
            continue;
        }
        while (heads && *heads) {
            char *end;
            size_t first = strtoul(heads, &end, 10), last = first;
            if (*end == '-') {
                last = strtoul(end + 1, &end, 10);
            }
            if (head >= first && head <= last) {
                found = json_string_value(json_object_get(rule, "policy"));
            }
            heads = *end == ',' ? end + 1 : end;
        }
    }
    return found;
}

static void check_config(const tune_setting *setting) {
    json_t *config = tune_setting_config(setting, json_pack("{s:i}", "x", 1));
    REQUIRE(config);
    for (size_t layer = 0; layer < setting->layers; layer++) {
        for (size_t head = 0; head < setting->heads; head++) {
            size_t at = layer * setting->heads + head;
            bool is_neutral = setting->a[at] == 0 && setting->h[at] == 0;
            const char *name = policy_at(config, layer, head);
            whet_policy policy, wanted = tune_setting_policy(setting, layer, head);
            REQUIRE(name);
            CHECK_INT(strcmp(name, "softmax") == 0, is_neutral);
            REQUIRE(whet_policy_parse(name, &policy, NULL, 0) == WHET_OK);
            if (!is_neutral) {
                for (size_t i = 0; i < 3; i++) {
                    CHECK(policy.value[i] == wanted.value[i]);
                }
            }
        }
    }
    CHECK(json_object_get(config, "about"));
    json_decref(config);
}

TEST(a_neutral_setting_is_softmax) {
    tune_setting setting = setting_of(3, 4);
    CHECK(tune_setting_is_neutral(&setting));
    check_config(&setting);
    tune_setting_free(&setting);
}

TEST(one_pair_for_all_heads_is_one_policy) {
    tune_setting setting = setting_of(3, 4);
    tune_setting_fill(&setting, 0.1, -0.3);
    json_t *config = tune_setting_config(&setting, NULL);
    CHECK(config && !json_object_get(config, "rules"));
    json_decref(config);
    check_config(&setting);
    tune_setting_free(&setting);
}

TEST(every_head_finds_its_own_rule) {
    tune_setting setting = setting_of(3, 9);
    for (size_t i = 0; i < 27; i++) {
        setting.a[i] = i % 4 == 0 ? 0 : sin((double)(i % 5)); // some alike, some neutral
        setting.h[i] = i % 4 == 0 ? 0 : 1.0 / 3.0;
    }
    check_config(&setting);
    tune_setting_free(&setting);
}

TEST(a_permutation_stays_among_tuned_heads_and_moves_layers_as_a_whole) {
    tune_setting setting = setting_of(4, 2);
    const unsigned char is_tuned[] = {1, 1, 0, 1, 0, 0, 1, 1};
    for (size_t i = 0; i < 8; i++) {
        setting.a[i] = is_tuned[i] ? (double)i + 1 : 0;
    }
    for (uint64_t seed = 0; seed < 50; seed++) {
        double sum = 0;
        tune_setting_permute(&setting, is_tuned, false, seed);
        for (size_t i = 0; i < 8; i++) {
            CHECK((setting.a[i] != 0) == is_tuned[i]);
            sum += setting.a[i];
        }
        CHECK(sum == 1 + 2 + 4 + 7 + 8);
    }
    for (size_t i = 0; i < 8; i++) {
        size_t own = i / 2; // the third layer is not tuned
        setting.a[i] = own == 2 ? 0 : (double)own + 1;
    }
    for (uint64_t seed = 0; seed < 50; seed++) {
        tune_setting_permute(&setting, is_tuned, true, seed);
        CHECK(setting.a[4] == 0 && setting.a[5] == 0);
        for (size_t i = 0; i < 8; i += 2) {
            CHECK(setting.a[i] == setting.a[i + 1]);
        }
    }
    tune_setting_free(&setting);
}

TEST(a_permutation_keeps_all_pairs_and_moves_most) {
    tune_setting setting = setting_of(4, 8);
    double sum = 0;
    size_t moved = 0;
    for (size_t i = 0; i < 32; i++) {
        setting.a[i] = (double)i;
        setting.h[i] = -(double)i;
    }
    tune_setting_permute(&setting, NULL, false, 7);
    unsigned seen = 0;
    for (size_t i = 0; i < 32; i++) {
        CHECK(setting.h[i] == -setting.a[i]);
        seen |= 1U << (unsigned)setting.a[i];
        moved += setting.a[i] != (double)i;
        sum += setting.a[i];
    }
    CHECK(seen == UINT32_MAX && sum == 496);
    CHECK(moved > 24);
    tune_setting_free(&setting);
}
