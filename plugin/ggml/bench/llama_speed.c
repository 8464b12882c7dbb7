/*
 * Times a whole model in llama.cpp, without and with the plug-in, in one process:
 * `tools/llama-speed` runs it.
 *
 *     llama_speed MODEL on|off CACHE DEPTHS THREADS SEQUENCES SECONDS
 *
 * `on` or `off` is flash attention, CACHE a type such as f16 (without flash attention that of the
 * keys: values are then f16), the next three are lists such as 0,2048,8192; SECONDS is for each
 * measurement. Two contexts share the weights: one made before the plug-in is loaded, which is the
 * host's own, and one made after. Both caches are filled to a depth once, by the plug-in, and
 * copied. Then the contexts take turns in computing the same tokens, which are forgotten again: a
 * prompt of 512 tokens in all, and single tokens of every sequence. The best time of each is
 * reported, one JSON object a line.
 */
#include "flash.h"
#include <ggml-backend.h>
#include <ggml.h>
#include <llama.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STOCK, WHET, WAYS };
enum { PROMPT = 512, TOKENS = 8, NUMBERS_MAX = 16, ROUNDS_LEAST = 2, ROUNDS_MOST = 50 };

typedef struct numbers {
    int of[NUMBERS_MAX], count, largest;
} numbers;

static struct {
    const char *model_path, *cache;
    flash_kind flash;
    numbers depths, threads, sequences;
    double seconds;
    struct llama_model *model;
    struct llama_context *context[WAYS];
    struct llama_batch batch;
    struct ggml_threadpool *pools[NUMBERS_MAX]; /* for each number of threads */
    int vocabulary, filled;                     /* tokens in the caches */
    int running;                                /* threads */
} bench;

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "llama_speed: %s\n", what);
    exit(1);
}

/* ---- options ---- */

static numbers parse_numbers(const char *text, int least) {
    numbers list = {.count = 0};
    for (char *end; list.count < NUMBERS_MAX; text = end + 1) {
        long number = strtol(text, &end, 10);
        if (end == text || number < least || number > 1 << 24 || (*end && *end != ','))
            break;
        if (list.count > 0 && number <= list.of[list.count - 1])
            break; /* depths are filled in order */
        list.of[list.count++] = (int)number;
        list.largest = (int)number;
        if (!*end)
            return list;
    }
    fail("a list is not of growing numbers such as 0,2048,8192");
}

static enum ggml_type type_named(const char *name) {
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        const char *known = ggml_type_name((enum ggml_type)type);
        if (known && strcmp(known, name) == 0)
            return (enum ggml_type)type;
    }
    fail("unknown type of cache");
}

/* ---- contexts ---- */

static void quiet(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static struct llama_context *make_context(void) {
    struct llama_context_params params = llama_context_default_params();
    int each = bench.depths.largest + PROMPT + TOKENS;
    params.n_ctx = (uint32_t)((each + 255) / 256 * 256 * bench.sequences.largest);
    params.n_batch = params.n_ubatch = PROMPT;
    params.n_seq_max = (uint32_t)bench.sequences.largest;
    params.n_threads = params.n_threads_batch = bench.threads.largest;
    params.kv_unified = false;
    params.type_k = type_named(bench.cache);
    params.type_v = bench.flash == FLASH_ON ? params.type_k : GGML_TYPE_F16;
    set_flash(&params, bench.flash);
    struct llama_context *context = llama_init_from_model(bench.model, params);
    if (!context)
        fail("cannot create a context: is there too little memory?");
    return context;
}

static void start(void) {
    struct llama_model_params params = llama_model_default_params();
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(WHET_LLAMA_LIB);
    params.n_gpu_layers = 0;
    bench.model = llama_model_load_from_file(bench.model_path, params);
    if (!bench.model)
        fail("cannot load the model");
    bench.vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(bench.model));
    bench.batch = llama_batch_init(PROMPT, 0, 1);
    bench.context[STOCK] = make_context();
    if (!ggml_backend_load(WHET_PLUGIN))
        fail(WHET_PLUGIN ": cannot load");
    bench.context[WHET] = make_context();
}

