/* Heads from checkpoints and from files of heads. */
#define _POSIX_C_SOURCE 200809L

#include "retrieval/head.h"

#include "base/files.h"
#include "nn/checkpoint.h"
#include "retrieval/head_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool retrieval_head_load(const char *path, retrieval_head *head, lab_error *error) {
    *head = (retrieval_head){.seed = 0};
    nn_checkpoint read;
    if (!nn_checkpoint_read(path, &read, error))
        return false;
    bool is_good =
        retrieval_config_from_json(read.description, path, &head->config, &head->seed, error);
    if (is_good) {
        size_t count = retrieval_layout_of(&head->config).count;
        head->step = read.step;
        if (read.count != 3 * count)
            is_good = lab_fail(error, LAB_INPUT,
                               "%s: damaged checkpoint: %zu weights where its model has %zu", path,
                               read.count, 3 * count);
        else if ((head->parameters = aligned_alloc(64, count * sizeof(float))) != NULL)
            memcpy(head->parameters, read.values, count * sizeof(float));
        else
            is_good = lab_fail_memory(error);
    }
    nn_checkpoint_free(&read);
    return is_good;
}

void retrieval_head_free(retrieval_head *head) {
    free(head->parameters);
    head->parameters = NULL;
}

retrieval_model retrieval_head_model(const retrieval_head *head, const nn_engine *engine) {
    return (retrieval_model){.engine = engine,
                             .config = head->config,
                             .layout = retrieval_layout_of(&head->config),
                             .policy = whet_policy_softmax(),
                             .parameters = head->parameters};
}

static bool append(retrieval_heads *heads, const char *path, lab_error *error) {
    retrieval_head *list = realloc(heads->list, (heads->count + 1) * sizeof *list);
    if (!list)
        return lab_fail_memory(error);
    heads->list = list;
    if (!retrieval_head_load(path, &list[heads->count], error))
        return false;
    heads->count++;
    return true;
}

static int by_seed(const void *a, const void *b) {
    uint64_t x = ((const retrieval_head *)a)->seed, y = ((const retrieval_head *)b)->seed;
    return (x > y) - (x < y);
}

static bool is_checkpoint(const char *name) {
    size_t length = strlen(name);
    return strncmp(name, "seed-", 5) == 0 && length > 10 && strcmp(name + length - 5, ".ckpt") == 0;
}

static bool load_folder(const char *path, retrieval_heads *heads, lab_error *error) {
    DIR *folder = opendir(path);
    if (!folder)
        return lab_fail_file(error, "read", path);
    bool is_good = true;
    for (const struct dirent *entry; is_good && (entry = readdir(folder)) != NULL;) {
        if (!is_checkpoint(entry->d_name))
            continue;
        char *file = lab_path(path, "%s", entry->d_name);
        is_good = file ? append(heads, file, error) : lab_fail_memory(error);
        free(file);
    }
    closedir(folder);
    if (is_good && heads->count == 0)
        return lab_fail(error, LAB_INPUT,
                        "%s: no checkpoint in this folder; 'whet retrieval train' makes one", path);
    if (is_good)
        qsort(heads->list, heads->count, sizeof *heads->list, by_seed);
    return is_good;
}

/* Whether a path is a file of heads; a checkpoint has but one. */
static bool is_head_file(const char *path) {
    char start[RETRIEVAL_HEAD_MAGIC_SIZE];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(start, 1, sizeof start, file) : 0;
    if (file)
        fclose(file);
    return retrieval_is_head_file(start, size);
}

static bool load_head_file(const char *path, retrieval_heads *heads, lab_error *error) {
    enum { SIZE_MOST = 1 << 30 };
    size_t size;
    char *bytes = lab_read_file(path, SIZE_MOST, &size, error);
    bool is_good = bytes && retrieval_heads_read(path, bytes, size, heads, error);
    free(bytes);
    return is_good;
}

bool retrieval_heads_load(const char *path, retrieval_heads *heads, lab_error *error) {
    *heads = (retrieval_heads){.count = 0};
    struct stat status;
    if (stat(path, &status) != 0)
        return lab_fail_read(error, path, errno);
    bool is_good = S_ISDIR(status.st_mode) ? load_folder(path, heads, error)
                   : is_head_file(path)    ? load_head_file(path, heads, error)
                                           : append(heads, path, error);
    if (!is_good)
        retrieval_heads_free(heads);
    return is_good;
}

void retrieval_heads_free(retrieval_heads *heads) {
    for (size_t i = 0; i < heads->count; i++)
        retrieval_head_free(&heads->list[i]);
    free(heads->list);
    *heads = (retrieval_heads){.count = 0};
}
