/*
 * The environment from which the plug-in takes its settings (plugin/ggml/settings.h). The plug-in
 * refuses unknown variables that begin with WHET_.
 */
#ifndef WHET_LLAMA_ENVIRONMENT_H
#define WHET_LLAMA_ENVIRONMENT_H

/* Removes all variables that begin with WHET_ except WHET_ISA, which belongs to the library. */
void environment_clear(void);

#endif