/* ---- threads ---- */

/* A function of the CPU backend's own library. */
static void find(const char *name, void *pointer) {
    ggml_backend_reg_t cpu =
        ggml_backend_dev_backend_reg(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    void *function = ggml_backend_reg_get_proc_address(cpu, name);
    if (!function)
        fail("llama.cpp's CPU backend lacks a function");
    memcpy(pointer, &function, sizeof function);
}

/*
 * Threads that spin between operations, as in llama-cli and llama-bench; without them the host
 * would create new ones for every graph. Both contexts have the same, since only one of them
 * computes at a time. A context pauses the threads that it had when it gets others: all live to the
 * end.
 */
static struct ggml_threadpool *make_threads(int count) {
    struct ggml_threadpool *(*make)(struct ggml_threadpool_params *);
    find("ggml_threadpool_new", &make);
    struct ggml_threadpool_params params = ggml_threadpool_params_default(count);
    struct ggml_threadpool *pool = make(&params);
    if (!pool)
        fail("cannot create threads");
    /* cppcheck-suppress returnDanglingLifetime; the host copies the parameters */
    return pool;
}

static void use_threads(int which) {
    int count = bench.running = bench.threads.of[which];
    if (!bench.pools[which])
        bench.pools[which] = make_threads(count);
    for (int way = 0; way < WAYS; way++) {
        llama_attach_threadpool(bench.context[way], bench.pools[which], bench.pools[which]);
        llama_set_n_threads(bench.context[way], count, count);
    }
}

static void end_threads(void) {
    void (*end)(struct ggml_threadpool *);
    find("ggml_threadpool_free", &end);
    for (int i = 0; i < bench.threads.count; i++)
        if (bench.pools[i])
            end(bench.pools[i]);
}

/* ---- computing ---- */

static void add_token(int position, int sequence) {
    struct llama_batch *batch = &bench.batch;
    int i = batch->n_tokens++;
    batch->token[i] = (position * 31 + sequence * 17 + position * (position % 13)) %
                      (bench.vocabulary < 1000 ? bench.vocabulary : 1000);
    batch->pos[i] = position;
    batch->n_seq_id[i] = 1;
    batch->seq_id[i][0] = sequence;
    batch->logits[i] = false;
}

/* With one thread, processor time, in which other work on the machine counts less. */
static double now(void) {
    struct timespec time;
    clock_gettime(bench.running == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The next `count` tokens of each sequence after `depth`; returns the seconds it took. */
static double compute(int way, int depth, int count, int sequences) {
    bench.batch.n_tokens = 0;
    for (int s = 0; s < sequences; s++) {
        for (int i = 0; i < count; i++)
            add_token(depth + i, s);
        bench.batch.logits[bench.batch.n_tokens - 1] = true;
    }
    double before = now();
    if (llama_decode(bench.context[way], bench.batch) != 0)
        fail("llama.cpp failed to compute");
    llama_synchronize(bench.context[way]);
    return now() - before;
}

static void forget(int way, int sequences) {
    for (int s = 0; s < sequences; s++)
        llama_memory_seq_rm(llama_get_memory(bench.context[way]), s, bench.filled, -1);
}

/* Copies the first sequence of the plug-in's context to the host's, and in both to the others. */
static void copy_caches(void) {
    size_t bytes = llama_state_seq_get_size(bench.context[WHET], 0);
    uint8_t *state = malloc(bytes);
    if (!state || llama_state_seq_get_data(bench.context[WHET], state, bytes, 0) != bytes ||
        llama_state_seq_set_data(bench.context[STOCK], state, bytes, 0) == 0)
        fail("cannot copy a cache");
    free(state);
    for (int way = 0; way < WAYS; way++) {
        llama_memory_t memory = llama_get_memory(bench.context[way]);
        for (int s = 1; s < bench.sequences.largest; s++) {
            llama_memory_seq_rm(memory, s, -1, -1);
            llama_memory_seq_cp(memory, 0, s, -1, -1);
        }
    }
}

/* Fills the caches up to a depth, with all threads. */
static void fill(int depth) {
    if (depth == bench.filled)
        return;
    use_threads(bench.threads.count - 1);
    while (bench.filled < depth) {
        int count = depth - bench.filled < PROMPT ? depth - bench.filled : PROMPT;
        compute(WHET, bench.filled, count, 1);
        bench.filled += count;
        fprintf(stderr, "filled %d of %d\n", bench.filled, bench.depths.largest);
    }
    copy_caches();
}

/* ---- measuring ---- */

/* Seconds of a prompt, or of a token of every sequence. */
static double take(int way, bool is_prompt, int sequences) {
    double seconds = 0;
    if (is_prompt)
        seconds = compute(way, bench.filled, PROMPT / sequences, sequences);
    for (int i = 0; !is_prompt && i < TOKENS; i++)
        seconds += compute(way, bench.filled + i, 1, sequences) / TOKENS;
    forget(way, sequences);
    return seconds;
}

static void measure(bool is_prompt, int sequences, double best[WAYS]) {
    double spent = 0;
    for (int way = 0; way < WAYS; way++) {
        best[way] = HUGE_VAL;
        compute(way, bench.filled, 1, sequences); /* copies of caches are made only now */
        forget(way, sequences);
    }
    for (int round = 0; round < ROUNDS_LEAST || (spent < bench.seconds && round < ROUNDS_MOST);
         round++)
        for (int way = 0; way < WAYS; way++) {
            double seconds = take(way, is_prompt, sequences);
            best[way] = fmin(best[way], seconds);
            spent += is_prompt ? seconds : TOKENS * seconds;
        }
}

static void report(int depth, int threads, int sequences) {
    double prompt[WAYS], token[WAYS];
    int tokens = PROMPT / sequences * sequences;
    measure(true, sequences, prompt);
    measure(false, sequences, token);
    printf("{\"flash\": \"%s\", \"cache\": \"%s\", \"depth\": %d, \"threads\": %d, "
           "\"sequences\": %d, \"prompt\": {\"llama.cpp\": %.2f, \"whet\": %.2f}, "
           "\"token\": {\"llama.cpp\": %.2f, \"whet\": %.2f}}\n",
           bench.flash == FLASH_ON ? "on" : "off", bench.cache, depth, threads, sequences,
           tokens / prompt[STOCK], tokens / prompt[WHET], sequences / token[STOCK],
           sequences / token[WHET]);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc != 8)
        fail("expected MODEL on|off CACHE DEPTHS THREADS SEQUENCES SECONDS; see tools/llama-speed");
    bench.model_path = argv[1];
    bench.flash = strcmp(argv[2], "on") == 0 ? FLASH_ON : FLASH_OFF;
    bench.cache = argv[3];
    bench.depths = parse_numbers(argv[4], 0);
    bench.threads = parse_numbers(argv[5], 1);
    bench.sequences = parse_numbers(argv[6], 1);
    bench.seconds = strtod(argv[7], NULL);
    start();
    for (int d = 0; d < bench.depths.count; d++) {
        fill(bench.depths.of[d]);
        for (int t = 0; t < bench.threads.count; t++) {
            use_threads(t);
            for (int s = 0; s < bench.sequences.count; s++)
                report(bench.depths.of[d], bench.threads.of[t], bench.sequences.of[s]);
        }
    }
    for (int way = 0; way < WAYS; way++)
        llama_free(bench.context[way]);
    end_threads();
    llama_batch_free(bench.batch);
    llama_model_free(bench.model);
    return 0;
}
