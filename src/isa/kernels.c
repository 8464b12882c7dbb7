/*
 * The table of kernels of one instruction set. Compiled once for each set in sets.def,
 * with WHET_KERNELS_SET its name: vec_<name>.h defines the vector operations that all
 * kernels are written in.
 */
#include <stddef.h>
#include <stdint.h>

#define TEXT_OF(tokens) #tokens
#define TEXT(tokens) TEXT_OF(tokens)
#define JOIN_OF(a, b) a##b
#define JOIN(a, b) JOIN_OF(a, b)

// clang-format off
#include TEXT(isa/JOIN(vec_, WHET_KERNELS_SET).h)
// clang-format on

#include "isa/half.h"
#include "isa/kernels.h"
#include <math.h>
#include <string.h>

#define LOG2_E 1.4426950408889634

#include "isa/rows.inc"

#include "isa/gradient.inc"

#include "isa/softcap.inc"

#include "isa/panels.inc"

#include "isa/maps.inc"

#include "isa/map_gradients.inc"

#include "isa/cache.inc"

const kernels JOIN(whet_kernels_, WHET_KERNELS_SET) = {
    .name = TEXT(WHET_KERNELS_SET),
    .max = row_max,
    .max_parts = row_max_parts,
    .count = row_entries,
    .has_nan = row_has_nan,
    .finite = row_finite,
    .find = row_find,
    .min = row_min,
    .sums = row_exp_sums,
    .moments = row_moments,
    .exp_store = row_exp_store,
    .exp_parts = row_exp_parts,
    .scale = row_scale,
    .gradient_sums = row_gradient_sums,
    .gradient_store = row_gradient_store,
    .add = row_add,
    .add_mask = row_add_mask,
    .mark_f16 = row_mark_f16,
    .rows_pass = row_run_step,
    .entropies = row_entropies,
    .nontemporal_end = row_nontemporal_end,
    .softcap = row_softcap,
    .softcap_derivative = row_softcap_derivative,
    .f16_to_f32 = f16_to_f32,
    .bf16_to_f32 = bf16_to_f32,
    .f32_to_f16 = f32_to_f16,
    .f32_to_bf16 = f32_to_bf16,
    .scale_to_f16 = scale_to_f16,
    .scale_to_bf16 = scale_to_bf16,
    .q8_0_to_f32 = q8_0_to_f32,
    .q4_0_to_f32 = q4_0_to_f32,
    .q4_1_to_f32 = q4_1_to_f32,
    .q5_0_to_f32 = q5_0_to_f32,
    .q5_1_to_f32 = q5_1_to_f32,
    .iq4_nl_to_f32 = iq4_nl_to_f32,
    .lanes = LANES,
    .strip = STRIP,
    .scores = panel_scores,
    .accumulate = panel_accumulate,
    .add_to_totals = panel_add_to_totals,
    .interleave = panel_interleave,
    .panel_lane = panel_lane,
    .panel_transpose = panel_transpose,
    .panel_transpose_back = panel_transpose_back,
    .scatter = panel_scatter,
    .panel_max = panel_max,
    .panel_peak = panel_peak,
    .panel_count = panel_count,
    .panel_extremes = panel_find_extremes,
    .panel_weights = panel_weights,
    .panel_weights_sums = panel_weights_sums,
    .panel_sums = panel_sums,
    .panel_moments = panel_moments,
    .panel_limit = panel_limit,
    .panel_alibi = panel_alibi,
    .outer_keys = OUTER_KEYS,
    .outer_columns = OUTER_COLUMNS,
    .outer = panel_outer,
    .panel_gradient_sums = panel_gradient_sums,
    .panel_gradients = panel_gradients,
    .panel_distances = panel_distances,
    .panel_chain = panel_chain,
    .map_sigmoid = map_sigmoid,
    .map_stick = map_stick,
    .map_entmax = map_entmax,
    .map_power = map_power,
    .map_softpick = map_softpick,
    .map_gradient_sums = map_gradient_sums_of,
    .map_gradients = map_gradients,
    .map_stick_climb = map_stick_climb,
    .map_stick_descend = map_stick_descend,
    .map_entmax_support = map_entmax_support,
    .map_power_support = map_power_support,
    .map_order = map_order_of,
    .map_keep = map_keep,
    .map_entropy = map_entropy,
    .cache_scores = cache_scores,
    .cache_values = cache_values,
};
