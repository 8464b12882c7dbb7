/*
 * A small program on top of an unmodified llama.cpp, for the tests of the plug-in: it replaces
 * llama-cli and llama-perplexity, which npm does not ship. It knows nothing of whet.
 *
 *     driver MODEL text FILE      perplexity of a text, in pieces of the context's size
 *     driver MODEL greedy PROMPT  continues a prompt with the most likely tokens
 *     driver MODEL answers FILE   the same for every line of a file, all at once
 *     driver MODEL speed          milliseconds of a prompt and of a token after it, best of several
 *
 * Options: --fa auto|on|off, --threads N, --context N, --batch N (tokens computed at once),
 * --tokens N (to generate, or in speed's prompt), --cache TYPE or --cache KTYPE,VTYPE, --sequences
 * N (greedy: that many at once, which must all give the same text), --unified 0|1 (one cache for
 * all sequences), --attention host|measured|exact (exact.h: print its error on standard error, or
 * correct it).
 */
#include "exact.h"
#include "llama/flash.h"
#include <ggml-backend.h>
#include <ggml.h>
#include <llama.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *model, *mode, *subject, *libraries;
    flash_kind flash;
    int threads, context, batch, tokens, sequences, unified;
    bool is_watched; /* attention, by exact */
    exact_attention exact;
    enum ggml_type key_type, value_type;
} options;

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "driver: %s\n", what);
    exit(1);
}

/* ---- options ---- */

static enum ggml_type type_named(const char *name, size_t length) {
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        const char *known = ggml_type_name((enum ggml_type)type);
        if (known && strlen(known) == length && strncmp(known, name, length) == 0)
            return (enum ggml_type)type;
    }
    fail("unknown type");
}

static void set_option(options *o, const char *name, const char *value) {
    if (strcmp(name, "--fa") == 0) {
        o->flash = strcmp(value, "on") == 0    ? FLASH_ON
                   : strcmp(value, "off") == 0 ? FLASH_OFF
                                               : FLASH_AUTO;
    } else if (strcmp(name, "--cache") == 0) {
        const char *comma = strchr(value, ',');
        const char *second = comma ? comma + 1 : value;
        o->key_type = type_named(value, comma ? (size_t)(comma - value) : strlen(value));
        o->value_type = type_named(second, strlen(second));
    } else if (strcmp(name, "--attention") == 0) {
        o->exact.replaces = strcmp(value, "exact") == 0;
        o->is_watched = o->exact.replaces || strcmp(value, "measured") == 0;
    } else {
        int *number = strcmp(name, "--threads") == 0     ? &o->threads
                      : strcmp(name, "--context") == 0   ? &o->context
                      : strcmp(name, "--batch") == 0     ? &o->batch
                      : strcmp(name, "--tokens") == 0    ? &o->tokens
                      : strcmp(name, "--sequences") == 0 ? &o->sequences
                      : strcmp(name, "--unified") == 0   ? &o->unified
                                                         : NULL;
        if (!number)
            fail("unknown option");
        *number = (int)strtol(value, NULL, 10);
    }
}

static options parse(int argc, char **argv) {
    options o = {.flash = FLASH_AUTO,
                 .threads = 2,
                 .context = 256,
                 .batch = 128,
                 .tokens = 40,
                 .sequences = 1,
                 .key_type = GGML_TYPE_F16,
                 .value_type = GGML_TYPE_F16,
                 .libraries = getenv("LLAMA_LIBRARIES")};
    if (argc < 3)
        fail("needs a model and what to do with it");
    o.model = argv[1];
    o.mode = argv[2];
    int i = 3;
    if (i < argc && strncmp(argv[i], "--", 2) != 0)
        o.subject = argv[i++];
    for (; i + 1 < argc; i += 2)
        set_option(&o, argv[i], argv[i + 1]);
    return o;
}

/* ---- the model ---- */

static void only_errors(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static struct llama_model *load_model(options *o) {
    if (o->libraries && *o->libraries)
        ggml_backend_load_all_from_path(o->libraries);
    else
        ggml_backend_load_all();
    struct llama_model_params params = llama_model_default_params();
    struct llama_model *model = llama_model_load_from_file(o->model, params);
    if (!model)
        fail("the model cannot be loaded");
    return model;
}

static struct llama_context *make_context(options *o, struct llama_model *model) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(o->context * o->sequences);
    params.n_batch = params.n_ctx;
    params.n_ubatch = (uint32_t)o->batch;
    params.n_seq_max = (uint32_t)o->sequences;
    params.n_threads = params.n_threads_batch = o->threads;
    set_flash(&params, o->flash);
    params.type_k = o->key_type;
    params.type_v = o->value_type;
    params.kv_unified = o->unified != 0;
    if (o->is_watched) {
        params.cb_eval = exact_callback;
        params.cb_eval_user_data = &o->exact;
    }
    struct llama_context *context = llama_init_from_model(model, params);
    if (!context)
        fail("there is no context for this model");
    return context;
}

