/*
 * The two phases of decode that skip adds before the values: a chunk's weights, in place of
 * its logits, and the sums of its blocks; then the blocks that a slice leaves out.
 */
#include "attention/decode.h"
#include "attention/row_form.h"
#include "row/stats.h"
#include <math.h>
#include <string.h>

/* Where row r of the task's heads has the weight of block 0. */
static float *block_weights_of(const decode_work *w, size_t r) {
    size_t rows = w->shape.row_count, blocks = skip_block_count(w->slice.attention->keys);
    return w->block_weights + r / rows * blocks * rows + r % rows;
}

/* The same of the block of key j. */
static float *block_weight(const decode_work *w, size_t r, size_t j) {
    return block_weights_of(w, r) + j / SKIP_KEYS * w->shape.row_count;
}

/* The end of the block of key j, or of the chunk. */
static size_t block_end(size_t j, size_t high) {
    size_t end = (j / SKIP_KEYS + 1) * SKIP_KEYS;
    return end < high ? end : high;
}

static double sum_of(const float *x, size_t n) {
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        sum += (double)x[j];
    return sum;
}

/* The sum of a block's coefficients, which a map has made; zeros where the row sees nothing. */
static double mapped_block(const decode_work *w, size_t r, size_t from, size_t to) {
    query_row row = whet_decode_row_at(w, r);
    float *weights = w->logits + r * w->logits_stride;
    bool is_live = from < to && decode_part_is_live(w, r, from);
    for (size_t j = from; j < to; j++)
        if (!is_live || j < row.low || j >= row.high)
            weights[j] = 0;
    double sum = sum_of(weights + from, to - from);
    *block_weight(w, r, from) = (float)sum;
    return sum;
}

/* Exponentials of the logits [from, to), of whole blocks but for the last, relative to `max`, in
 * their place; adds their sums to `z`, block by block, and notes those. */
static void weigh_blocks(const decode_work *w, size_t r, size_t from, size_t to, float max,
                         float exp2_scale, double *z) {
    enum { BLOCKS = 16 };
    float sums[BLOCKS];
    float *logits = w->logits + r * w->logits_stride;
    float *weight = block_weight(w, r, from);
    for (size_t j = from, end; j < to; j = end) {
        end = to - j < BLOCKS * SKIP_KEYS ? to : j + BLOCKS * SKIP_KEYS;
        w->shape.kernels->exp_parts(logits + j, end - j, max, exp2_scale, logits + j, sums);
        for (size_t b = 0; b < skip_block_count(end - j); b++) {
            weight[b * w->shape.row_count] = sums[b];
            *z += (double)sums[b];
        }
        weight += BLOCKS * w->shape.row_count;
    }
}

/* The same from any key on. */
static void weigh_keys(const decode_work *w, size_t r, size_t low, size_t high, float max,
                       float exp2_scale, double *z) {
    size_t first = low % SKIP_KEYS ? block_end(low, high) : low;
    weigh_blocks(w, r, low, first, max, exp2_scale, z);
    weigh_blocks(w, r, first, high, max, exp2_scale, z);
}

/* The weights of row r in a chunk, and the sums of blocks and chunk. */
static chunk_sums weigh_row(const decode_work *w, size_t r, size_t low, size_t high) {
    const kernels *k = w->shape.kernels;
    const decode_row *state = w->states + r;
    float *logits = w->logits + r * w->logits_stride;
    row_sums sums = {0, 0, 0};
    double z = 0;
    if (w->slice.attention->stats && !state->mapped)
        k->sums(logits + low, high - low, state->max, state->exp2_scale, &sums);
    if (!state->mapped)
        weigh_keys(w, r, low, high, state->max, state->exp2_scale, &z);
    for (size_t j = low, end; state->mapped && j < high; j = end) {
        end = block_end(j, high);
        z += mapped_block(w, r, j, end);
    }
    if (state->mapped) /* its coefficients are normalised; NaN spoils the row all the same */
        z = isnan(z) ? z : 0;
    return (chunk_sums){.z = z, .s = sums.s};
}

static void clear_block_weights(const decode_work *w, size_t r, size_t low, size_t high) {
    float *weight = block_weight(w, r, low);
    for (size_t j = low; j < high; j = block_end(j, high), weight += w->shape.row_count)
        *weight = 0;
}

void whet_decode_weigh_early(decode_work *w, size_t r, size_t low, size_t high) {
    query_row row = whet_decode_row_at(w, r);
    size_t index = w->chunk * w->row_count + r;
    const whet_stats *piece = &w->pieces[index];
    float *logits = w->logits + r * w->logits_stride;
    double z = piece->flags & WHET_ROW_NOT_FINITE ? (double)NAN : 0;
    clear_block_weights(w, r, w->start, w->start + w->count);
    if (piece->n == 0 || isnan(z)) {
        memset(logits + low, 0, (high - low) * sizeof(float));
    } else {
        float scale = whet_exp2_scale(whet_known_beta(&w->slice, &row));
        weigh_keys(w, r, low, high, (float)piece->max, scale, &z);
    }
    w->sums[index] = (chunk_sums){.z = z};
}

/* What a chunk's weights, which are relative to its own maximum, are multiplied by; 0 where they
 * count for nothing. */
static double early_factor(const decode_work *w, size_t r) {
    const decode_row *state = w->states + r;
    const whet_stats *piece = &w->pieces[w->chunk * w->row_count + r];
    bool counts = piece->n > 0 && !(state->stats.flags & WHET_ROW_NOT_FINITE);
    return counts ? exp2((double)state->exp2_scale * (piece->max - (double)state->max)) : 0;
}

