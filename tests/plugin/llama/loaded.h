/*
 * What tests load, as named by the environment before it is cleared (llama/environment.h), which
 * happens when a test starts.
 */
#ifndef WHET_TESTS_PLUGIN_LOADED_H
#define WHET_TESTS_PLUGIN_LOADED_H

/* The folder of the host's libraries, and the plug-in; NULL if there is none. */
const char *loaded_libraries(void);
const char *loaded_plugin(void);

#endif
