/* The table of policies that `whet policies` prints. */
#ifndef WHET_CLI_POLICIES_H
#define WHET_CLI_POLICIES_H

#include "whet.h"

#include <stddef.h>

/* The library's table, followed by the composition TEMPERATURE+MAP; NULL past the end. */
const whet_policy_info *policy_entry(size_t index);

#endif
