// The bounds of `whet audit` against logits computed plainly, in double, from inputs that are
// chosen to make them as large as they get; on models of every architecture, made for the purpose.
#include "model/audit.h"
#include "model/spectrum.h"
#include "tiny.h"

#include "base/files.h"
#include "support/check.h"
#include "support/models.h"
#include "support/random.h"

#include <math.h>
#include <unistd.h>

enum { DIM_MAX = 64, WIDTH_MAX = 128, KEYS = 24 };

static char path[64];

static gguf_file *make_and_open(const tiny_model *model) {
    lab_error error = {0};
    snprintf(path, sizeof path, "/tmp/whet-audit-%d.gguf", (int)getpid());
    REQUIRE(tiny_write(model, path));
    gguf_file *file = gguf_open(path, &error);
    unlink(path); // it stays mapped
    CHECK_MSG(file, "%s", error.text);
    REQUIRE(file);
    return file;
}

static model_audit audit_of(const gguf_file *file) {
    model_audit audit;
    lab_error error = {0};
    bool is_done = audit_model(file, 0.5, true, &audit, &error);
    CHECK_MSG(is_done, "%s", error.text);
    REQUIRE(is_done);
    return audit;
}

// ---- attention, plainly ----

// One head's queries or keys: from an input of length sqrt(inputs) to a vector before RoPE.
typedef struct plain_map {
    size_t inputs, dim;
    double matrix[DIM_MAX][WIDTH_MAX];
    double bias[DIM_MAX];
} plain_map;

static void row_of(const gguf_file *file, const char *name, uint64_t row, float *values) {
    const gguf_tensor *tensor = gguf_find_tensor(file, name);
    REQUIRE(tensor && tensor->dims[0] <= 4 * WIDTH_MAX);
    REQUIRE(gguf_dequantise(tensor, row, values));
}

static const char *layer_name(unsigned layer, const char *rest) {
    static char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, rest);
    return name;
}

// `first` is the row of the head's first dimension in a tensor that may hold more than one kind.
static plain_map plain_weights(const gguf_file *file, const tiny_model *model, unsigned layer,
                               bool is_key, unsigned head) {
    plain_map map = {.inputs = model->width, .dim = model->head_dim};
    float gains[4 * WIDTH_MAX], row[4 * WIDTH_MAX], bias[4 * WIDTH_MAX] = {0};
    unsigned first = head * model->head_dim;
    row_of(file, layer_name(layer, "attn_norm.weight"), 0, gains);
    if (model->has_biases) {
        row_of(file, layer_name(layer, is_key ? "attn_k.bias" : "attn_q.bias"), 0, bias);
    }
    for (unsigned i = 0; i < model->head_dim; i++) {
        map.bias[i] = (double)bias[first + i];
        if (model->is_fused) {
            unsigned before = is_key ? model->heads * model->head_dim : 0;
            row_of(file, layer_name(layer, "attn_qkv.weight"), before + first + i, row);
        } else {
            row_of(file, layer_name(layer, is_key ? "attn_k.weight" : "attn_q.weight"), first + i,
                   row);
        }
        for (unsigned j = 0; j < model->width; j++) {
            map.matrix[i][j] = (double)row[j] * (double)gains[j];
        }
    }
    return map;
}

// Normalised queries or keys: any direction is an input, and the gains are the map.
static plain_map plain_norm(const gguf_file *file, const tiny_model *model, unsigned layer,
                            bool is_key) {
    plain_map map = {.inputs = model->head_dim, .dim = model->head_dim};
    float gains[4 * WIDTH_MAX];
    row_of(file, layer_name(layer, is_key ? "attn_k_norm.weight" : "attn_q_norm.weight"), 0, gains);
    for (unsigned i = 0; i < model->head_dim; i++) {
        map.matrix[i][i] = (double)gains[i];
    }
    return map;
}

static void apply(const plain_map *map, const double *input, double *out) {
    for (size_t i = 0; i < map->dim; i++) {
        out[i] = map->bias[i];
        for (size_t j = 0; j < map->inputs; j++) {
            out[i] += map->matrix[i][j] * input[j];
        }
    }
}

