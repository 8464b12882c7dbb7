/*
 * What tests load, as the environment names it before it is cleared (llama/environment.h), which
 * it is when a test starts.
 */
#ifndef WHET_TESTS_PLUGIN_LOADED_H
#define WHET_TESTS_PLUGIN_LOADED_H

/* The folder of the host's libraries, and the plug-in; NULL where there is none. */
const char *loaded_libraries(void);
const char *loaded_plugin(void);

#endif
