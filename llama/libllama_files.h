/*
 * The file names of libllama in builds and packages, and their locations.
 */
#ifndef WHET_LLAMA_LIBLLAMA_FILES_H
#define WHET_LLAMA_LIBLLAMA_FILES_H

#include <stdbool.h>

enum { LIBLLAMA_PATH_BYTES = 4096 };

/* libllama.so, libllama.so.0, libllama.v0.5.0.so; not libllama-common.so. */
bool libllama_is_file_name(const char *name);

/* Searches a folder for the library. */
bool libllama_find_in(const char *folder, char path[LIBLLAMA_PATH_BYTES]);

/* Searches a folder and the places below it that builds and packages use. */
bool libllama_find_below(const char *folder, char path[LIBLLAMA_PATH_BYTES]);

/* Searches beside the program llama-cli, and in the lib folder that belongs to its bin folder. */
bool libllama_find_beside_program(char path[LIBLLAMA_PATH_BYTES]);

/* Searches the system's libraries. */
bool libllama_find_in_system(char path[LIBLLAMA_PATH_BYTES]);

#endif
