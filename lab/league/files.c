/* Results as JSON and CSV. */
#include "league/results.h"

#include "base/csv.h"
#include "base/manifest.h"

static json_t *interval_json(const lab_interval *of, size_t count) {
    if (count == 0)
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "mean", lab_json_number(of->mean), "low",
                     lab_json_number(of->low), "high", lab_json_number(of->high));
}

/* Calls `take` with every entry that has results. */
typedef void (*entry_taker)(const league_results *results, size_t t, size_t p, size_t a, size_t m,
                            const league_entry *entry, void *context);

static void for_entries(const league_results *results, entry_taker take, void *context) {
    const league_request *r = results->request;
    for (size_t t = 0; t < r->task_count; t++)
        for (size_t p = 0; p < r->position_count; p++)
            for (size_t a = 0; a < r->arms.count; a++)
                for (size_t m = 0; m < r->scale.multiple_count; m++) {
                    const league_entry *entry = league_entry_at(results, t, p, a, m);
                    if (entry->seeds > 0)
                        take(results, t, p, a, m, entry, context);
                }
}

static void entry_json(const league_results *results, size_t t, size_t p, size_t a, size_t m,
                       const league_entry *entry, void *list) {
    const league_request *r = results->request;
    uint64_t multiple = r->scale.multiples[m];
    json_array_append_new(
        list,
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "task", r->tasks[t].name,
                  "positions", lm_positions_names[r->positions[p]], "arm", r->arms.list[a].name,
                  "multiple", (json_int_t)multiple, "size",
                  (json_int_t)multiple * (json_int_t)r->tasks[t].train_max, "seeds",
                  (json_int_t)entry->seeds, "right", interval_json(&entry->right, entry->seeds),
                  "difference", interval_json(&entry->difference, entry->pairs), "entropy",
                  lab_json_number(entry->entropy), "beta", lab_json_number(entry->beta)));
}

static json_t *ranks_json(const league_results *results) {
    const league_request *r = results->request;
    json_t *list = json_array();
    for (size_t i = 0; i < results->standing_count; i++) {
        const league_standing *standing = &results->standings[i];
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:I, s:o, s:o, s:o}", "arm", r->arms.list[standing->arm].name,
                      "positions", lm_positions_names[r->positions[standing->positions]], "models",
                      (json_int_t)standing->models, "right",
                      interval_json(&standing->right, standing->models), "difference",
                      interval_json(&standing->difference, standing->models), "cost",
                      lab_json_number(standing->cost)));
    }
    return list;
}

static json_t *arms_json(const league_request *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->arms.count; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s?, s:s}", "name", r->arms.list[i].name,
                                              "policy", r->arms.list[i].policy, "learned",
                                              r->arms.list[i].learned, "summary",
                                              r->arms.list[i].summary));
    return list;
}

json_t *league_results_json(const league_results *results) {
    const league_request *r = results->request;
    unsigned mark = lab_json_mark();
    json_t *entries = json_array();
    for_entries(results, entry_json, entries);
    lab_manifest manifest =
        lab_manifest_begin("league", league_scale_json(&r->scale), r->engine->blas.description);
    json_t *json =
        json_pack("{s:O, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:O}", "made", manifest.json,
                  "first_seed", (json_int_t)r->scale.first_seed, "seeds",
                  (json_int_t)r->scale.seeds, "models", (json_int_t)results->models, "expected",
                  (json_int_t)results->expected, "arms", arms_json(r), "ranking",
                  ranks_json(results), "entries", entries, "failed", results->failed);
    lab_manifest_end(&manifest);
    return lab_json_whole(json, mark);
}

static void entry_csv(const league_results *results, size_t t, size_t p, size_t a, size_t m,
                      const league_entry *entry, void *csv) {
    const league_request *r = results->request;
    uint64_t multiple = r->scale.multiples[m];
    const double numbers[] = {(double)multiple,
                              (double)(multiple * r->tasks[t].train_max),
                              (double)entry->seeds,
                              entry->right.mean,
                              entry->right.low,
                              entry->right.high,
                              entry->difference.mean,
                              entry->difference.low,
                              entry->difference.high,
                              entry->entropy,
                              entry->beta};
    lab_csv_text(csv, r->tasks[t].name);
    lab_csv_text(csv, lm_positions_names[r->positions[p]]);
    lab_csv_text(csv, r->arms.list[a].name);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        lab_csv_number(csv, numbers[i]);
    lab_csv_end_line(csv);
}

void league_results_csv(FILE *file, const void *results) {
    static const char *const titles[] = {
        "task",           "positions",       "policy",    "multiple",   "size",
        "seeds",          "right",           "right_low", "right_high", "difference",
        "difference_low", "difference_high", "entropy",   "beta"};
    lab_csv csv = {.file = file};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        lab_csv_text(&csv, titles[i]);
    lab_csv_end_line(&csv);
    for_entries(results, entry_csv, &csv);
}
