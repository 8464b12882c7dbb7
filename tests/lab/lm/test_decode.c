/*
 * Inference against a forward pass written plainly in double, whose only help is
 * the library's own row of weights; and what must not change a result: other
 * lanes, threads, and how a sequence is cut into prompts and steps.
 */
#include "support/check.h"

#include "base/random.h"
#include "lm/decode.h"
#include "lm/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 33, VOCABULARY = 50, WIDTH_MAX = 64 };

static nn_engine engine;

static void open_engine(void) {
    lab_error error = {0};
    if (!engine.kernels && !nn_engine_open(&engine, &error))
        SKIP("%s", error.text);
}

static lm_config tiny_config(void) {
    lm_config c = lm_config_default();
    c.layers = 2;
    c.width = 24;
    c.heads = 4;
    c.key_heads = 2;
    c.head_dim = 10;
    c.rope_dims = 8;
    c.hidden = 37;
    c.context = 80;
    c.vocabulary = VOCABULARY;
    return c;
}

static void make_model(const lm_config *config, lm_model *model) {
    lab_error error = {0};
    open_engine();
    REQUIRE(lm_config_check(config, &error));
    REQUIRE(lm_model_create(config, model, &error));
    lm_initialise(config, &model->layout, 7, model->weights);
    /* sharper than it begins, so that policies have something to do */
    for (size_t i = 0; i < model->layout.count; i++)
        model->weights[i] *= 1.7f;
    /* biases begin as zero and gains as one, which would hide them */
    lab_random random = lab_random_start(13);
    for (size_t t = 0; t < lm_tensor_count(config); t++) {
        lm_tensor tensor = lm_tensor_at(config, &model->layout, t);
        for (size_t i = 0; tensor.rows == 1 && i < tensor.cols; i++)
            model->weights[tensor.offset + i] += 0.2f * (float)lab_random_normal(&random);
    }
}

static void draw_tokens(lm_token tokens[TOKENS]) {
    lab_random random = lab_random_start(5);
    for (size_t i = 0; i < TOKENS; i++)
        tokens[i] = lab_random_below(&random, VOCABULARY);
}

/* ---- the plain forward pass ---- */

/* y may be x. */
static void plain_norm_of(const lm_config *c, size_t count, const float *gain, const double *x,
                          double *y) {
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += x[i] * x[i];
    double factor = 1 / sqrt(squares / (double)count + c->norm_epsilon);
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] * factor * (double)gain[i];
}

static void plain_norm(const lm_config *c, const float *gain, const double *x, double *y) {
    plain_norm_of(c, c->width, gain, x, y);
}

static double plain_cap(double cap, double x) { return cap > 0 ? cap * tanh(x / cap) : x; }

static void plain_product(const float *w, size_t out, size_t in, const double *x, double *y) {
    for (size_t o = 0; o < out; o++) {
        y[o] = 0;
        for (size_t i = 0; i < in; i++)
            y[o] += (double)w[o * in + i] * x[i];
    }
}

static void plain_rotate(const lm_config *c, size_t layer, size_t position, double *head) {
    bool has_own = c->window > 0 && (layer + 1) % c->window_period != 0 && c->window_rope_base > 0;
    double base = has_own ? c->window_rope_base : c->rope_base;
    for (size_t i = 0; c->positions == LM_ROPE && i < c->rope_dims; i += 2) {
        double angle = (double)position * pow(base, -(double)i / c->rope_dims);
        double a = head[i], b = head[i + 1];
        head[i] = a * cos(angle) - b * sin(angle);
        head[i + 1] = a * sin(angle) + b * cos(angle);
    }
}

static double curve(const lm_config *c, double z) {
    if (c->gate == LM_SWIGLU)
        return z / (1 + exp(-z));
    return 0.5 * z * (1 + tanh(0.7978845608028654 * (z + 0.044715 * z * z * z)));
}

/* Weights of one query among `keys` keys. */
static void plain_weights(const double *logits, size_t keys, const whet_policy *policy,
                          const float *sink, const float *beta, float *weights) {
    for (size_t j = 0; j < keys; j++)
        weights[j] = (float)logits[j];
    whet_rows rows = {.size = sizeof rows,
                      .rows = 1,
                      .n = keys,
                      .in = weights,
                      .out = weights,
                      .sink = sink,
                      .beta = beta};
    REQUIRE(whet_softmax(&rows, policy, NULL) == WHET_OK);
}