/* The sums of a chunk's row, and those of its blocks, brought to the row's maximum. */
static void finish_early(const decode_work *w, size_t r, size_t low, size_t high) {
    chunk_sums *sums = &w->sums[w->chunk * w->row_count + r];
    double factor = early_factor(w, r);
    bool is_bad = isnan(sums->z) || isnan(factor);
    float *weight = block_weight(w, r, low);
    for (size_t j = low; j < high; j = block_end(j, high), weight += w->shape.row_count)
        *weight = is_bad ? 0 : (float)(factor * (double)*weight);
    if (is_bad)
        memset(w->logits + r * w->logits_stride + low, 0, (high - low) * sizeof(float));
    else
        sums->z *= factor;
    if (low == 0 && high > 0)
        sums->first = is_bad ? 0 : factor * (double)w->logits[r * w->logits_stride];
}

/* A row that is not finite adds no values, and does not keep others from leaving them out. */
static void clear_row(const decode_work *w, size_t r, size_t low, size_t high) {
    memset(w->logits + r * w->logits_stride + low, 0, (high - low) * sizeof(float));
    clear_block_weights(w, r, low, high);
}

void whet_decode_weigh_chunk(decode_work *w) {
    size_t low, high, end = w->start + w->count;
    whet_decode_visible_keys(w, &low, &high);
    for (size_t r = 0; r < w->row_count; r++) {
        if (decode_weighs_early(w) && !w->states[r].mapped) {
            finish_early(w, r, low, high);
            continue;
        }
        decode_fetch_logits(w, r, low, high);
        clear_block_weights(w, r, w->start, end);
        chunk_sums sums = weigh_row(w, r, low, high);
        if (isnan(sums.z))
            clear_row(w, r, low, high);
        if (low == 0 && high > 0)
            sums.first = (double)w->logits[r * w->logits_stride];
        w->sums[w->chunk * w->row_count + r] = sums;
    }
}

/* 1 / z of a row, or 0 where it has no result. */
static double row_factor(const decode_work *w, size_t r) {
    const decode_row *state = w->states + r;
    double z = state->sink_z;
    for (size_t chunk = 0; chunk < w->shape.chunks; chunk++)
        z += w->sums[chunk * w->row_count + r].z;
    return z > 0 && !(state->stats.flags & WHET_ROW_NOT_FINITE) ? 1 / z : 0;
}

void whet_decode_choose_blocks(decode_work *w) {
    const whet_attention *a = w->slice.attention;
    size_t rows = w->shape.row_count;
    const skip_choice choice = {.skip = a->skip,
                                .blocks = skip_block_count(a->keys),
                                .rows = rows,
                                .weights = w->block_weights,
                                .stride = rows,
                                .order = w->block_order,
                                .left_out = w->left_out,
                                .row_weight = w->row_weights};
    for (size_t r = 0; r < rows; r++)
        w->row_weights[r] = row_factor(w, r);
    for (size_t b = 0; b < choice.blocks; b++)
        for (size_t r = 0; r < rows; r++)
            w->block_weights[b * rows + r] =
                (float)(w->row_weights[r] * (double)w->block_weights[b * rows + r]);
    whet_skip_choose(&choice);
    for (size_t r = 0; r < rows; r++) {
        query_row row = whet_decode_row_at(w, r);
        w->states[r].skipped_weight = w->row_weights[r];
        w->states[r].skipped_share = whet_skip_share(w->left_out, 0, row.low, row.high);
    }
}

/* Whether no head of the task needs the block of key j. */
static bool is_left_out(const decode_work *w, size_t j) {
    size_t blocks = skip_block_count(w->slice.attention->keys);
    bool all = true;
    for (size_t h = 0; all && h < w->shape.heads_per_task; h++)
        all = w->left_out[h * blocks + j / SKIP_KEYS];
    return all;
}

bool whet_decode_next_run(const decode_work *w, size_t high, size_t *from, size_t *to) {
    *from = *to;
    while (*from < high && is_left_out(w, *from))
        *from = block_end(*from, high);
    for (*to = *from; *to < high && !is_left_out(w, *to);)
        *to = block_end(*to, high);
    return *from < *to;
}

/* Clears the weights of row r that its head leaves out. */
static void clear_left_out(const decode_work *w, size_t r, size_t from, size_t to) {
    size_t blocks = skip_block_count(w->slice.attention->keys);
    const bool *left_out = w->left_out + r / w->shape.row_count * blocks;
    float *weights = w->logits + r * w->logits_stride;
    for (size_t j = from, end; j < to; j = end) {
        end = block_end(j, to);
        if (left_out[j / SKIP_KEYS])
            memset(weights + j, 0, (end - j) * sizeof(float));
    }
}

void whet_decode_clear_left_out(const decode_work *w, size_t from, size_t to) {
    for (size_t r = 0; r < w->row_count; r++)
        decode_fetch_logits(w, r, from, to);
    for (size_t r = 0; r < w->row_count; r++)
        clear_left_out(w, r, from, to);
}

void whet_decode_copy_weights(decode_work *w, size_t low, size_t from, size_t to) {
    for (size_t r = 0; r < w->row_count; r++)
        memcpy(w->weights + r * w->weights_stride + (from - low),
               w->logits + r * w->logits_stride + from, (to - from) * sizeof(float));
}

void whet_decode_finish_outputs(decode_work *w) {
    for (size_t r = 0; decode_weighs_early(w) && r < w->row_count; r++) {
        float *output = decode_output(w, r, w->chunk);
        float factor = w->states[r].mapped ? 1 : (float)early_factor(w, r);
        for (size_t c = 0; c < w->slice.attention->value_dim; c++)
            output[c] *= factor;
    }
}
