/* Scales of the league, and all there is to compare. */
#include "base/choices.h"
#include "league/league.h"

league_scale league_scale_quick(void) {
    return (league_scale){.layers = 2,
                          .width = 64,
                          .heads = 4,
                          .batch = 32,
                          .steps = 1500,
                          .rates = {2e-3},
                          .rate_count = 1,
                          .first_seed = 1,
                          .seeds = 1,
                          .multiples = {1, 2, 4, 8, 16},
                          .multiple_count = 5,
                          .samples = 64,
                          .tokens_max = 2048};
}

league_scale league_scale_full(void) {
    return (league_scale){.layers = 3,
                          .width = 128,
                          .heads = 8,
                          .batch = 64,
                          .steps = 10000,
                          .rates = {5e-4, 2e-3},
                          .rate_count = 2,
                          .first_seed = 1,
                          .seeds = 3,
                          .multiples = {1, 2, 4, 8, 16, 32, 64, 256, 1024},
                          .multiple_count = 9,
                          .samples = 256,
                          .tokens_max = 20000};
}

void league_all_tasks(league_request *request) {
    request->task_count = 0;
    while (request->task_count < LEAGUE_TASKS_MAX &&
           league_task_at(request->task_count, &request->tasks[request->task_count]))
        request->task_count++;
}

bool league_all_arms(league_request *request, lab_error *error) {
    league_arm arm;
    for (size_t i = 0; league_arm_at(i, &arm); i++)
        if (!league_arms_add(&request->arms, arm.name, error))
            return false;
    return true;
}

void league_all_positions(league_request *request) {
    request->position_count = 0;
    for (; lm_positions_names[request->position_count]; request->position_count++)
        request->positions[request->position_count] = (lm_positions)request->position_count;
}

bool league_scale_check(const league_scale *scale, lab_error *error) {
    if (!lab_in_range("num-layers", scale->layers, 1, LEAGUE_LAYERS_MAX, error) ||
        !lab_in_range("width", scale->width, LEAGUE_WIDTH_MIN, LEAGUE_WIDTH_MAX, error) ||
        !lab_in_range("num-heads", scale->heads, 1, LEAGUE_HEADS_MAX, error) ||
        !lab_in_range("batch", scale->batch, 1, LM_BATCH_MAX, error) ||
        !lab_in_range("steps", (double)scale->steps, 1, LAB_STEPS_MAX, error) ||
        !lab_in_range("first-seed", (double)scale->first_seed, 1, LEAGUE_FIRST_SEED_MAX, error) ||
        !lab_in_range("num-seeds", (double)scale->seeds, 1, LEAGUE_SEEDS_MAX, error) ||
        !lab_in_range("count", (double)scale->samples, 1, LEAGUE_SAMPLES_MAX, error) ||
        !lab_in_range("max-tokens", (double)scale->tokens_max, LEAGUE_TOKENS_MIN, LM_CONTEXT_MAX,
                      error))
        return false;
    for (size_t i = 0; i < scale->rate_count; i++)
        if (!lab_in_range("rates", scale->rates[i], 1e-8, 1, error))
            return false;
    return scale->width % (2 * scale->heads) == 0 ||
           lab_fail(error, LAB_INPUT, "--width: %u is not a multiple of twice --num-heads, %u",
                    scale->width, scale->heads);
}

/* Seeds are left out: they may be added to. */
json_t *league_scale_json(const league_scale *scale) {
    json_t *rates = json_array(), *multiples = json_array();
    for (size_t i = 0; i < scale->rate_count; i++)
        json_array_append_new(rates, json_real(scale->rates[i]));
    for (size_t i = 0; i < scale->multiple_count; i++)
        json_array_append_new(multiples, json_integer((json_int_t)scale->multiples[i]));
    return json_pack("{s:i, s:i, s:i, s:i, s:I, s:o, s:o, s:I, s:I}", "layers", (int)scale->layers,
                     "width", (int)scale->width, "heads", (int)scale->heads, "batch",
                     (int)scale->batch, "steps", (json_int_t)scale->steps, "rates", rates,
                     "multiples", multiples, "samples", (json_int_t)scale->samples, "max_tokens",
                     (json_int_t)scale->tokens_max);
}
