/*
 * Policies by layer and head, from a settings file. The plug-in (WHET_CONFIG) and the laboratory
 * read it by the same code, so both accept the same files and refuse others with the same words:
 *
 *     {
 *       "policy": "softmax",
 *       "rules": [
 *         {"layers": "20-21", "policy": "adaptive", "strength": 0.5},
 *         {"layers": "3", "heads": "0,4-7", "policy": "fixed:1.2"}
 *       ],
 *       "about": {"text": "books", "perplexity": 12.4}
 *     }
 *
 * "policy" and "strength" outside of rules apply to all heads that no rule names; the last rule
 * that names a head decides. "about", in the file or in a rule, takes any JSON for its readers.
 * Anything else that is not understood is an error with a reason: nothing is ignored.
 */
#ifndef WHET_LLAMA_POLICY_CONFIG_H
#define WHET_LLAMA_POLICY_CONFIG_H

#include "llama/index_set.h"
#include <stdbool.h>
#include <stddef.h>
#include <whet.h>

#define RULES_MAX 65536 /* in a file */
#define CONFIG_BYTES_MAX ((size_t)16 << 20)

typedef struct policy_rule {
    index_set layers, heads;
    whet_policy policy;
} policy_rule;

typedef struct policy_config {
    whet_policy policy; /* where no rule applies */
    policy_rule *rules;
    size_t rule_count;
} policy_config;

/* Softmax everywhere. */
policy_config policy_config_start(void);
void policy_config_free(policy_config *config); /* softmax everywhere again */

/* policy_config_parse.c: reads a file of `bytes` bytes into a config that was started. Free it
 * whatever this returns. A reason begins with its line, "3: unknown key", to follow "FILE:". */
bool policy_config_parse(policy_config *config, const char *text, size_t bytes, message *why);

/* The policy of one head of one layer; the same address for all heads that one rule decides. */
const whet_policy *policy_config_find(const policy_config *config, unsigned layer, unsigned head);

/* A policy by name; and the same with a strength. */
bool policy_config_make(const char *name, whet_policy *policy, message *why);
bool policy_config_set_strength(whet_policy *policy, double strength, message *why);

/* Whether the policy's temperature is that of plain softmax, for any strength and map. */
bool policy_config_has_plain_temperature(const whet_policy *policy);

/* Parses a non-negative number, with a decimal point in any locale. */
bool policy_config_number(const char *text, double *number);

#endif