// The input of full length whose image is largest along a direction.
static void best_input(const plain_map *map, const double *direction, double *input) {
    double length = 0;
    for (size_t j = 0; j < map->inputs; j++) {
        input[j] = 0;
        for (size_t i = 0; i < map->dim; i++) {
            input[j] += map->matrix[i][j] * direction[i];
        }
        length += input[j] * input[j];
    }
    for (size_t j = 0; j < map->inputs; j++) {
        input[j] *= sqrt((double)map->inputs / length);
    }
}

// Turns a vector as RoPE does at a position.
static void rotate(const tiny_model *model, double position, double *vector) {
    bool is_apart = strcmp(model->architecture, "llama") != 0;
    size_t half = model->head_dim / 2;
    for (size_t p = 0; p < half; p++) {
        double angle = position * pow(10000.0, -2.0 * (double)p / (double)model->head_dim);
        size_t a = is_apart ? p : 2 * p, b = is_apart ? p + half : 2 * p + 1;
        double x = vector[a], y = vector[b];
        vector[a] = x * cos(angle) - y * sin(angle);
        vector[b] = x * sin(angle) + y * cos(angle);
    }
}

static double product(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static double logit_of(const tiny_model *model, const double *query, const double *key) {
    double yarn = model->yarn > 0 ? 1 + 0.1 * log(model->yarn) : 1;
    double logit =
        yarn * yarn * product(query, key, model->head_dim) / sqrt((double)model->head_dim);
    return model->soft_cap > 0 ? model->soft_cap * tanh(logit / model->soft_cap) : logit;
}

// The largest spread found between keys at a distance: inputs are improved in turn.
static double climb(const tiny_model *model, const plain_map *queries, const plain_map *keys,
                    double distance, struct rng *rng) {
    double input[WIDTH_MAX], query[DIM_MAX], key[DIM_MAX], best = 0;
    for (size_t i = 0; i < model->head_dim; i++) {
        key[i] = rng_normal(rng, 0, 1);
    }
    for (int step = 0; step < 30; step++) {
        rotate(model, -distance, key);
        best_input(queries, key, input);
        apply(queries, input, query);
        double rotated[DIM_MAX], lowest = 0, highest = 0;
        memcpy(rotated, query, sizeof rotated);
        rotate(model, distance, rotated);
        for (int sign = -1; sign <= 1; sign += 2) {
            double along[DIM_MAX];
            for (size_t i = 0; i < model->head_dim; i++) {
                along[i] = sign * rotated[i];
            }
            best_input(keys, along, input);
            apply(keys, input, key);
            double logit = logit_of(model, rotated, key);
            lowest = sign < 0 ? logit : lowest;
            highest = logit;
        }
        best = fmax(best, highest - lowest);
    }
    return best;
}

static void check_head(const gguf_file *file, const tiny_model *model, const audit_head *head,
                       struct rng *rng) {
    bool has_norms =
        strcmp(model->architecture, "qwen3") == 0 || strcmp(model->architecture, "gemma3") == 0;
    unsigned group = model->heads / model->kv_heads;
    plain_map queries = has_norms ? plain_norm(file, model, head->layer, false)
                                  : plain_weights(file, model, head->layer, false, head->head);
    plain_map keys = has_norms ? plain_norm(file, model, head->layer, true)
                               : plain_weights(file, model, head->layer, true, head->head / group);
    double best = 0, here = 0;
    for (int i = 0; i < 40; i++) {
        double distance = i < 8 ? 0 : (double)rng_integer(rng, 0, 500);
        double found = climb(model, &queries, &keys, distance, rng);
        best = fmax(best, found);
        here = i < 8 ? best : here;
    }
    CHECK_MSG(best <= head->tighter, "layer %u head %u: %g above %g", head->layer, head->head, best,
              head->tighter);
    CHECK(head->tighter <= head->bound && head->attained <= head->tighter);
    // Climbing at the same place finds what the audit says can be reached there (with biases,
    // more).
    CHECK_MSG(here >= 0.999 * head->attained, "layer %u head %u: %g below %g", head->layer,
              head->head, here, head->attained);
}

static void check_model(const tiny_model *model) {
    struct rng rng = rng_seeded(11);
    gguf_file *file = make_and_open(model);
    model_audit audit = audit_of(file);
    CHECK_INT(audit.count, model->layers * model->heads);
    for (size_t i = 0; i < audit.count; i++) {
        check_head(file, model, &audit.heads[i], &rng);
    }
    audit_free(&audit);
    gguf_close(file);
}

TEST(no_inputs_exceed_the_bounds_of_llama) {
    tiny_model model = tiny_usual("llama");
    check_model(&model);
    model.head_dim = 8; // not width / heads
    model.kv_heads = 4;
    model.type = GGUF_Q8_0;
    check_model(&model);
}

TEST(no_inputs_exceed_the_bounds_of_qwen2_with_its_biases) {
    tiny_model model = tiny_usual("qwen2");
    model.has_biases = true;
    check_model(&model);
}

TEST(no_inputs_exceed_the_bounds_of_normalised_heads) {
    tiny_model qwen = tiny_usual("qwen3"), gemma = tiny_usual("gemma3");
    check_model(&qwen);
    gemma.kv_heads = 1;
    check_model(&gemma);
}

TEST(no_inputs_exceed_the_bounds_of_gemma_and_its_soft_cap) {
    tiny_model first = tiny_usual("gemma"), second = tiny_usual("gemma2");
    check_model(&first);
    second.soft_cap = 5;
    check_model(&second);
    second.gain = 0.05; // far below the cap
    check_model(&second);
}

TEST(no_inputs_exceed_the_bounds_under_yarn) {
    tiny_model model = tiny_usual("llama");
    model.yarn = 8;
    check_model(&model);
}

TEST(yarn_is_known_by_its_earlier_name) {
    tiny_model model = tiny_usual("llama");
    model.yarn = 8;
    model.is_old = true;
    gguf_file *file = make_and_open(&model);
    model_audit audit = audit_of(file);
    CHECK_NEAR(audit.shape.rope_factor, 1 + 0.1 * log(8), 1e-6);
    audit_free(&audit);
    gguf_close(file);
}

TEST(gemma2_caps_its_logits_at_50_where_its_file_says_nothing) {
    tiny_model model = tiny_usual("gemma2");
    model.gain = 1000;
    gguf_file *file = make_and_open(&model);
    model_audit audit = audit_of(file);
    CHECK_NEAR(audit.shape.soft_cap, 50, 0);
    for (size_t i = 0; i < audit.count; i++)
        CHECK(audit.heads[i].tighter <= 100 && audit.heads[i].tighter > 99);
    audit_free(&audit);
    gguf_close(file);
}

TEST(fused_tensors_are_taken_apart) {
    tiny_model model = tiny_usual("llama");
    model.is_fused = true;
    check_model(&model);
}

TEST(the_soft_cap_is_never_exceeded) {
    tiny_model model = tiny_usual("gemma2");
    model.soft_cap = 5;
    model.gain = 100;
    gguf_file *file = make_and_open(&model);
    model_audit audit = audit_of(file);
    for (size_t i = 0; i < audit.count; i++) {
        CHECK(audit.heads[i].bound <= 10 && audit.heads[i].tighter > 9.99);
        CHECK_NEAR(audit.heads[i].log10_reach, log10(1 + exp(audit.heads[i].tighter)), 1e-9);
    }
    audit_free(&audit);
    gguf_close(file);
}

TEST(a_length_is_beyond_reach_when_half_the_weight_is) {
    CHECK_NEAR(audit_log10_reach(0, 0.5), log10(2), 1e-12);
    CHECK_NEAR(audit_log10_reach(log(99), 0.5), 2, 1e-12);
    CHECK_NEAR(audit_log10_reach(log(99), 0.9), log10(1 + 11), 1e-12);
    CHECK_NEAR(audit_log10_reach(2000, 0.5), 2000 / log(10), 1e-9);
}

// ---- eigenvalues ----

TEST(eigenvalues_are_bounded_from_above_and_tightly) {
    static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 64};
    struct rng rng = rng_seeded(5);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t n = sizes[s];
        static float drawn[DIM_MAX * 100];
        static double rows[DIM_MAX * 100];
        double gram[DIM_MAX * DIM_MAX], work[DIM_MAX * DIM_MAX], vector[DIM_MAX], start[DIM_MAX];
        rng_fill_normal(&rng, drawn, n * 100, 0, 1);
        for (size_t i = 0; i < n * 100; i++) {
            rows[i] = (double)drawn[i];
        }
        gram_matrix(rows, n, 100, gram);
        for (size_t i = 0; i < n; i++) {
            vector[i] = start[i] = 1;
        }
        double above = eigenvalue_from_above(gram, n, vector, work), truth = 0;
        for (int i = 0; i < 20000; i++) {
            truth = power_step(gram, n, start, work);
        }
        CHECK_MSG(above >= truth && above <= truth * (1 + 1e-5), "%zu: %.12g for %.12g", n, above,
                  truth);
    }
}