typedef struct plain_state {
    double q[TOKENS][WIDTH_MAX], k[TOKENS][WIDTH_MAX], v[TOKENS][WIDTH_MAX];
    double x[TOKENS][WIDTH_MAX];
    double betas[TOKENS][WIDTH_MAX]; /* projections b and g of each head */
} plain_state;

/* The beta of a query by its projections; heads with slopes among others have 1. */
static float plain_beta(const lm_config *c, const plain_state *s, size_t at, size_t head) {
    if (c->positions == LM_MIX && head < c->heads / 2)
        return 1;
    double power = 2 * tanh(s->betas[at][c->heads + head]);
    return (float)(1 + log(1 + exp(s->betas[at][head])) * pow(log((double)at + 2), power));
}

static double plain_slope(const lm_config *c, size_t head) {
    if (c->positions == LM_ALIBI)
        return pow(2, -8 * ((double)head + 1) / c->heads);
    return c->positions == LM_MIX && head < c->heads / 2 ? 1 / ((double)head + 1) : 0;
}

static void plain_attention(const lm_model *m, const plain_state *s, size_t layer, size_t at,
                            const whet_policy *policy, double *mixed) {
    const lm_config *c = &m->config;
    const float *sinks = m->weights + lm_layer_at(&m->layout, layer) + m->layout.sinks;
    bool is_windowed = c->window > 0 && (layer + 1) % c->window_period != 0;
    size_t first = is_windowed && at >= c->window ? at + 1 - c->window : 0;
    double scale = c->attention_scale > 0 ? c->attention_scale : 1 / sqrt((double)c->head_dim);
    for (size_t h = 0; h < c->heads; h++) {
        size_t kv = h / (c->heads / c->key_heads), dim = c->head_dim;
        double logits[TOKENS];
        float weights[TOKENS];
        for (size_t j = first; j <= at; j++) {
            logits[j] = 0;
            for (size_t i = 0; i < dim; i++)
                logits[j] += s->q[at][h * dim + i] * s->k[j][kv * dim + i];
            logits[j] = plain_cap(c->attention_cap, scale * logits[j]) -
                        plain_slope(c, h) * (double)(at - j);
        }
        float beta = c->has_query_betas ? plain_beta(c, s, at, h) : 1;
        plain_weights(logits + first, at + 1 - first, policy, c->has_sinks ? sinks + h : NULL,
                      c->has_query_betas ? &beta : NULL, weights + first);
        for (size_t i = 0; i < dim; i++) {
            mixed[h * dim + i] = 0;
            for (size_t j = first; j <= at; j++)
                mixed[h * dim + i] += (double)weights[j] * s->v[j][kv * dim + i];
        }
    }
}

/* Biases and norms of a token's heads, which then are rotated. */
static void plain_heads(const lm_model *m, size_t layer, size_t t, plain_state *s) {
    const lm_config *c = &m->config;
    const lm_layout *l = &m->layout;
    const float *w = m->weights + lm_layer_at(l, layer);
    size_t dim = c->head_dim;
    for (size_t i = 0; c->has_biases && i < c->heads * dim; i++)
        s->q[t][i] += (double)w[l->query_bias + i];
    for (size_t i = 0; c->has_biases && i < c->key_heads * dim; i++) {
        s->k[t][i] += (double)w[l->key_bias + i];
        s->v[t][i] += (double)w[l->value_bias + i];
    }
    for (size_t h = 0; h < (size_t)c->heads + c->key_heads; h++) {
        bool is_key = h >= c->heads;
        double *head = is_key ? s->k[t] + (h - c->heads) * dim : s->q[t] + h * dim;
        if (c->has_head_norms)
            plain_norm_of(c, dim, w + (is_key ? l->key_norm : l->query_norm), head, head);
        plain_rotate(c, layer, t, head);
    }
}

