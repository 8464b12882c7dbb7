/* llama2.c's files, read tensor by tensor into the layout of weights.h; see llama2c.h. */
#include "lm/llama2c.h"

#include "base/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEADER_NUMBERS = 7, HEADER_SIZE = HEADER_NUMBERS * 4, TOKENIZER_SIZE_MAX = 1 << 28 };

typedef struct source {
    const char *path;
    FILE *file;
    uint64_t size;
    uint64_t taken;
} source;

static bool refuse(const source *of, const char *why, lab_error *error) {
    return lab_fail(error, LAB_INPUT, "%s: %s", of->path, why);
}

/* Files of llama2.c have no mark: what is none of them is nothing that can be read. */
static bool refuse_kind(const source *of, lab_error *error) {
    return refuse(of, "not a whet checkpoint, GGUF or llama2.c model", error);
}

static bool open_source(source *of, const char *path, lab_error *error) {
    struct stat about;
    *of = (source){.path = path, .file = fopen(path, "rb")};
    if (!of->file || fstat(fileno(of->file), &about) != 0) {
        lab_fail_read(error, path, errno);
    } else if (!S_ISREG(about.st_mode)) {
        refuse(of, "not a regular file", error);
    } else {
        of->size = (uint64_t)about.st_size;
        return true;
    }
    if (of->file)
        fclose(of->file);
    return false;
}

static bool take(source *of, void *bytes, size_t count, lab_error *error) {
    if (fread(bytes, 1, count, of->file) != count)
        return ferror(of->file) ? lab_fail_file(error, "read", of->path)
                                : refuse(of, "the file is truncated", error);
    of->taken += count;
    return true;
}

/* ---- models ---- */

static uint32_t size_of(int64_t number) { return number < 0 ? UINT32_MAX : (uint32_t)number; }

static bool config_of(const source *of, const int32_t header[HEADER_NUMBERS], lm_config *config,
                      lab_error *error) {
    if (memcmp(header, "24ka", 4) == 0)
        return refuse(of, "a llama2.c model of an unsupported version; supported: 0", error);
    uint32_t heads = size_of(header[3]);
    *config = (lm_config){.width = size_of(header[0]),
                          .hidden = size_of(header[1]),
                          .layers = size_of(header[2]),
                          .heads = heads,
                          .key_heads = size_of(header[4]),
                          .vocabulary = size_of(llabs((long long)header[5])),
                          .context = size_of(header[6]),
                          .tied = header[5] > 0,
                          .gate = LM_SWIGLU,
                          .positions = LM_ROPE,
                          .rope_base = 10000,
                          .norm_epsilon = 1e-5,
                          .policy = "softmax"};
    if (heads == 0 || config->width % heads != 0)
        return refuse_kind(of, error);
    config->head_dim = config->rope_dims = config->width / heads;
    lab_error reason = {.kind = LAB_NO_ERROR};
    return lm_config_check(config, &reason) || refuse_kind(of, error);
}

/* Bytes of the tables of sines and cosines, which are skipped. */
static uint64_t table_bytes(const lm_config *config) {
    return (uint64_t)config->context * (config->head_dim / 2) * 2 * sizeof(float);
}

static bool skip(source *of, uint64_t bytes, lab_error *error) {
    char scrap[4096];
    while (bytes > 0) {
        size_t part = bytes < sizeof scrap ? (size_t)bytes : sizeof scrap;
        if (!take(of, scrap, part, error))
            return false;
        bytes -= part;
    }
    return true;
}

/* One kind of tensor for all layers. */
static bool take_layers(source *of, lm_model *model, size_t offset, size_t rows, size_t cols,
                        lab_error *error) {
    for (size_t layer = 0; layer < model->config.layers; layer++)
        if (!take(of, model->weights + lm_layer_at(&model->layout, layer) + offset,
                  rows * cols * sizeof(float), error))
            return false;
    return true;
}

static bool take_weights(source *of, lm_model *model, lab_error *error) {
    const lm_config *c = &model->config;
    const lm_layout *at = &model->layout;
    size_t width = c->width, hidden = c->hidden, table = (size_t)c->vocabulary * width;
    size_t queries = (size_t)c->heads * c->head_dim, keys = (size_t)c->key_heads * c->head_dim;
    return take(of, model->weights + at->embedding, table * sizeof(float), error) &&
           take_layers(of, model, at->attention_norm, 1, width, error) &&
           take_layers(of, model, at->query, queries, width, error) &&
           take_layers(of, model, at->key, keys, width, error) &&
           take_layers(of, model, at->value, keys, width, error) &&
           take_layers(of, model, at->output, width, queries, error) &&
           take_layers(of, model, at->mlp_norm, 1, width, error) &&
           take_layers(of, model, at->gate, hidden, width, error) &&
           take_layers(of, model, at->down, width, hidden, error) &&
           take_layers(of, model, at->up, hidden, width, error) &&
           take(of, model->weights + at->final_norm, width * sizeof(float), error) &&
           skip(of, table_bytes(c), error) &&
           (c->tied || take(of, model->weights + at->head, table * sizeof(float), error));
}