static llama_token *tokenize(const struct llama_model *model, const char *text, int *count) {
    int capacity = (int)strlen(text) + 8;
    llama_token *tokens = calloc((size_t)capacity, sizeof *tokens);
    if (!tokens)
        fail("out of memory");
    *count = llama_tokenize(llama_model_get_vocab(model), text, (int)strlen(text), tokens, capacity,
                            true, true);
    if (*count <= 0)
        fail("the text cannot be tokenized");
    return tokens;
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (!file || !text)
        fail("the text cannot be read");
    size_t bytes = fread(text, 1, (1 << 20) - 1, file);
    text[bytes] = 0;
    fclose(file);
    return text;
}

static void add_token(struct llama_batch *batch, llama_token token, int position, int sequence,
                      bool wants_logits) {
    int i = batch->n_tokens++;
    batch->token[i] = token;
    batch->pos[i] = position;
    batch->n_seq_id[i] = 1;
    batch->seq_id[i][0] = sequence;
    batch->logits[i] = wants_logits;
}

static void decode(struct llama_context *context, struct llama_batch batch) {
    if (llama_decode(context, batch) != 0)
        fail("llama_decode failed");
}

/* ---- perplexity ---- */

static double surprise(const float *logits, int vocabulary, llama_token token) {
    double max = (double)logits[0];
    for (int i = 1; i < vocabulary; i++)
        max = (double)logits[i] > max ? (double)logits[i] : max;
    double sum = exp((double)logits[0] - max);
    for (int i = 1; i < vocabulary; i++)
        sum += exp((double)logits[i] - max);
    return log(sum) + max - (double)logits[token];
}

static void tell_perplexity(options *o, struct llama_model *model) {
    int count;
    char *text = read_text(o->subject);
    llama_token *tokens = tokenize(model, text, &count);
    struct llama_context *context = make_context(o, model);
    struct llama_batch batch = llama_batch_init(o->context, 0, 1);
    int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    double sum = 0;
    int scored = 0;
    for (int start = 0; start + 1 < count; start += o->context) {
        int size = count - start < o->context ? count - start : o->context;
        llama_memory_clear(llama_get_memory(context), true);
        batch.n_tokens = 0;
        for (int i = 0; i < size; i++)
            add_token(&batch, tokens[start + i], i, 0, true);
        decode(context, batch);
        for (int i = 0; i + 1 < size; i++, scored++)
            sum += surprise(llama_get_logits_ith(context, i), vocabulary, tokens[start + i + 1]);
    }
    printf("%.6f %d\n", exp(sum / scored), scored);
    llama_batch_free(batch);
    llama_free(context);
    free(tokens);
    free(text);
}

/* ---- greedy text ---- */