static void plain_layer(const lm_model *m, size_t layer, const whet_policy *policy,
                        plain_state *s) {
    const lm_config *c = &m->config;
    const lm_layout *l = &m->layout;
    const float *w = m->weights + lm_layer_at(l, layer);
    size_t queries = (size_t)c->heads * c->head_dim, keys = (size_t)c->key_heads * c->head_dim;
    double y[WIDTH_MAX], z[2 * WIDTH_MAX], mixed[WIDTH_MAX];
    for (size_t t = 0; t < TOKENS; t++) {
        plain_norm(c, w + l->attention_norm, s->x[t], y);
        plain_product(w + l->query, queries, c->width, y, s->q[t]);
        plain_product(w + l->key, keys, c->width, y, s->k[t]);
        plain_product(w + l->value, keys, c->width, y, s->v[t]);
        plain_heads(m, layer, t, s);
        if (c->has_query_betas)
            plain_product(w + l->beta, 2 * (size_t)c->heads, c->width, y, s->betas[t]);
        for (size_t i = 0; c->has_query_betas && i < 2 * (size_t)c->heads; i++)
            s->betas[t][i] += (double)w[l->beta_bias + i];
    }
    for (size_t t = 0; t < TOKENS; t++) {
        plain_attention(m, s, layer, t, policy, mixed);
        plain_product(w + l->output, c->width, queries, mixed, y);
        if (c->has_post_norms)
            plain_norm(c, w + l->attention_post_norm, y, y);
        for (size_t i = 0; i < c->width; i++)
            s->x[t][i] += y[i];
        plain_norm(c, w + l->mlp_norm, s->x[t], y);
        plain_product(w + l->gate, c->hidden, c->width, y, z);
        plain_product(w + l->up, c->hidden, c->width, y, z + c->hidden);
        for (size_t i = 0; i < c->hidden; i++)
            z[i] = curve(c, z[i]) * z[c->hidden + i];
        plain_product(w + l->down, c->width, c->hidden, z, y);
        if (c->has_post_norms)
            plain_norm(c, w + l->mlp_post_norm, y, y);
        for (size_t i = 0; i < c->width; i++)
            s->x[t][i] += y[i];
    }
}

/* Logits after every token. */
static void plain_forward(const lm_model *m, const lm_token *tokens, const whet_policy *policy,
                          double logits[TOKENS][VOCABULARY]) {
    static plain_state s;
    const lm_config *c = &m->config;
    double y[WIDTH_MAX];
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < c->width; i++)
            s.x[t][i] = (double)m->weights[m->layout.embedding + tokens[t] * c->width + i];
    for (size_t layer = 0; layer < c->layers; layer++)
        plain_layer(m, layer, policy, &s);
    for (size_t t = 0; t < TOKENS; t++) {
        plain_norm(c, m->weights + m->layout.final_norm, s.x[t], y);
        plain_product(m->weights + m->layout.head, VOCABULARY, c->width, y, logits[t]);
        for (size_t i = 0; i < VOCABULARY; i++)
            logits[t][i] = plain_cap(c->output_cap, logits[t][i]);
    }
}

/* ---- decoders ---- */

static lm_decoder *decoder_of(const lm_matrices *matrices, const whet_policy *policy,
                              const whet_executor *executor, whet_type type) {
    lab_error error = {0};
    const lm_decoder_options options = {.matrices = matrices,
                                        .executor = executor,
                                        .policy = policy,
                                        .lanes = 5,
                                        .capacity = TOKENS + 3,
                                        .cache_type = type,
                                        .measures = true};
    lm_decoder *d = lm_decoder_create(&options, &error);
    if (!d)
        printf("     %s\n", error.text);
    REQUIRE(d != NULL);
    return d;
}

static double largest(const double *values) {
    double most = 0;
    for (size_t i = 0; i < VOCABULARY; i++)
        most = fmax(most, fabs(values[i]));
    return most;
}

static void check_logits(const float *actual, const double *expected, double tolerance,
                         const char *what, size_t at) {
    double worst = 0;
    for (size_t i = 0; i < VOCABULARY; i++)
        worst = fmax(worst, fabs((double)actual[i] - expected[i]));
    CHECK_MSG(worst <= tolerance * fmax(1, largest(expected)), "%s, token %zu: off by %g", what, at,
              worst);
}

