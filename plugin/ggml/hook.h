/*
 * The hook on the host's CPU backends: whatever makes one of them, its graph_compute is the
 * plug-in's. That the host calls it, and custom operations in it, as expected is proved before
 * anything of the host's has been changed for good: the host computes one through the hook.
 */
#ifndef WHET_PLUGIN_HOOK_H
#define WHET_PLUGIN_HOOK_H

#include "llama/host.h"
#include "message.h"

/*
 * Puts `replacement` in the place of graph_compute in every CPU backend that the host makes from
 * then on; until hook_start is called all graphs still pass to the host's own. False: it was not
 * done, and the reason is in `why`.
 */
bool hook_attach(const host *h, host_compute replacement, message *why);
void hook_start(void);

#endif
