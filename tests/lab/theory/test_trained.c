/*
 * The statements on max-retrieval heads against the same head computed the long
 * way: item by item, in double, with every layer applied as written.
 */
#include "support/check.h"
#include "support/engine.h"

#include "retrieval/chunked.h"
#include "theory/trained.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTH = 16, SETS = 5, N = 33 };

static retrieval_head make_head(bool key_sees_class) {
    retrieval_head head = {.config = retrieval_config_default(), .seed = 3};
    head.config.width = WIDTH;
    head.config.key_sees_class = key_sees_class;
    retrieval_layout at = retrieval_layout_of(&head.config);
    head.parameters = aligned_alloc(64, at.count * sizeof(float));
    REQUIRE(head.parameters != NULL);
    retrieval_initialise(&head.config, 3, head.parameters);
    /* biases begin at zero; a mistake in them would not be seen */
    for (size_t j = 0; j < WIDTH; j++) {
        head.parameters[at.item[0].bias + j] = 0.1F * (float)j;
        head.parameters[at.item_bias + j] = 0.02F * (float)j - 0.1F;
        head.parameters[at.query[0].bias + j] = 0.5F - 0.1F * (float)j;
    }
    return head;
}

static double gelu(double z) {
    return 0.5 * z * (1 + tanh(sqrt(2 / acos(-1.0)) * (z + 0.044715 * z * z * z)));
}

static void times(const float *weight, const float *bias, const double *x, double *y) {
    for (size_t j = 0; j < WIDTH; j++) {
        y[j] = bias ? (double)bias[j] : 0;
        for (size_t i = 0; i < WIDTH; i++)
            y[j] += x[i] * (double)weight[i * WIDTH + j];
    }
}

/* psi of an item, or of a query where of_class is NULL. */
static void psi(const float *parameters, size_t slope, size_t bias, const float *of_class,
                retrieval_layer last, double x, double *result) {
    double hidden[WIDTH];
    for (size_t j = 0; j < WIDTH; j++)
        hidden[j] = gelu(x * (double)parameters[slope + j] + (double)parameters[bias + j] +
                         (of_class ? (double)of_class[j] : 0));
    times(parameters + last.weight, parameters + last.bias, hidden, result);
}

static double norm(const double *x) {
    double squares = 0;
    for (size_t j = 0; j < WIDTH; j++)
        squares += x[j] * x[j];
    return sqrt(squares);
}

typedef struct long_way {
    double query[WIDTH], items[N][WIDTH], keys[N][WIDTH];
    double logits[N];
} long_way;

static void go(const retrieval_head *head, const retrieval_set *set, long_way *way) {
    const float *parameters = head->parameters;
    retrieval_layout at = retrieval_layout_of(&head->config);
    double u[WIDTH], k[WIDTH];
    psi(parameters, at.query_slope, at.query_bias, NULL, at.query[0], (double)set->query,
        way->query);
    times(parameters + at.w_q, NULL, way->query, u);
    for (size_t i = 0; i < set->n; i++) {
        const float *of_class = parameters + at.item_class + set->class_of[i] * WIDTH;
        psi(parameters, at.item_slope, at.item_bias, of_class, at.item[0], (double)set->priority[i],
            way->items[i]);
        psi(parameters, at.item_slope, at.item_bias, head->config.key_sees_class ? of_class : NULL,
            at.item[0], (double)set->priority[i], way->keys[i]);
        times(parameters + at.w_k, NULL, way->keys[i], k);
        way->logits[i] = 0;
        for (size_t j = 0; j < WIDTH; j++)
            way->logits[i] += u[j] * k[j] / sqrt(WIDTH);
    }
}

static void check_statements(bool key_sees_class) {
    static long_way way;
    lab_error error = {0};
    retrieval_head head = make_head(key_sees_class);
    retrieval_model model = retrieval_head_model(&head, &engine);
    model.config.precision =
        RETRIEVAL_BF16; /* the head's own rounds products, its probe does not */
    retrieval_chunked *chunked = retrieval_chunked_create(&model, NULL, N, 1, &error);
    trained_probe *probe = trained_probe_create(&engine, &head, N, &error);
    REQUIRE(chunked && probe);
    double query = 0, key = 0, spread = 0, smallest = 1, largest = 0, top = 0;
    for (size_t s = 0; s < SETS; s++) {
        retrieval_set set;
        retrieval_chunked_open(chunked, 9, N, s, &set);
        go(&head, &set, &way);
        double low = INFINITY, high = -INFINITY, z = 0, key_norm = 0;
        for (size_t i = 0; i < N; i++) {
            CHECK_NEAR(set.logits[i], way.logits[i], 1e-4);
            low = fmin(low, way.logits[i]);
            high = fmax(high, way.logits[i]);
            z += exp(way.logits[i]);
            key_norm = fmax(key_norm, norm(way.keys[i]));
        }
        query += norm(way.query) / SETS;
        key += key_norm / SETS;
        spread += (high - low) / SETS;
        smallest = fmin(smallest, exp(low) / z);
        largest = fmax(largest, exp(high) / z);
        top += exp(way.logits[set.top]) / z / SETS;
    }
    trained_spread of_spread = trained_spread_of(probe, N, SETS, 9);
    CHECK_NEAR(of_spread.query_norm, query, 1e-4);
    CHECK_NEAR(of_spread.key_norm, key, 1e-4);
    CHECK_NEAR(of_spread.spread, spread, 1e-4);
    CHECK(of_spread.tightest >= 1 && of_spread.bound > of_spread.spread);
    trained_coefficients coefficients = trained_coefficients_of(probe, N, SETS, 9);
    CHECK_NEAR(coefficients.smallest, smallest, 1e-5);
    CHECK_NEAR(coefficients.largest, largest, 1e-5);
    CHECK(coefficients.low_slack >= 1 && coefficients.high_slack >= 1);
    CHECK(coefficients.bounds.low <= smallest && coefficients.bounds.high >= largest);
    CHECK_NEAR(trained_precision_of(probe, N, SETS, 9).coefficient, top, 1e-5);
    trained_probe_destroy(probe);
    retrieval_chunked_destroy(chunked);
    retrieval_head_free(&head);
}

TEST(a_head_is_measured_as_if_it_were_computed_the_long_way) { check_statements(true); }

TEST(a_head_whose_keys_do_not_see_the_class_is_too) { check_statements(false); }

TEST(rounding_hides_the_class_the_sooner_the_coarser_it_is) {
    lab_error error = {0};
    retrieval_head head = make_head(true);
    trained_probe *probe = trained_probe_create(&engine, &head, 8192, &error);
    REQUIRE(probe != NULL);
    trained_precision few = trained_precision_of(probe, 2, SETS, 1);
    trained_precision many = trained_precision_of(probe, 8192, SETS, 1);
    for (size_t f = 0; f < PRECISION_FORMATS; f++) {
        CHECK_NEAR(few.sets[f], 1, 1e-12);
        CHECK(few.elements[f] > 0.9);
        CHECK(many.elements[f] <= few.elements[f]);
    }
    CHECK(many.elements[0] > 0.9);
    CHECK(many.elements[1] < many.elements[0] && many.elements[2] < many.elements[1]);
    CHECK(many.elements[2] < 0.2);
    CHECK_NEAR(trained_precision_of(probe, 1, SETS, 1).coefficient, 1, 0);
    trained_probe_destroy(probe);
    retrieval_head_free(&head);
}