TEST(a_matrix_of_zeros_has_no_length) {
    double gram[16] = {0}, work[16], vector[4] = {1, 1, 1, 1};
    CHECK(eigenvalue_from_above(gram, 4, vector, work) == 0);
    CHECK(product_eigenvalue_from_below(gram, gram, 4, work) == 0);
}

TEST(the_first_estimate_may_be_blind_to_the_largest_eigenvalue) {
    // A start that is orthogonal to the eigenvector: power iteration alone would say 1.
    double gram[4] = {1, 0, 0, 5}, work[4], vector[2] = {1, 0};
    double above = eigenvalue_from_above(gram, 2, vector, work);
    CHECK(above >= 5);
}

// ---- what is refused ----

static void check_refused(const tiny_model *model, const char *words) {
    gguf_file *file = make_and_open(model);
    model_audit audit;
    lab_error error = {0};
    bool is_done = audit_model(file, 0.5, true, &audit, &error);
    CHECK_MSG(!is_done && error.kind == LAB_INPUT && strstr(error.text, words), "%s", error.text);
    if (is_done) {
        audit_free(&audit);
    }
    gguf_close(file);
}

static void check_audited(const tiny_model *model) {
    gguf_file *file = make_and_open(model);
    model_audit audit;
    lab_error error = {0};
    REQUIRE(audit_model(file, 0.5, true, &audit, &error));
    for (size_t i = 0; i < audit.count; i++) {
        CHECK_MSG(isfinite(audit.heads[i].bound) && audit.heads[i].bound > 0, "bound %g",
                  audit.heads[i].bound);
    }
    audit_free(&audit);
    gguf_close(file);
}