/* A prompt of `prompt` tokens and the rest step by step, compared after each. */
static void check_against_plain(const lm_config *config, const char *policy_name, size_t prompt,
                                whet_type type, double tolerance) {
    static double expected[TOKENS][VOCABULARY];
    lm_token tokens[TOKENS];
    float logits[VOCABULARY];
    lm_model model;
    lm_matrices matrices;
    whet_policy policy;
    lab_error error = {0};
    const size_t lane = 3;
    draw_tokens(tokens);
    make_model(config, &model);
    REQUIRE(lm_matrices_create(&model, &engine, &matrices, &error));
    REQUIRE(whet_policy_parse(policy_name, &policy, NULL, 0) == WHET_OK);
    plain_forward(&model, tokens, &policy, expected);
    lm_decoder *d = decoder_of(&matrices, &policy, NULL, type);
    REQUIRE(lm_decoder_read(d, lane, tokens, prompt, logits, &error));
    check_logits(logits, expected[prompt - 1], tolerance, policy_name, prompt - 1);
    for (size_t t = prompt; t < TOKENS; t++) {
        REQUIRE(lm_decoder_step(d, &lane, &tokens[t], 1, logits, &error));
        check_logits(logits, expected[t], tolerance, policy_name, t);
    }
    CHECK_INT(lm_decoder_length(d, lane), TOKENS);
    lm_decoder_destroy(d);
    lm_matrices_free(&matrices);
    lm_model_free(&model);
}

TEST(a_prompt_and_steps_give_what_a_plain_forward_pass_gives) {
    static const char *const policies[] = {"softmax",  "adaptive",  "target:0.5",
                                           "length:8", "ssmax:0.9", "entmax15"};
    static const size_t prompts[] = {1, 2, 17, TOKENS};
    lm_config config = tiny_config();
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
            check_against_plain(&config, policies[p], prompts[i], WHET_F32, 2e-4);
}

TEST(other_families_are_read_rightly) {
    for (int variant = 0; variant < 4; variant++) {
        lm_config config = tiny_config();
        bool is_gemma = variant >= 2;
        config.gate = is_gemma ? LM_GEGLU : LM_SWIGLU;
        config.has_biases = variant == 0;
        config.has_head_norms = variant == 1 || variant == 3;
        config.has_post_norms = is_gemma;
        config.window = is_gemma ? 7 : 0;
        config.window_period = is_gemma ? 2 : 0;
        config.window_rope_base = variant == 3 ? 50 : 0;
        config.attention_scale = variant == 3 ? 0.4 : 0;
        config.attention_cap = variant == 2 ? 1.5 : 0;
        config.output_cap = variant == 2 ? 2.5 : 0;
        check_against_plain(&config, "softmax", 1, WHET_F32, 2e-4);
        check_against_plain(&config, "adaptive", 17, WHET_F32, 2e-4);
        check_against_plain(&config, "softmax", TOKENS, WHET_F32, 2e-4);
    }
}

TEST(every_kind_of_model_is_read_rightly) {
    lm_config config = tiny_config();
    config.gate = LM_SWIGLU;
    config.tied = false;
    check_against_plain(&config, "softmax", 9, WHET_F32, 2e-4);
    config.positions = LM_NO_POSITIONS;
    check_against_plain(&config, "softmax", 9, WHET_F32, 2e-4);
    config = tiny_config();
    config.key_heads = 4;
    config.rope_dims = 10;
    check_against_plain(&config, "adaptive", 9, WHET_F32, 2e-4);
    config.key_heads = 1;
    config.width = 17;
    check_against_plain(&config, "adaptive", 9, WHET_F32, 2e-4);
}

TEST(slopes_sinks_and_betas_of_queries_are_read_rightly) {
    static const lm_positions positions[] = {LM_ALIBI, LM_MIX, LM_NO_POSITIONS};
    static const char *const maps[] = {"softmax", "entmax15", "stick-breaking"};
    for (size_t i = 0; i < 3; i++) {
        lm_config config = tiny_config();
        config.positions = positions[i];
        check_against_plain(&config, "adaptive", 9, WHET_F32, 2e-4);
        config.has_sinks = true;
        check_against_plain(&config, "adaptive", 1, WHET_F32, 2e-4);
        config.has_query_betas = true;
        snprintf(config.policy, sizeof config.policy, "%s", maps[i]);
        check_against_plain(&config, maps[i], 17, WHET_F32, 4e-4);
    }
}

TEST(a_cache_of_halves_is_nearly_as_good) {
    lm_config config = tiny_config();
    check_against_plain(&config, "softmax", 9, WHET_F16, 2e-2);
}

/* ---- what must not matter ---- */

typedef struct setting {
    lm_model model;
    lm_matrices matrices;
    lm_token tokens[TOKENS];
} setting;

static void set_up(setting *s) {
    lab_error error = {0};
    lm_config config = tiny_config();
    draw_tokens(s->tokens);
    make_model(&config, &s->model);
    REQUIRE(lm_matrices_create(&s->model, &engine, &s->matrices, &error));
}

static void tear_down(setting *s) {
    lm_matrices_free(&s->matrices);
    lm_model_free(&s->model);
}

