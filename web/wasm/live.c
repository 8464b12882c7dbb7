/*
 * What the playground calls in live.wasm, beside what library.c has: a language model from the
 * bytes of a GGUF file (lab/lm) that continues a text token by token, and a trained max-retrieval
 * head (lab/retrieval) that answers sets. One of each at a time. Functions return 0, or -1 with
 * the reason in live_message.
 */
#include "lm/decode.h"
#include "lm/gguf_model.h"
#include "lm/sample.h"
#include "retrieval/chunked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(#name))) name

static lab_error problem;

const char *EXPORT(live_message)(void);
const char *live_message(void) { return problem.text; }

static int answer(bool good) { return good ? 0 : -1; }

static void forget_problem(void) { problem = (lab_error){.kind = LAB_NO_ERROR}; }

/* The loops of this machine; there is no BLAS, see outside.c. */
static const nn_engine *engine(void) {
    static nn_engine only;
    only.kernels = nn_kernels_for_this_machine();
    return &only;
}

/* Zero-terminated names, one after the other. */
static bool parse_policies(const char *names, size_t count, whet_policy *policies) {
    for (size_t i = 0; i < count; i++, names += strlen(names) + 1)
        if (whet_policy_parse(names, &policies[i], problem.text, sizeof problem.text) != WHET_OK)
            return false;
    return true;
}

/* ---- the language model ---- */

typedef struct head_row {
    double entropy, entropy_after, beta, max_prob, argmax;
} head_row;

static struct open_model {
    lm_model model;
    lm_tokenizer tokenizer;
    lm_matrices matrices;
    lm_decoder *decoder;
    float *logits;
    lm_token_list tokens; /* read, and chosen since */
    lm_text text;
    head_row *rows;                     /* [layers][heads] of the last token */
    size_t watched_layer, watched_head; /* whose weights are kept */
    float *weights;                     /* [context] */
    size_t weight_count;
} live;

static size_t all_heads(void) { return (size_t)live.model.config.layers * live.model.config.heads; }

static void close_decoder(void) {
    lm_decoder_destroy(live.decoder);
    live.decoder = NULL;
    live.tokens.count = 0;
    live.weight_count = 0;
}

static void close_model(void) {
    close_decoder();
    lm_matrices_free(&live.matrices);
    lm_model_free(&live.model);
    lm_tokenizer_free(&live.tokenizer);
    free(live.logits);
    free(live.rows);
    free(live.weights);
    free(live.tokens.items);
    free(live.text.bytes);
    memset(&live, 0, sizeof live);
}

/* A file that is refused leaves the model that was open before. */
int EXPORT(live_open_model)(const void *bytes, size_t size);
int live_open_model(const void *bytes, size_t size) {
    struct open_model before = live, opened;
    memset(&live, 0, sizeof live);
    forget_problem();
    bool good =
        lm_gguf_read_memory(bytes, size, "the file", &live.model, &live.tokenizer, &problem) &&
        lm_matrices_create(&live.model, engine(), &live.matrices, &problem);
    if (good) {
        live.logits = nn_floats(live.model.config.vocabulary);
        live.rows = calloc(all_heads(), sizeof *live.rows);
        live.weights = nn_floats(live.model.config.context);
        good = (live.logits && live.rows && live.weights) || lab_fail_memory(&problem);
    }
    opened = live;
    live = good ? before : opened;
    close_model();
    live = good ? opened : before;
    return answer(good);
}

size_t EXPORT(live_layers)(void);
size_t live_layers(void) { return live.model.config.layers; }
size_t EXPORT(live_heads)(void);
size_t live_heads(void) { return live.model.config.heads; }
size_t EXPORT(live_context)(void);
size_t live_context(void) { return live.model.config.context; }

