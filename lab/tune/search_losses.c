/* Losses of a search's points: from the state where they are known, otherwise from the judge, and
 * then added to the state. */
#include "tune/search_parts.h"

#include "base/checksum.h"
#include "base/grow.h"
#include "base/signals.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_SIZE = 32 };

/* ---- the state ---- */

static uint64_t add_number(uint64_t sum, uint64_t number) {
    unsigned char bytes[sizeof number];
    for (size_t i = 0; i < sizeof number; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    return lab_checksum(sum, bytes, sizeof bytes);
}

/* What losses depend on besides the point: sequences, and what a point's numbers mean. */
static uint64_t fingerprint(const search *s) {
    uint64_t sum = lab_checksum_start, n0;
    memcpy(&n0, &s->setting->n0, sizeof n0);
    sum = add_number(sum, n0);
    sum = add_number(sum, s->setting->layers);
    sum = add_number(sum, s->setting->heads);
    sum = add_number(sum, s->count);
    if (s->options->is_tuned)
        sum = lab_checksum(sum, s->options->is_tuned, s->setting->layers * s->setting->heads);
    for (size_t i = 0; i < s->count; i++) {
        const tune_sequence *sequence = &s->sequences[i];
        sum = add_number(sum, sequence->length);
        sum = add_number(sum, sequence->from);
        sum = lab_checksum(sum, sequence->tokens, sequence->length * sizeof *sequence->tokens);
    }
    return sum;
}

/* After changes to the state: fails if memory ran out within one of them. */
static bool check_state(search *s, unsigned mark) {
    json_t *whole = lab_json_whole(json_incref(s->state), mark);
    json_decref(whole);
    return whole || lab_fail_memory(s->error);
}

bool search_begin_state(search *s) {
    unsigned mark = lab_json_mark();
    char text[NUMBER_SIZE];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)fingerprint(s));
    if (json_object_size(s->state) == 0) {
        json_object_set_new(s->state, "sequences", json_string(text));
        json_object_set_new(s->state, "losses", json_object());
        return check_state(s, mark);
    }
    const char *known = json_string_value(json_object_get(s->state, "sequences"));
    if (!known || !json_is_object(json_object_get(s->state, "losses")))
        return lab_fail(s->error, LAB_INPUT, "the state is not that of a search");
    return strcmp(known, text) == 0 ||
           lab_fail(s->error, LAB_INPUT,
                    "the state is that of a search on other sequences or heads");
}

/* ---- records ---- */

/* The numbers of a point: a once if all layers have the same, then h. To be freed. */
static char *key_of(const search *s, const search_point *point) {
    size_t layers = s->setting->layers, shown = 1, used = 0;
    for (size_t i = 1; i < layers; i++)
        if (point->a[i] != point->a[0])
            shown = layers;
    char *key = malloc((layers + 1) * NUMBER_SIZE);
    for (size_t i = 0; key && i < shown; i++)
        used += (size_t)snprintf(key + used, NUMBER_SIZE, "%.4f ", point->a[i]);
    if (key)
        snprintf(key + used, NUMBER_SIZE, "h %.4f", point->h);
    return key;
}

static bool take_known(search *s, search_record *record) {
    const json_t *known = json_object_get(json_object_get(s->state, "losses"), record->key), *loss;
    size_t i;
    if (!known)
        return true;
    bool is_good = json_array_size(known) == s->count;
    json_array_foreach(known, i, loss) {
        is_good = is_good && (json_is_null(loss) || json_is_real(loss));
        if (is_good && json_is_real(loss))
            record->losses[i] = json_real_value(loss);
    }
    return is_good || lab_fail(s->error, LAB_INPUT, "the state of the search is damaged");
}

static void free_record(search_record *record) {
    if (!record)
        return;
    free(record->key);
    free(record->losses);
    free(record->is_counted);
    free(record);
}

void search_free_records(search *s) {
    for (size_t i = 0; i < s->record_count; i++)
        free_record(s->records[i]);
    free(s->records);
}

/* With what the state knows; takes over the key. NULL and an error otherwise. */
static search_record *make_record(search *s, char *key) {
    search_record *record = calloc(1, sizeof *record);
    if (!record) {
        free(key);
        lab_fail_memory(s->error);
        return NULL;
    }
    record->key = key;
    record->losses = malloc(s->count * sizeof *record->losses);
    record->is_counted = calloc(s->count, sizeof *record->is_counted);
    for (size_t i = 0; record->losses && i < s->count; i++)
        record->losses[i] = (double)NAN;
    bool has_memory = record->losses && record->is_counted;
    if (has_memory ? take_known(s, record) : lab_fail_memory(s->error))
        return record;
    free_record(record);
    return NULL;
}

