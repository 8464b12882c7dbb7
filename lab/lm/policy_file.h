/* Policies of every head from a file such as `whet tune` writes and the plug-in for llama.cpp reads
 * (WHET_CONFIG; llama/policy_config.h describes it). */
#ifndef WHET_LAB_LM_POLICY_FILE_H
#define WHET_LAB_LM_POLICY_FILE_H

#include "base/error.h"
#include "whet.h"

#include <stddef.h>

/* Fills policies[layers][heads]. What the plug-in refuses is refused with the same words. Layers
 * and heads that the model does not have are refused, too; the plug-in, which knows the model only
 * after it has run, reports them at the end. */
bool lm_policy_file_read(const char *path, size_t layers, size_t heads, whet_policy *policies,
                         lab_error *error);

#endif