TEST(a_lane_gives_the_same_bits_whatever_the_others_do) {
    setting s;
    lab_error error = {0};
    float alone[VOCABULARY], together[3 * VOCABULARY], scrap[VOCABULARY];
    const size_t one = 2, lanes[] = {0, 2, 4};
    set_up(&s);
    lm_decoder *d = decoder_of(&s.matrices, NULL, NULL, WHET_F32);
    REQUIRE(lm_decoder_read(d, 2, s.tokens, 10, scrap, &error));
    REQUIRE(lm_decoder_step(d, &one, &s.tokens[10], 1, alone, &error));
    lm_decoder_reset(d, 2);
    REQUIRE(lm_decoder_read(d, 0, s.tokens + 4, 21, scrap, &error));
    REQUIRE(lm_decoder_read(d, 2, s.tokens, 10, scrap, &error));
    REQUIRE(lm_decoder_read(d, 4, s.tokens + 1, 1, scrap, &error));
    const lm_token next[] = {s.tokens[3], s.tokens[10], s.tokens[7]};
    REQUIRE(lm_decoder_step(d, lanes, next, 3, together, &error));
    CHECK(same_bytes(alone, together + VOCABULARY, sizeof alone));
    CHECK(!same_bytes(alone, together, sizeof alone));
    lm_decoder_destroy(d);
    tear_down(&s);
}

TEST(threads_change_nothing) {
    setting s;
    lab_error error = {0};
    whet_pool *pool;
    float alone[VOCABULARY], threaded[VOCABULARY];
    const size_t lane = 0;
    set_up(&s);
    REQUIRE(whet_pool_create(3, &pool) == WHET_OK);
    whet_executor executor = whet_pool_executor(pool);
    lm_decoder *a = decoder_of(&s.matrices, NULL, NULL, WHET_F32);
    lm_decoder *b = decoder_of(&s.matrices, NULL, &executor, WHET_F32);
    REQUIRE(lm_decoder_read(a, lane, s.tokens, 30, alone, &error));
    REQUIRE(lm_decoder_read(b, lane, s.tokens, 30, threaded, &error));
    CHECK(same_bytes(alone, threaded, sizeof alone));
    REQUIRE(lm_decoder_step(a, &lane, &s.tokens[30], 1, alone, &error));
    REQUIRE(lm_decoder_step(b, &lane, &s.tokens[30], 1, threaded, &error));
    CHECK(same_bytes(alone, threaded, sizeof alone));
    lm_decoder_destroy(a);
    lm_decoder_destroy(b);
    whet_pool_destroy(pool);
    tear_down(&s);
}

TEST(long_prompts_are_read_in_pieces_and_come_to_the_same) {
    enum { LONG = 700 };
    static lm_token tokens[LONG];
    setting s;
    lab_error error = {0};
    lm_config config = tiny_config();
    float whole[VOCABULARY], parts[VOCABULARY];
    lab_random random = lab_random_start(11);
    config.context = LONG;
    make_model(&config, &s.model);
    REQUIRE(lm_matrices_create(&s.model, &engine, &s.matrices, &error));
    for (size_t i = 0; i < LONG; i++)
        tokens[i] = lab_random_below(&random, VOCABULARY);
    const lm_decoder_options options = {.matrices = &s.matrices, .lanes = 2, .capacity = LONG};
    lm_decoder *d = lm_decoder_create(&options, &error);
    REQUIRE(d != NULL);
    REQUIRE(lm_decoder_read(d, 0, tokens, LONG, whole, &error));
    REQUIRE(lm_decoder_read(d, 1, tokens, 33, parts, &error));
    REQUIRE(lm_decoder_read(d, 1, tokens + 33, LONG - 33, parts, &error));
    for (size_t i = 0; i < VOCABULARY; i++)
        CHECK_NEAR(parts[i], whole[i], 2e-4);
    lm_decoder_destroy(d);
    tear_down(&s);
}

