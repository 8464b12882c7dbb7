/*
 * The environment that the plug-in takes its settings from (plugin/ggml/settings.h). It refuses
 * variables that begin with WHET_ and are not known to it.
 */
#ifndef WHET_LLAMA_ENVIRONMENT_H
#define WHET_LLAMA_ENVIRONMENT_H

/* Takes out all variables that begin with WHET_, but for WHET_ISA, which is the library's. */
void environment_clear(void);

#endif