/* Before anything is allocated: a small file may claim to be a large model. */
static bool size_fits(const source *of, const lm_config *config, lab_error *error) {
    lm_layout layout;
    uint64_t wanted;
    if (!lm_layout_of(config, &layout) ||
        __builtin_add_overflow((uint64_t)layout.count * sizeof(float),
                               table_bytes(config) + HEADER_SIZE, &wanted))
        return refuse_kind(of, error);
    if (wanted == of->size)
        return true;
    return lab_fail(error, LAB_INPUT,
                    "%s: not a llama2.c model, or cut short: %llu bytes instead of %llu", of->path,
                    (unsigned long long)of->size, (unsigned long long)wanted);
}

bool lm_llama2c_read(const char *path, lm_model *model, lab_error *error) {
    source of;
    int32_t header[HEADER_NUMBERS] = {0};
    lm_config config = {.layers = 0};
    *model = (lm_model){.weights = NULL};
    if (!open_source(&of, path, error))
        return false;
    bool good = (of.size >= sizeof header || refuse_kind(&of, error)) &&
                take(&of, header, sizeof header, error) && config_of(&of, header, &config, error) &&
                size_fits(&of, &config, error) && lm_model_create(&config, model, error) &&
                take_weights(&of, model, error);
    fclose(of.file);
    if (!good)
        lm_model_free(model);
    return good;
}

/* ---- tokenizers ---- */

/* Blanks as in other tokenizers; llama2.c's control tokens have newlines around them. */
static bool set_token(lm_tokenizer *t, size_t index, const char *bytes, size_t length, float score,
                      lab_error *error) {
    lm_text text = {NULL, 0, 0};
    lm_piece_type type = index == 0   ? LM_PIECE_UNKNOWN
                         : index <= 2 ? LM_PIECE_CONTROL
                                      : LM_PIECE_NORMAL;
    if (index >= 3 && index < 3 + 256 && length == 6 && memcmp(bytes, "<0x", 3) == 0)
        type = LM_PIECE_BYTE;
    bool good = lm_text_add(&text, "", 0);
    for (size_t i = 0; good && i < length; i++) {
        bool is_mark = type == LM_PIECE_CONTROL && bytes[i] == '\n';
        if (!is_mark)
            good = bytes[i] == ' ' ? lm_text_add(&text, "\xE2\x96\x81", 3)
                                   : lm_text_add(&text, bytes + i, 1);
    }
    good = good ? lm_tokenizer_set(t, index, text.bytes, text.length, score, type, error)
                : lab_fail_memory(error);
    free(text.bytes);
    return good;
}

static bool take_tokens(lm_tokenizer *t, const char *bytes, size_t size, lab_error *error) {
    size_t at = 4; /* after the length of the longest token */
    for (size_t i = 0; i < t->count; i++) {
        float score;
        uint32_t length;
        if (at > size || size - at < 8)
            return lab_fail(error, LAB_INPUT, "%s: %zu tokens where the model has %zu", t->source,
                            i, t->count);
        memcpy(&score, bytes + at, 4);
        memcpy(&length, bytes + at + 4, 4);
        at += 8;
        if (length > size - at)
            return lab_fail(error, LAB_INPUT, "%s: token %zu is longer than the file", t->source,
                            i);
        if (!set_token(t, i, bytes + at, length, score, error))
            return false;
        at += length;
    }
    if (at == size)
        return true;
    return lab_fail(error, LAB_INPUT, "%s: more tokens than the %zu of the model", t->source,
                    t->count);
}

bool lm_llama2c_tokenizer(const char *path, size_t count, lm_tokenizer *t, lab_error *error) {
    size_t size;
    *t = (lm_tokenizer){.count = 0};
    char *bytes = lab_read_file(path, TOKENIZER_SIZE_MAX, &size, error);
    if (!bytes)
        return false;
    bool good = lm_tokenizer_start(t, LM_PIECES, count, 0, path, error);
    if (good && count < 3)
        good = lab_fail(error, LAB_INPUT,
                        "%s: not a llama2.c tokenizer (it lacks the three special tokens)", path);
    if (good) {
        t->unknown = 0;
        t->begin = 1;
        t->end = 2;
        t->adds_begin = true;
        good = take_tokens(t, bytes, size, error) && lm_tokenizer_seal(t, error);
    }
    free(bytes);
    return good;
}