/* The logits of one row again, from its query and the cache, and the weights under its policy. */
static void keep_weights(const whet_attention *a) {
    size_t head = live.watched_head, shared = head / (a->heads / a->kv_heads);
    const float *q =
        (const float *)(const void *)((const char *)a->q.data + (ptrdiff_t)head * a->q.stride[1]);
    whet_policy policy = a->policies[a->policy_count > 1 ? head : 0];
    double scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->head_dim);
    live.weight_count = a->keys;
    for (size_t j = 0; j < a->keys; j++) {
        const char *row = (const char *)a->k.data + (ptrdiff_t)shared * a->k.stride[1] +
                          (ptrdiff_t)j * a->k.stride[2];
        const float *k = (const float *)(const void *)row;
        double sum = 0;
        for (size_t d = 0; d < a->head_dim; d++)
            sum += (double)q[d] * (double)k[d];
        live.weights[j] = (float)(sum * scale);
    }
    whet_rows rows = {.size = sizeof rows,
                      .rows = 1,
                      .n = a->keys,
                      .in = live.weights,
                      .out = live.weights,
                      .position = a->offset};
    whet_softmax(&rows, &policy, NULL);
}

static void watch(void *context, size_t layer, const whet_attention *a) {
    (void)context;
    for (size_t head = 0; head < a->heads; head++) {
        const whet_stats *s = &a->stats[head];
        live.rows[layer * a->heads + head] = (head_row){s->entropy, s->entropy_after, s->beta,
                                                        s->max_prob, (double)(int64_t)s->argmax};
    }
    if (layer == live.watched_layer && live.watched_head < a->heads)
        keep_weights(a);
}

/* [layers][heads] of five doubles, of the last token. */
const head_row *EXPORT(live_rows)(void);
const head_row *live_rows(void) { return live.rows; }

void EXPORT(live_watch)(size_t layer, size_t head);
void live_watch(size_t layer, size_t head) {
    live.watched_layer = layer;
    live.watched_head = head;
}

const float *EXPORT(live_weights)(void);
const float *live_weights(void) { return live.weights; }
size_t EXPORT(live_weight_count)(void);
size_t live_weight_count(void) { return live.weight_count; }

/* Reads a prompt under policies, [layers][heads] names. */
int EXPORT(live_start)(const char *prompt, const char *policy_names);
int live_start(const char *prompt, const char *policy_names) {
    const lm_tokenizer *t = &live.tokenizer;
    forget_problem();
    close_decoder();
    whet_policy *policies = calloc(all_heads(), sizeof *policies);
    bool good =
        policies ? parse_policies(policy_names, all_heads(), policies) : lab_fail_memory(&problem);
    if (good && t->adds_begin && t->begin != LM_NO_TOKEN)
        good = lm_token_list_add(&live.tokens, t->begin) || lab_fail_memory(&problem);
    good = good && lm_tokenize(t, prompt, strlen(prompt), &live.tokens, &problem) &&
           (live.tokens.count > 0 || lab_fail(&problem, LAB_INPUT, "the prompt is empty"));
    lm_decoder_options options = {.matrices = &live.matrices,
                                  .policies = policies,
                                  .lanes = 1,
                                  .capacity = live.model.config.context,
                                  .cache_type = WHET_F32,
                                  .watch = watch};
    if (good)
        live.decoder = lm_decoder_create(&options, &problem);
    good = live.decoder && lm_decoder_read(live.decoder, 0, live.tokens.items, live.tokens.count,
                                           live.logits, &problem);
    free(policies);
    if (!good)
        close_decoder();
    return answer(good);
}

size_t EXPORT(live_token_count)(void);
size_t live_token_count(void) { return live.tokens.count; }

/* The text of a token that was read or chosen. */
const char *EXPORT(live_token_text)(size_t i);
const char *live_token_text(size_t i) {
    live.text.length = 0;
    if (i >= live.tokens.count || !lm_text_add(&live.text, "", 0) ||
        !lm_tokenizer_text(&live.tokenizer, live.tokens.items[i],
                           i > 0 && live.tokens.items[i - 1] == live.tokenizer.begin, &live.text))
        return "";
    return live.text.bytes;
}

