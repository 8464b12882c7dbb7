/*
 * The names that builds and packages give libllama, and where they put it.
 */
#ifndef WHET_LLAMA_LIBLLAMA_FILES_H
#define WHET_LLAMA_LIBLLAMA_FILES_H

#include <stdbool.h>

enum { LIBLLAMA_PATH_BYTES = 4096 };

/* libllama.so, libllama.so.0, libllama.v0.5.0.so; not libllama-common.so. */
bool libllama_is_file_name(const char *name);

/* The library in a folder. */
bool libllama_find_in(const char *folder, char path[LIBLLAMA_PATH_BYTES]);

/* In a folder, or where builds and packages have it below. */
bool libllama_find_below(const char *folder, char path[LIBLLAMA_PATH_BYTES]);

/* Beside the program llama-cli, or in the lib folder that goes with its bin. */
bool libllama_find_beside_program(char path[LIBLLAMA_PATH_BYTES]);

/* Among the system's libraries. */
bool libllama_find_in_system(char path[LIBLLAMA_PATH_BYTES]);

#endif