TEST(models_that_make_no_sense_are_refused) {
    tiny_model model = tiny_usual("phi3");
    check_refused(&model,
                  "unsupported architecture \"phi3\"; supported: llama, qwen2, qwen3, gemma");
    model = tiny_usual("llama");
    model.kv_heads = 3;
    check_refused(&model, "4 query heads cannot share 3 key heads evenly");
    model = tiny_usual("llama");
    model.head_dim = 2000;
    check_refused(&model, "\"llama.attention.key_length\" is 2000");
    model = tiny_usual("llama");
    model.gain = (double)INFINITY;
    check_refused(&model, "has a value that is not finite");
    model.gain = 1e38; /* times weights it is no float any more, but a bound there is */
    check_audited(&model);
}

TEST(a_small_real_model_is_audited) {
    char model[MODEL_PATH_SIZE];
    lab_error error = {0};
    gguf_file *file = gguf_open(model_path("stories260K-f32.gguf", model), &error);
    REQUIRE(file);
    model_audit audit = audit_of(file);
    CHECK_INT(audit.count, 40);
    CHECK_INT(audit.shape.context, 512);
    for (size_t i = 0; i < audit.count; i++) {
        const audit_head *head = &audit.heads[i];
        CHECK(head->attained > 1 && head->attained <= head->tighter &&
              head->tighter <= head->bound);
        CHECK_NEAR(head->bound, 2 * 64 * head->sigma_query * head->sigma_key / sqrt(8),
                   1e-9 * head->bound);
    }
    audit_free(&audit);
    gguf_close(file);
}
