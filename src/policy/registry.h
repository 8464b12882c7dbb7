/*
 * The list of all policies: every temperature and map, and the names they go by.
 * A name is
 *
 *     name[:number ...][:option=number ...]
 */
#ifndef WHET_POLICY_REGISTRY_H
#define WHET_POLICY_REGISTRY_H

#include "policy/descriptor.h"

/* Long enough for a polynomial of the highest degree with every digit and option, and a map. */
#define POLICY_NAME_LENGTH_MAX 512

/* Entry i of the table of names, or NULL past the end. */
const policy_entry *whet_policy_entry_at(size_t i);

/* The two parts of a policy (NULL: of plain softmax); NULL for a kind that does not exist. */
const temperature_descriptor *whet_temperature_of(const whet_policy *policy);
const map_descriptor *whet_map_of(const whet_policy *policy);

/* What every temperature takes besides its own parameters. */
extern const policy_parameter whet_policy_strength;

/* A policy's number at the place of a parameter. */
double whet_parameter_get(const whet_policy *policy, const policy_parameter *parameter);
void whet_parameter_set(whet_policy *policy, const policy_parameter *parameter, double value);

/* The policy with one of its parts replaced by that of plain softmax. */
whet_policy whet_policy_without_map(whet_policy policy);
whet_policy whet_policy_without_temperature(whet_policy policy);

/* Plain softmax, for callers without a policy. */
extern const whet_policy whet_plain_policy;

/* The families. */
extern const temperature_descriptor whet_temperature_plain, whet_temperature_fixed,
    whet_temperature_poly, whet_temperature_exp, whet_temperature_target, whet_temperature_ssmax,
    whet_temperature_length, whet_temperature_linear, whet_temperature_custom,
    whet_temperature_llama4, whet_temperature_hinge;
extern const map_descriptor whet_map_softmax, whet_map_topk, whet_map_hardmax, whet_map_entmax,
    whet_map_softmax1, whet_map_sigmoid, whet_map_stick_breaking, whet_map_softpick;
extern const policy_entry whet_entry_softmax, whet_entry_fixed, whet_entry_adaptive,
    whet_entry_adaptive_hold, whet_entry_poly, whet_entry_exp, whet_entry_target, whet_entry_ssmax,
    whet_entry_length, whet_entry_linear, whet_entry_hinge, whet_entry_llama4, whet_entry_topk,
    whet_entry_hardmax, whet_entry_sparsemax, whet_entry_entmax15, whet_entry_entmax,
    whet_entry_softmax1, whet_entry_sigmoid, whet_entry_stick_breaking, whet_entry_softpick;

#endif
