/* Settings, and their form as a WHET_CONFIG. */
#include "tune/setting.h"

#include "base/checksum.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tune_setting_create(size_t layers, size_t heads, double n0, tune_setting *setting) {
    *setting = (tune_setting){.layers = layers, .heads = heads, .n0 = n0};
    setting->a = calloc(layers * heads, sizeof *setting->a);
    setting->h = calloc(layers * heads, sizeof *setting->h);
    return setting->a && setting->h;
}

void tune_setting_free(tune_setting *setting) {
    free(setting->a);
    free(setting->h);
    setting->a = setting->h = NULL;
}

void tune_setting_copy(const tune_setting *from, tune_setting *to) {
    size_t count = from->layers * from->heads;
    memcpy(to->a, from->a, count * sizeof *to->a);
    memcpy(to->h, from->h, count * sizeof *to->h);
}

void tune_setting_fill(tune_setting *setting, double a, double h) {
    tune_setting_fill_tuned(setting, NULL, a, h);
}

void tune_setting_fill_tuned(tune_setting *setting, const unsigned char *is_tuned, double a,
                             double h) {
    for (size_t i = 0; i < setting->layers * setting->heads; i++) {
        setting->a[i] = !is_tuned || is_tuned[i] ? a : 0;
        setting->h[i] = !is_tuned || is_tuned[i] ? h : 0;
    }
}

bool tune_setting_is_neutral(const tune_setting *setting) {
    for (size_t i = 0; i < setting->layers * setting->heads; i++)
        if (setting->a[i] != 0 || setting->h[i] != 0)
            return false;
    return true;
}

static uint64_t add_values(uint64_t sum, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double value = values[i] + 0.0; /* no negative zero */
        sum = lab_checksum(sum, &value, sizeof value);
    }
    return sum;
}

uint64_t tune_setting_sum(const tune_setting *setting) {
    size_t count = setting->layers * setting->heads;
    uint64_t sum = lab_checksum(lab_checksum_start, &setting->n0, sizeof setting->n0);
    return add_values(add_values(sum, setting->a, count), setting->h, count);
}

whet_policy tune_setting_policy(const tune_setting *setting, size_t layer, size_t head) {
    size_t at = layer * setting->heads + head;
    return whet_policy_hinge(setting->a[at], setting->h[at], setting->n0);
}

static void swap(double *values, size_t i, size_t j) {
    double kept = values[i];
    values[i] = values[j];
    values[j] = kept;
}

static bool layer_is_tuned(const unsigned char *is_tuned, size_t heads, size_t layer) {
    for (size_t head = 0; is_tuned && head < heads; head++)
        if (is_tuned[layer * heads + head])
            return true;
    return !is_tuned;
}

/* Whether a place, a head or the first head of a layer, takes part. */
static bool takes_part(const tune_setting *s, const unsigned char *is_tuned, bool by_layer,
                       size_t place) {
    return by_layer ? layer_is_tuned(is_tuned, s->heads, place) : !is_tuned || is_tuned[place];
}

static void swap_places(tune_setting *s, bool by_layer, size_t i, size_t j) {
    size_t width = by_layer ? s->heads : 1;
    for (size_t k = 0; k < width; k++) {
        swap(s->a, i * width + k, j * width + k);
        swap(s->h, i * width + k, j * width + k);
    }
}

void tune_setting_permute(tune_setting *setting, const unsigned char *is_tuned, bool by_layer,
                          uint64_t seed) {
    lab_random random = lab_random_start(seed);
    size_t places = by_layer ? setting->layers : setting->layers * setting->heads;
    for (size_t i = places; i > 1; i--) {
        size_t j = lab_random_below(&random, (uint32_t)i);
        if (!takes_part(setting, is_tuned, by_layer, i - 1))
            continue;
        while (!takes_part(setting, is_tuned, by_layer, j)) /* i - 1 takes part, so this ends */
            j = lab_random_below(&random, (uint32_t)i);
        swap_places(setting, by_layer, i - 1, j);
    }
}

/* ---- as a WHET_CONFIG ---- */

enum { NAME_SIZE = 128, LIST_SIZE = 4096 };

static bool is_same(const tune_setting *s, size_t i, size_t j) {
    return s->a[i] == s->a[j] && s->h[i] == s->h[j];
}

/* Adds "i" or "i-j" to a list of heads. */
static void add_range(char *list, size_t first, size_t last) {
    size_t used = strlen(list);
    used += (size_t)snprintf(list + used, LIST_SIZE - used, "%s%zu", used ? "," : "", first);
    if (last > first && used < LIST_SIZE)
        snprintf(list + used, LIST_SIZE - used, "-%zu", last);
}

/* The heads of a layer that have the numbers of head `head`, such as "0,4-7". */
static void list_heads(const tune_setting *s, size_t layer, size_t head, char list[LIST_SIZE]) {
    size_t base = layer * s->heads, first = 0;
    list[0] = '\0';
    for (size_t i = 0; i < s->heads; i++) {
        bool is_in = is_same(s, base + i, base + head);
        bool was_in = i > 0 && is_same(s, base + i - 1, base + head);
        if (is_in && !was_in)
            first = i;
        if (is_in && (i + 1 == s->heads || !is_same(s, base + i + 1, base + head)))
            add_range(list, first, i);
    }
}

static json_t *rule_of(const tune_setting *s, size_t layer, size_t head) {
    char heads[LIST_SIZE], layers[32], name[NAME_SIZE];
    whet_policy policy = tune_setting_policy(s, layer, head);
    list_heads(s, layer, head, heads);
    snprintf(layers, sizeof layers, "%zu", layer);
    whet_policy_name(&policy, name, sizeof name);
    return json_pack("{s:s, s:s, s:s}", "layers", layers, "heads", heads, "policy", name);
}

/* Whether no head before it in its layer has the same numbers. */
static bool is_first_of_its_kind(const tune_setting *s, size_t layer, size_t head) {
    size_t base = layer * s->heads;
    for (size_t i = 0; i < head; i++)
        if (is_same(s, base + i, base + head))
            return false;
    return true;
}

static bool is_uniform(const tune_setting *s) {
    for (size_t i = 1; i < s->layers * s->heads; i++)
        if (!is_same(s, i, 0))
            return false;
    return true;
}

static json_t *rules_of(const tune_setting *s) {
    json_t *rules = json_array();
    for (size_t layer = 0; layer < s->layers; layer++)
        for (size_t head = 0; head < s->heads; head++) {
            size_t at = layer * s->heads + head;
            bool is_neutral = s->a[at] == 0 && s->h[at] == 0;
            if (!is_neutral && is_first_of_its_kind(s, layer, head))
                json_array_append_new(rules, rule_of(s, layer, head));
        }
    return rules;
}

json_t *tune_setting_config(const tune_setting *setting, json_t *about) {
    unsigned mark = lab_json_mark();
    char name[NAME_SIZE] = "softmax";
    bool is_one = is_uniform(setting);
    if (is_one && !tune_setting_is_neutral(setting)) {
        whet_policy policy = tune_setting_policy(setting, 0, 0);
        whet_policy_name(&policy, name, sizeof name);
    }
    json_t *config = json_object();
    json_object_set_new(config, "policy", json_string(name));
    if (!is_one)
        json_object_set_new(config, "rules", rules_of(setting));
    if (about)
        json_object_set_new(config, "about", about);
    return lab_json_whole(config, mark);
}
