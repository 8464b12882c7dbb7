/* Policies of every head from a file such as `whet tune` writes and the plug-in for llama.cpp reads
 * (WHET_CONFIG; docs/llama.cpp.md describes it). */
#ifndef WHET_LAB_LM_POLICY_FILE_H
#define WHET_LAB_LM_POLICY_FILE_H

#include "base/error.h"
#include "whet.h"

#include <stddef.h>

/* Fills policies[layers][heads]. Unknown members, wrong names and lists that are none are refused,
 * as by the plug-in; so are layers and heads that the model does not have. */
bool lm_policy_file_read(const char *path, size_t layers, size_t heads, whet_policy *policies,
                         lab_error *error);

#endif