static search_record *add_record(search *s, char *key) {
    search_record *record = make_record(s, key);
    if (!record)
        return NULL;
    search_record **records =
        lab_grow(s->records, sizeof(void *), s->record_count + 1, &s->record_capacity);
    if (!records) {
        free_record(record);
        lab_fail_memory(s->error);
        return NULL;
    }
    s->records = records;
    return records[s->record_count++] = record;
}

static search_record *find_record(search *s, const search_point *point) {
    char *key = key_of(s, point);
    if (!key) {
        lab_fail_memory(s->error);
        return NULL;
    }
    for (size_t i = 0; i < s->record_count; i++)
        if (strcmp(s->records[i]->key, key) == 0) {
            free(key);
            return s->records[i];
        }
    return add_record(s, key);
}

static bool store(search *s, const search_record *record) {
    unsigned mark = lab_json_mark();
    json_object_set_new(json_object_get(s->state, "losses"), record->key,
                        lab_json_numbers(record->losses, s->count));
    const tune_search_listener *l = s->listener;
    return check_state(s, mark) && (!l->keep || l->keep(l->context, s->state, s->error));
}

/* ---- the judge ---- */

static bool hear(void *listener, size_t done) {
    const search *s = listener;
    tune_search_news news = s->news;
    news.passes += done;
    return !s->listener->heard || s->listener->heard(s->listener->context, &news);
}

static bool is_tuned(const search *s, size_t head) {
    return !s->options->is_tuned || s->options->is_tuned[head];
}

bool search_tunes_layer(const search *s, size_t layer) {
    for (size_t head = 0; head < s->setting->heads; head++)
        if (is_tuned(s, layer * s->setting->heads + head))
            return true;
    return false;
}

void search_set_point(const search *s, const search_point *point) {
    tune_setting *setting = s->setting;
    for (size_t i = 0; i < setting->layers * setting->heads; i++) {
        setting->a[i] = is_tuned(s, i) ? point->a[i / setting->heads] : 0;
        setting->h[i] = is_tuned(s, i) ? point->h : 0;
    }
}

/* Means over the judged tokens of each sequence of the batch. */
static bool take_means(search *s, size_t missing, const float *loss, search_record *record) {
    for (size_t i = 0, at = 0; i < missing; i++) {
        size_t judged = s->batch[i].length - s->batch[i].from;
        double sum = 0;
        for (size_t j = 0; j < judged; j++)
            sum += (double)loss[at++];
        if (!isfinite(sum))
            return lab_fail(s->error, LAB_INPUT, "the losses of sequence %zu are not finite",
                            s->batch_at[i]);
        record->losses[s->batch_at[i]] = sum / (double)judged;
    }
    return true;
}

static bool judge_batch(search *s, size_t missing, search_record *record) {
    size_t judged = tune_judged_count(s->batch, missing);
    tune_losses losses = {.loss = malloc(judged * sizeof *losses.loss), .right = malloc(judged)};
    const tune_arm arm = {.setting = s->setting};
    bool is_good = (losses.loss && losses.right) || lab_fail_memory(s->error);
    if (is_good && (lab_interrupted() || !hear(s, 0)))
        is_good = lab_fail(s->error, LAB_STOPPED, "stopped");
    is_good =
        is_good &&
        s->judge->run(s->judge->context, &arm, s->batch, missing, &losses, hear, s, s->error) &&
        take_means(s, missing, losses.loss, record) && store(s, record);
    free(losses.loss);
    free(losses.right);
    return is_good;
}

/* The sequences from `from` up to `to` in the search's order. */
static search_status find_batch(search *s, size_t from, size_t to, search_record *record) {
    size_t missing = 0, new_ones = 0;
    for (size_t i = from; i < to; i++) {
        size_t at = s->order[i];
        new_ones += !record->is_counted[at];
        if (isnan(record->losses[at])) {
            s->batch_at[missing] = at;
            s->batch[missing++] = s->sequences[at];
        }
    }
    if (s->options->budget && s->news.passes + new_ones > s->options->budget) {
        s->has_run_out = true;
        return SEARCH_OUT;
    }
    if (missing > 0 && !judge_batch(s, missing, record))
        return SEARCH_FAILED;
    for (size_t i = from; i < to; i++)
        record->is_counted[s->order[i]] = 1;
    s->news.passes += new_ones;
    return SEARCH_GOOD;
}

search_status search_losses(search *s, const search_point *point, size_t n,
                            const search_record **record) {
    search_record *found = find_record(s, point);
    search_status status = found ? SEARCH_GOOD : SEARCH_FAILED;
    *record = found;
    search_set_point(s, point);
    for (size_t at = 0; status == SEARCH_GOOD && at < n; at += s->options->batch)
        status = find_batch(s, at, n - at < s->options->batch ? n : at + s->options->batch, found);
    return status;
}
