/* Detects a file's format and reads it; see open.h. */
#define _POSIX_C_SOURCE 200809L

#include "lm/open.h"

#include "base/files.h"
#include "lm/gguf_model.h"
#include "lm/llama2c.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LIKELY_SIZE = 128 };

static bool read_beginning(const char *path, char beginning[8], size_t *length, lab_error *error) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return lab_fail_read(error, path, errno);
    *length = fread(beginning, 1, 8, file);
    int reason = ferror(file) ? errno : 0;
    fclose(file);
    return reason == 0 || lab_fail_read(error, path, reason);
}

/* ---- folders ---- */

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool looks_like_model(const char *name) {
    static const char *const ends[] = {".ckpt", ".gguf", ".bin"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t end = strlen(ends[i]);
        if (length > end && strcmp(name + length - end, ends[i]) == 0)
            return true;
    }
    return false;
}

/* The first, by name, of the files in a folder that may be models; "" if there is none. */
static void find_likely_model(const char *path, char found[LIKELY_SIZE]) {
    DIR *folder = opendir(path);
    found[0] = '\0';
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
        if (looks_like_model(entry->d_name) && strlen(entry->d_name) < LIKELY_SIZE &&
            (!*found || strcmp(entry->d_name, found) < 0))
            snprintf(found, LIKELY_SIZE, "%s", entry->d_name);
    if (folder)
        closedir(folder);
}

static void refuse_folder(const char *path, lab_error *error) {
    char likely[LIKELY_SIZE];
    find_likely_model(path, likely);
    if (*likely)
        lab_fail(error, LAB_INPUT,
                 "%s: a folder without model.ckpt; name the file of a model, such as %s/%s", path,
                 path, likely);
    else
        lab_fail(error, LAB_INPUT, "%s: a folder without a model; name the file of one", path);
}

char *lm_model_file(const char *path, lab_error *error) {
    bool is_run = is_folder(path);
    char *file = is_run ? lab_path(path, "model.ckpt") : strdup(path);
    if (!file) {
        lab_fail_memory(error);
    } else if (is_run && !lab_file_exists(file)) {
        refuse_folder(path, error);
        free(file);
        file = NULL;
    }
    return file;
}

/* ---- checkpoints ---- */

static bool open_checkpoint(const char *path, lm_opened *opened, lab_error *error) {
    if (!lm_model_load(path, &opened->model, error))
        return false;
    const json_t *tokens = json_object_get(opened->model.description, "tokens");
    const char *name = json_string_value(tokens);
    opened->is_clrs = name && strcmp(name, LM_TOKENS_CLRS) == 0;
    if (opened->is_clrs)
        return lm_tokenizer_clrs(&opened->tokenizer, error);
    if (name && strcmp(name, LM_TOKENS_TASK) == 0)
        return lab_fail(error, LAB_INPUT,
                        "%s: a model of a synthetic task, which has no text; 'whet league' trains "
                        "and tests such models",
                        path);
    return lm_tokenizer_from_json(&opened->tokenizer, tokens, path, error);
}

bool lm_store(const char *path, const lm_opened *opened, lab_error *error) {
    json_t *tokens =
        opened->is_clrs ? json_string(LM_TOKENS_CLRS) : lm_tokenizer_json(&opened->tokenizer);
    if (!tokens)
        return lab_fail_memory(error);
    return lm_model_save(path, &opened->model, tokens, error);
}

/* ---- llama2.c ---- */

/* A tokenizer beside a model, by llama2.c's file names; NULL if there is none. */
static char *tokenizer_beside(const char *path, uint32_t vocabulary) {
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) + 1 : 0;
    char *folder = malloc((size_t)length + 2);
    if (!folder)
        return NULL;
    snprintf(folder, (size_t)length + 2, "%.*s", length ? length : 1, length ? path : ".");
    char *found = lab_path(folder, "tok%u.bin", vocabulary);
    if (found && !lab_file_exists(found)) {
        free(found);
        found = lab_path(folder, "tokenizer.bin");
    }
    if (found && !lab_file_exists(found)) {
        free(found);
        found = NULL;
    }
    free(folder);
    return found;
}

static bool open_llama2c(const char *path, const char *tokenizer, lm_opened *opened,
                         lab_error *error) {
    if (!lm_llama2c_read(path, &opened->model, error))
        return false;
    uint32_t vocabulary = opened->model.config.vocabulary;
    char *beside = tokenizer ? NULL : tokenizer_beside(path, vocabulary);
    bool good =
        tokenizer || beside
            ? lm_llama2c_tokenizer(tokenizer ? tokenizer : beside, vocabulary, &opened->tokenizer,
                                   error)
            : lab_fail(error, LAB_INPUT,
                       "%s: no tokenizer: neither tok%u.bin nor tokenizer.bin is beside the "
                       "model; name one with --tokenizer",
                       path, vocabulary);
    free(beside);
    return good;
}

/* ---- any ---- */

static bool open_any(const char *path, const char *tokenizer, lm_opened *opened, lab_error *error) {
    char beginning[8] = "";
    size_t length = 0;
    if (!read_beginning(path, beginning, &length, error))
        return false;
    if (length == 8 && memcmp(beginning, "WHETCKPT", 8) == 0) {
        opened->format = "checkpoint";
        return open_checkpoint(path, opened, error);
    }
    if (length >= 4 && memcmp(beginning, "GGUF", 4) == 0) {
        opened->format = "GGUF";
        return lm_gguf_read(path, &opened->model, &opened->tokenizer, error);
    }
    return open_llama2c(path, tokenizer, opened, error);
}

/* Models converted through GGUF may use CLRS-Text, too; the number of tokens alone is no proof. */
static bool compare_with_clrs(lm_opened *opened, lab_error *error) {
    lm_tokenizer clrs = {.count = 0};
    bool good = lm_tokenizer_clrs(&clrs, error);
    opened->is_clrs = good && lm_tokenizer_same(&opened->tokenizer, &clrs);
    lm_tokenizer_free(&clrs);
    return good;
}

bool lm_open(const char *path, const char *tokenizer, lm_opened *opened, lab_error *error) {
    *opened = (lm_opened){.format = "llama2.c"};
    char *file = lm_model_file(path, error);
    bool is_open = file && open_any(file, tokenizer, opened, error);
    free(file);
    if (!is_open)
        return false;
    return opened->is_clrs || opened->tokenizer.count != LM_CLRS_VOCABULARY ||
           compare_with_clrs(opened, error);
}

void lm_opened_free(lm_opened *opened) {
    lm_model_free(&opened->model);
    lm_tokenizer_free(&opened->tokenizer);
    *opened = (lm_opened){.is_clrs = false};
}
