/*
 * pack-heads FILE HEADS...: writes trained heads, each a checkpoint or a folder
 * of `whet retrieval train`, to a file of heads (lab/retrieval/head_file.h). It
 * made lab/heads/; lab/heads/README.md has the commands.
 */
#include "retrieval/head_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool append(retrieval_heads *to, const char *path, lab_error *error) {
    retrieval_heads more;
    if (!retrieval_heads_load(path, &more, error))
        return false;
    retrieval_head *list = realloc(to->list, (to->count + more.count) * sizeof *list);
    if (!list) {
        retrieval_heads_free(&more);
        return lab_fail_memory(error);
    }
    memcpy(list + to->count, more.list, more.count * sizeof *list);
    to->list = list;
    to->count += more.count;
    free(more.list);
    return true;
}

int main(int argc, char **argv) {
    lab_error error = {.kind = LAB_NO_ERROR};
    retrieval_heads heads = {.count = 0};
    if (argc < 3) {
        fputs("usage: pack-heads FILE HEADS...\n", stderr);
        return 2;
    }
    bool is_good = true;
    for (int i = 2; is_good && i < argc; i++)
        is_good = append(&heads, argv[i], &error);
    is_good = is_good && retrieval_heads_write(argv[1], &heads, &error);
    if (is_good)
        printf("%s: %zu head%s\n", argv[1], heads.count, heads.count == 1 ? "" : "s");
    else
        fprintf(stderr, "pack-heads: %s\n", error.text);
    retrieval_heads_free(&heads);
    return is_good ? 0 : 1;
}
