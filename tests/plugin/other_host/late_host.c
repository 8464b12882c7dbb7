/*
 * Stands in for a program that loads ggml late, with local symbols, and never looks for backends,
 * as bindings of other languages do. Its ggml is other_host.c as a library.
 *
 *     late_host LIBRARY WHICH
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = library ? dlsym(library, "run_late") : NULL;
    if (!symbol) {
        fprintf(stderr, "%s\n", argc == 3 ? dlerror() : "late_host LIBRARY WHICH");
        return 2;
    }
    int (*run)(const char *);
    memcpy(&run, &symbol, sizeof run);
    return run(argv[2]);
}