TEST(entropies_are_those_of_single_steps) {
    setting s;
    lab_error error = {0};
    float logits[VOCABULARY];
    const size_t lane = 0;
    set_up(&s);
    whet_policy sharp = whet_policy_fixed(3);
    lm_decoder *d = decoder_of(&s.matrices, &sharp, NULL, WHET_F32);
    REQUIRE(lm_decoder_read(d, lane, s.tokens, 20, logits, &error));
    const lm_entropy *e = lm_decoder_entropies(d);
    CHECK_INT(e[0].rows, 0);
    REQUIRE(lm_decoder_read(d, 1, s.tokens, 1, logits, &error));
    CHECK_INT(e[0].rows, 0); /* a prompt of one token is no step */
    for (size_t t = 20; t < 25; t++)
        REQUIRE(lm_decoder_step(d, &lane, &s.tokens[t], 1, logits, &error));
    for (size_t i = 0; i < 2 * 4; i++) {
        CHECK_INT(e[i].rows, 5);
        CHECK(e[i].before > 0 && e[i].before < 5 * log(25));
        CHECK(e[i].after < e[i].before);
    }
    lm_decoder_destroy(d);
    tear_down(&s);
}

/* ---- what is refused ---- */

TEST(what_does_not_fit_is_refused_and_leaves_a_lane_as_it_was) {
    setting s;
    lab_error error = {0};
    float logits[VOCABULARY], again[VOCABULARY];
    lm_token many[TOKENS + 4] = {0};
    const size_t lane = 1;
    const lm_token unknown = VOCABULARY;
    set_up(&s);
    lm_decoder *d = decoder_of(&s.matrices, NULL, NULL, WHET_F32);
    CHECK(!lm_decoder_read(d, lane, many, TOKENS + 4, logits, &error));
    CHECK_INT(error.kind, LAB_INPUT);
    error = (lab_error){0};
    CHECK(!lm_decoder_read(d, lane, many, 0, logits, &error));
    REQUIRE(lm_decoder_read(d, lane, s.tokens, 5, logits, NULL));
    CHECK(!lm_decoder_step(d, &lane, &unknown, 1, again, &error));
    CHECK_INT(lm_decoder_length(d, lane), 5);
    lm_decoder_reset(d, lane);
    REQUIRE(lm_decoder_read(d, lane, many, TOKENS + 3, logits, NULL));
    error = (lab_error){0};
    CHECK(!lm_decoder_step(d, &lane, &s.tokens[0], 1, again, &error));
    CHECK_INT(error.kind, LAB_INPUT);
    lm_decoder_destroy(d);

    lm_decoder_options options = {.matrices = &s.matrices, .lanes = 1, .capacity = 81};
    error = (lab_error){0};
    CHECK(!lm_decoder_create(&options, &error));
    CHECK(strstr(error.text, "context") != NULL);
    options.capacity = 80;
    options.lanes = SIZE_MAX / 2;
    error = (lab_error){0};
    CHECK(!lm_decoder_create(&options, &error));
    CHECK(error.kind != LAB_NO_ERROR);
    tear_down(&s);
}

TEST(numbers_that_are_not_finite_are_told) {
    setting s;
    lab_error error = {0};
    float logits[VOCABULARY];
    set_up(&s);
    s.model.weights[lm_layer_at(&s.model.layout, 1) + s.model.layout.attention_norm] = NAN;
    lm_decoder *d = decoder_of(&s.matrices, NULL, NULL, WHET_F32);
    CHECK(!lm_decoder_read(d, 0, s.tokens, 5, logits, &error));
    CHECK_MSG(strstr(error.text, "layer 1") != NULL, "%s", error.text);
    lm_decoder_destroy(d);
    tear_down(&s);
}

/* ---- sampling ---- */

TEST(greedy_takes_the_first_of_the_largest_and_sampling_follows_its_seed) {
    const float logits[] = {0, 2, 2, -1};
    size_t hits[4] = {0};
    CHECK_INT(lm_greedy(logits, 4), 1);
    lab_random random = lab_random_start(1);
    CHECK_INT(lm_sample(logits, 4, 0, &random), 1);
    for (int i = 0; i < 10000; i++)
        hits[lm_sample(logits, 4, 1, &random)]++;
    double total = 1 + 2 * exp(2) + exp(-1);
    CHECK_NEAR((double)hits[0] / 10000, 1 / total, 0.01);
    CHECK_NEAR((double)hits[2] / 10000, exp(2) / total, 0.02);
    lab_random a = lab_random_start(9), b = lab_random_start(9);
    for (int i = 0; i < 100; i++)
        CHECK_INT(lm_sample(logits, 4, 0.7, &a), lm_sample(logits, 4, 0.7, &b));
    const float wild[] = {-INFINITY, 1e30f, 0};
    CHECK_INT(lm_sample(wild, 3, 1, &a), 1);
}
