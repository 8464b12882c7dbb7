/*
 * The hook on the host's CPU backends: however one of them is created, its graph_compute is the
 * plug-in's. Before anything of the host is changed permanently, the host computes one custom
 * operation through the hook, which verifies that it calls the hook and custom operations as
 * expected.
 */
#ifndef WHET_PLUGIN_HOOK_H
#define WHET_PLUGIN_HOOK_H

#include "llama/host.h"
#include "llama/message.h"

/*
 * Replaces graph_compute by `replacement` in every CPU backend that the host creates from then on.
 * Until hook_start is called, all graphs are still passed to the host's own function. False: not
 * done, and `why` has the reason.
 */
bool hook_attach(const host *h, host_compute replacement, message *why);
void hook_start(void);

#endif