/* Chooses the likeliest token and reads it: 1, or 0 where the text or the context ends. */
int EXPORT(live_step)(void);
int live_step(void) {
    const size_t lane = 0;
    if (!live.decoder || live.tokens.count >= live.model.config.context)
        return 0;
    lm_token token = lm_greedy(live.logits, live.model.config.vocabulary);
    if (token == live.tokenizer.end || token == live.tokenizer.begin)
        return 0;
    forget_problem();
    if (!lm_token_list_add(&live.tokens, token))
        return answer(lab_fail_memory(&problem));
    return lm_decoder_step(live.decoder, &lane, &token, 1, live.logits, &problem) ? 1 : -1;
}

/* ---- the max-retrieval head ---- */

enum { MOST_ITEMS = 16384, MOST_POLICIES = 8 };

static struct {
    retrieval_head head;
    retrieval_model model;
    retrieval_chunked *chunked;
    retrieval_set set;
} trained;

/* The parameters of a head of the default shape in f32, as head_file.h stores them. */
int EXPORT(live_open_head)(const float *parameters, size_t count);
int live_open_head(const float *parameters, size_t count) {
    forget_problem();
    trained.head.config = retrieval_config_default();
    trained.head.config.precision = RETRIEVAL_F32;
    size_t expected = retrieval_layout_of(&trained.head.config).count;
    if (count != expected)
        return answer(lab_fail(&problem, LAB_INPUT, "the head has %zu parameters instead of %zu",
                               count, expected));
    trained.head.parameters = nn_floats(count);
    if (!trained.head.parameters)
        return answer(lab_fail_memory(&problem));
    memcpy(trained.head.parameters, parameters, count * sizeof *parameters);
    trained.model = retrieval_head_model(&trained.head, engine());
    trained.chunked =
        retrieval_chunked_create(&trained.model, NULL, MOST_ITEMS, MOST_POLICIES, &problem);
    return answer(trained.chunked != NULL);
}

/* Draws a set; the item to retrieve and its class are in live_top and live_label. */
int EXPORT(live_draw)(double seed, size_t n, double index);
int live_draw(double seed, size_t n, double index) {
    if (!trained.chunked || n < 1 || n > MOST_ITEMS)
        return -1;
    retrieval_chunked_open(trained.chunked, (uint64_t)seed, n, (uint64_t)index, &trained.set);
    return 0;
}

size_t EXPORT(live_top)(void);
size_t live_top(void) { return trained.set.top; }
size_t EXPORT(live_label)(void);
size_t live_label(void) { return trained.set.label; }
const float *EXPORT(live_set_logits)(void);
const float *live_set_logits(void) { return trained.set.logits; }
const float *EXPORT(live_set_priorities)(void);
const float *live_set_priorities(void) { return trained.set.priority; }
const uint16_t *EXPORT(live_set_classes)(void);
const uint16_t *live_set_classes(void) { return trained.set.class_of; }

/* Each policy's answer: the class, and the weight of the item to retrieve. */
int EXPORT(live_answers)(const char *policy_names, size_t count, int32_t *classes,
                         float *top_weights);
int live_answers(const char *policy_names, size_t count, int32_t *classes, float *top_weights) {
    whet_policy policies[MOST_POLICIES];
    float logits[MOST_POLICIES * RETRIEVAL_CLASSES_MAX];
    size_t n = trained.set.n, width = trained.head.config.classes;
    forget_problem();
    if (!trained.chunked || n == 0 || count > MOST_POLICIES ||
        !parse_policies(policy_names, count, policies))
        return -1;
    float *weights = retrieval_chunked_weights(trained.chunked);
    for (size_t p = 0; p < count; p++) {
        whet_rows rows = {.size = sizeof rows,
                          .rows = 1,
                          .n = n,
                          .in = trained.set.logits,
                          .out = weights + p * n};
        if (whet_softmax(&rows, &policies[p], NULL) > WHET_NOT_FINITE)
            return answer(lab_fail(&problem, LAB_INPUT, "%s", whet_last_error()));
        top_weights[p] = weights[p * n + trained.set.top];
    }
    retrieval_chunked_answer(trained.chunked, count, logits);
    for (size_t p = 0; p < count; p++)
        classes[p] = (int32_t)lm_greedy(logits + p * width, width);
    return 0;
}
