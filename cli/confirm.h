/* The question before long work, which every command asks in the same way. */
#ifndef WHET_CLI_CONFIRM_H
#define WHET_CLI_CONFIRM_H

#include "options.h"

static inline option_spec yes_option(bool *is_confirmed) {
    return (option_spec){"yes", OPTION_FLAG, is_confirmed, NULL,
                         "do not ask before work of more than 15 minutes"};
}

/* Asks on a terminal before work that takes more than 15 minutes, and refuses it elsewhere, unless
 * it is confirmed already. `parts` says what takes the time, or is "". STATUS_OK: go on; other exit
 * statuses come with a message. */
int confirm_seconds(double seconds, const char *parts, bool is_confirmed);

#endif
