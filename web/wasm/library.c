/*
 * What JavaScript calls in whet.wasm, beside the functions of whet.h themselves: rows and
 * attention with plain arguments instead of descriptions, and policies by name. Every function
 * returns a whet_status, or -1 for a policy's name that is not valid; web_message has the reason.
 * Arrays are in the module's memory, allocated with malloc.
 */
#include "whet.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(#name))) name

enum { NOT_A_POLICY = -1, MESSAGE_SIZE = 512, MOST_PARAMETERS = 16 };

static char message[MESSAGE_SIZE];

const char *EXPORT(web_message)(void);
const char *web_message(void) { return message; }

static int answer(whet_status status) {
    const char *text = status > WHET_NOT_FINITE ? whet_last_error() : "";
    if (status > WHET_NOT_FINITE && !*text)
        text = whet_status_text(status);
    strncpy(message, text, sizeof message - 1);
    return (int)status;
}

static int parse(const char *name, whet_policy *policy) {
    return whet_policy_parse(name, policy, message, sizeof message) == WHET_OK ? 0 : NOT_A_POLICY;
}

size_t EXPORT(web_stats_bytes)(void);
size_t web_stats_bytes(void) { return sizeof(whet_stats); }

/* The mask is [n], or [rows][n] if its stride is n; sink and beta as in whet_rows. Without `out`
 * only statistics are computed. */
int EXPORT(web_softmax)(size_t rows, size_t n, const float *in, const float *mask,
                        size_t mask_stride, const float *sink, size_t sink_stride,
                        const float *beta, double position, double position_stride,
                        const char *policy_name, float *out, whet_stats *stats);
int web_softmax(size_t rows, size_t n, const float *in, const float *mask, size_t mask_stride,
                const float *sink, size_t sink_stride, const float *beta, double position,
                double position_stride, const char *policy_name, float *out, whet_stats *stats) {
    whet_policy policy;
    int parsed = parse(policy_name, &policy);
    whet_rows description = {.size = sizeof description,
                             .rows = rows,
                             .n = n,
                             .in = in,
                             .out = out,
                             .mask = mask,
                             .mask_stride = (ptrdiff_t)mask_stride,
                             .stats = stats,
                             .sink = sink,
                             .sink_stride = sink_stride,
                             .beta = beta,
                             .position = (int64_t)position,
                             .position_stride = (int64_t)position_stride};
    if (parsed != 0)
        return parsed;
    return answer(out ? whet_softmax(&description, &policy, NULL)
                      : whet_entropy(&description, &policy, NULL));
}

/* An array of zero-terminated names, one after the other, as policies to be freed. */
static int parse_list(const char *names, size_t count, whet_policy **policies) {
    *policies = calloc(count ? count : 1, sizeof **policies);
    if (!*policies)
        return answer(WHET_ERROR_MEMORY);
    for (size_t i = 0; i < count; i++, names += strlen(names) + 1)
        if (parse(names, &(*policies)[i]) != 0)
            return NOT_A_POLICY;
    return 0;
}

/* How JavaScript describes attention: contiguous floats [batch][head][position][element], and
 * NULL for what is not given. All members have four bytes, in this order. */
typedef struct web_attention {
    uint32_t batch, heads, kv_heads, queries, keys, head_dim, value_dim;
    const float *q, *k, *v;
    float *out;
    float scale, softcap;
    uint32_t causal;
    int32_t offset;
    uint32_t window;
    const float *mask;     /* [queries][keys], for all batches and heads */
    const float *sinks;    /* [heads] */
    const float *slopes;   /* [heads] */
    const char *policies;  /* names */
    uint32_t policy_count; /* 1 or heads */
    whet_stats *stats;     /* [batch][heads][queries] */
} web_attention;

size_t EXPORT(web_attention_bytes)(void);
size_t web_attention_bytes(void) { return sizeof(web_attention); }

int EXPORT(web_attention_forward)(const web_attention *a);
int web_attention_forward(const web_attention *a) {
    whet_policy *policies;
    int status = parse_list(a->policies, a->policy_count, &policies);
    whet_attention description = {
        .size = sizeof description,
        .batch = a->batch,
        .heads = a->heads,
        .kv_heads = a->kv_heads,
        .queries = a->queries,
        .keys = a->keys,
        .head_dim = a->head_dim,
        .value_dim = a->value_dim,
        .q.data = a->q,
        .k.data = a->k,
        .v.data = a->v,
        .out.data = a->out,
        .scale = a->scale,
        .softcap = a->softcap,
        .flags = a->causal ? WHET_CAUSAL : 0,
        .offset = a->offset,
        .window = a->window,
        .mask = {.data = a->mask,
                 .stride = {0, 0, a->mask ? (ptrdiff_t)(a->keys * sizeof(float)) : 0, 0}},
        .alibi_slopes = a->slopes,
        .sinks = a->sinks,
        .policies = policies,
        .policy_count = a->policy_count,
        .stats = a->stats};
    if (status == 0)
        status = answer(whet_attention_forward(&description, NULL, NULL));
    free(policies);
    return status;
}

/* The full name of a policy, to web_message: "adaptive" becomes itself, "ssmax:2" all of it. */
int EXPORT(web_policy_name)(const char *name);
int web_policy_name(const char *name) {
    whet_policy policy;
    if (parse(name, &policy) != 0)
        return NOT_A_POLICY;
    whet_policy_name(&policy, message, sizeof message);
    return 0;
}

/* The name and the value of a policy's parameter i; NULL past the last. */
const char *EXPORT(web_policy_parameter)(const char *name, size_t i, double *value);
const char *web_policy_parameter(const char *name, size_t i, double *value) {
    whet_policy policy;
    whet_parameter parameters[MOST_PARAMETERS];
    if (parse(name, &policy) != 0)
        return NULL;
    size_t count = whet_policy_parameters(&policy, parameters, MOST_PARAMETERS);
    if (i >= count || i >= MOST_PARAMETERS)
        return NULL;
    memcpy(value, (const char *)&policy + parameters[i].offset, sizeof *value);
    return parameters[i].name;
}

/* Beta of a row with these statistics, for curves over n. */
double EXPORT(web_policy_beta)(const char *name, const whet_stats *stats);
double web_policy_beta(const char *name, const whet_stats *stats) {
    whet_policy policy;
    return parse(name, &policy) == 0 ? whet_policy_beta(&policy, stats) : -1;
}