static llama_token most_likely(const float *logits, int vocabulary) {
    int best = 0;
    for (int i = 1; i < vocabulary; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void print_token(const struct llama_vocab *vocab, llama_token token) {
    char piece[256];
    int n = llama_token_to_piece(vocab, token, piece, sizeof piece, 0, false);
    if (n > 0)
        fwrite(piece, 1, (size_t)n, stdout);
}

static void tell_greedy(options *o, struct llama_model *model) {
    int count;
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    int vocabulary = llama_vocab_n_tokens(vocab);
    llama_token *tokens = tokenize(model, o->subject, &count);
    struct llama_context *context = make_context(o, model);
    struct llama_batch batch = llama_batch_init((count + 1) * o->sequences, 0, 1);
    batch.n_tokens = 0;
    for (int s = 0; s < o->sequences; s++)
        for (int i = 0; i < count; i++)
            add_token(&batch, tokens[i], i, s, i == count - 1);
    for (int n = 0; n < o->tokens; n++) {
        decode(context, batch);
        llama_token next = most_likely(llama_get_logits_ith(context, -1), vocabulary);
        for (int i = 0; i < batch.n_tokens; i++)
            if (batch.logits[i] &&
                most_likely(llama_get_logits_ith(context, i), vocabulary) != next)
                fail("sequences differ");
        if (llama_vocab_is_eog(vocab, next))
            break;
        print_token(vocab, next);
        batch.n_tokens = 0;
        for (int s = 0; s < o->sequences; s++)
            add_token(&batch, next, count + n, s, true);
    }
    printf("\n");
    llama_batch_free(batch);
    llama_free(context);
    free(tokens);
}

/* ---- answers ---- */

enum { ANSWERS_MAX = 16, ANSWER_SIZE = 4096 };

typedef struct answer {
    llama_token *prompt;
    int count; /* tokens so far, including the prompt */
    int place; /* index in the batch of the token whose logits count; -1 after its end */
    char text[ANSWER_SIZE];
} answer;

static int open_answers(options *o, const struct llama_model *model, answer *answers) {
    char *text = read_text(o->subject);
    int n = 0;
    for (char *line = strtok(text, "\n"); line && n < ANSWERS_MAX; line = strtok(NULL, "\n"), n++)
        answers[n].prompt = tokenize(model, line, &answers[n].count);
    free(text);
    return n;
}

/* Adds the next token of one sequence to the batch. */
static void go_on(struct llama_context *context, const struct llama_vocab *vocab, answer *with,
                  int sequence, struct llama_batch *batch) {
    if (with->place < 0)
        return;
    llama_token next =
        most_likely(llama_get_logits_ith(context, with->place), llama_vocab_n_tokens(vocab));
    size_t length = strlen(with->text);
    with->place = -1;
    if (llama_vocab_is_eog(vocab, next) || length + 256 > ANSWER_SIZE)
        return;
    int n = llama_token_to_piece(vocab, next, with->text + length, 255, 0, false);
    with->text[length + (size_t)(n > 0 ? n : 0)] = 0;
    with->place = batch->n_tokens;
    add_token(batch, next, with->count++, sequence, true);
}

static void tell_answers(options *o, struct llama_model *model) {
    static answer answers[ANSWERS_MAX];
    int n = open_answers(o, model, answers);
    o->sequences = n;
    struct llama_context *context = make_context(o, model);
    struct llama_batch batch = llama_batch_init(o->context * n, 0, 1),
                       next = llama_batch_init(n, 0, 1);
    for (int s = 0; s < n; s++)
        for (int i = 0; i < answers[s].count; i++) {
            answers[s].place = batch.n_tokens;
            add_token(&batch, answers[s].prompt[i], i, s, i == answers[s].count - 1);
        }
    for (int t = 0; t < o->tokens && batch.n_tokens > 0; t++) {
        decode(context, t ? next : batch);
        next.n_tokens = 0;
        for (int s = 0; s < n; s++)
            go_on(context, llama_model_get_vocab(model), &answers[s], s, &next);
        if (next.n_tokens == 0)
            break;
    }
    for (int s = 0; s < n; s++) {
        for (char *c = answers[s].text; *c; c++)
            putchar(*c == '\n' ? ' ' : *c);
        putchar('\n');
        free(answers[s].prompt);
    }
    llama_batch_free(batch);
    llama_batch_free(next);
    llama_free(context);
}

/* ---- speed ---- */

static double timed(struct llama_context *context, struct llama_batch batch) {
    int64_t start = ggml_time_us();
    decode(context, batch);
    llama_synchronize(context);
    return (double)(ggml_time_us() - start) / 1000;
}

static void tell_speed(options *o, struct llama_model *model) {
    struct llama_context *context = make_context(o, model);
    struct llama_batch batch = llama_batch_init(o->tokens, 0, 1);
    double prompt = HUGE_VAL, token = HUGE_VAL;
    for (int round = 0; round < 5; round++) {
        llama_memory_clear(llama_get_memory(context), true);
        batch.n_tokens = 0;
        for (int i = 0; i < o->tokens; i++)
            add_token(&batch, 5 + i % 300, i, 0, i == o->tokens - 1);
        prompt = fmin(prompt, timed(context, batch));
        for (int i = 0; i < 16; i++) {
            batch.n_tokens = 0;
            add_token(&batch, 5 + i, o->tokens + i, 0, true);
            token = fmin(token, timed(context, batch));
        }
    }
    printf("prompt %.3f ms, token %.3f ms\n", prompt, token);
    llama_batch_free(batch);
    llama_free(context);
}

int main(int argc, char **argv) {
    options o = parse(argc, argv);
    llama_log_set(only_errors, NULL);
    struct llama_model *model = load_model(&o);
    if (strcmp(o.mode, "text") == 0 && o.subject)
        tell_perplexity(&o, model);
    else if (strcmp(o.mode, "greedy") == 0 && o.subject)
        tell_greedy(&o, model);
    else if (strcmp(o.mode, "answers") == 0 && o.subject)
        tell_answers(&o, model);
    else if (strcmp(o.mode, "speed") == 0)
        tell_speed(&o, model);
    else
        fail("unknown mode");
    if (o.exact.operations)
        fprintf(stderr, "attention: %zu operations, off by %.3g on average, %.3g at most\n",
                o.exact.operations, o.exact.error_sum / (double)o.exact.operations,
                o.exact.largest);
    llama_model_free(model);
    return 0;
}
