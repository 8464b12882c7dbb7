/*
 * What whet_softmax_backward refuses: null pointers, types and sizes out of
 * range, overlaps, sizes that leave the address range, policies that make no
 * sense. A refused call writes nothing.
 */
#include "support/check.h"
#include "whet.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { ROWS = 3, N = 8, CAPACITY = 64 };

/* All arrays of a request, in one piece to be compared as a whole. */
static struct arrays {
    float in[CAPACITY], grad_out[CAPACITY], grad_in[CAPACITY], mask[CAPACITY];
    float sink[CAPACITY], beta[CAPACITY], grad_logsumexp[CAPACITY], grad_entropy[CAPACITY],
        grad_after[CAPACITY];
    float grad_sink[CAPACITY], grad_beta[CAPACITY];
    whet_policy_gradient parameter_grads[2];
} at;

/* A request in which everything is used and right. */
static whet_rows_backward sound(void) {
    memset(&at, 0, sizeof at);
    memset(at.grad_in, 0x77, sizeof at.grad_in);
    memset(at.parameter_grads, 0x77, sizeof at.parameter_grads);
    memset(at.grad_sink, 0x77, sizeof at.grad_sink);
    memset(at.grad_beta, 0x77, sizeof at.grad_beta);
    for (size_t i = 0; i < CAPACITY; i++) {
        at.in[i] = (float)(i % 5);
        at.grad_out[i] = (float)(i % 3);
    }
    return (whet_rows_backward){.size = sizeof(whet_rows_backward),
                                .rows = ROWS,
                                .n = N,
                                .in = at.in,
                                .mask = at.mask,
                                .mask_stride = N,
                                .grad_out = at.grad_out,
                                .grad_in = at.grad_in,
                                .policy_grad = at.parameter_grads};
}

/* The status of a request, which if it is an error must have left everything alone. */
static whet_status status_of(const whet_rows_backward *rows, const whet_policy *policy) {
    static struct arrays before;
    memcpy(&before, &at, sizeof at);
    size_t first_bad = 4711;
    whet_status status = whet_softmax_backward(rows, policy, &first_bad);
    if (status >= WHET_ERROR_ARGUMENT) {
        CHECK(same_bytes(&at, &before, sizeof at));
        CHECK_INT(first_bad, 4711);
    }
    return status;
}

#define STATUS(rows, expected) CHECK_INT(status_of(&(rows), NULL), expected)

TEST(a_sound_request_is_granted) {
    whet_rows_backward rows = sound();
    STATUS(rows, WHET_OK);
}

TEST(null_pointers_are_refused) {
    CHECK_INT(whet_softmax_backward(NULL, NULL, NULL), WHET_ERROR_ARGUMENT);
    whet_rows_backward rows = sound();
    rows.in = NULL;
    STATUS(rows, WHET_ERROR_ARGUMENT);
    rows = sound();
    rows.grad_out = NULL;
    STATUS(rows, WHET_ERROR_ARGUMENT);
    rows = sound();
    rows.grad_in = NULL;
    STATUS(rows, WHET_ERROR_ARGUMENT);
}

TEST(no_rows_and_rows_of_nothing_have_a_policy_gradient_of_zero) {
    const whet_policy_gradient none = {.strength = 0};
    for (int i = 0; i < 2; i++) {
        whet_rows_backward rows = sound();
        rows.in = rows.grad_out = rows.grad_in = NULL;
        rows.rows = i ? 0 : SIZE_MAX;
        rows.n = i ? 7 : 0;
        STATUS(rows, WHET_OK);
        CHECK(same_bytes(&at.parameter_grads[0], &none, sizeof none));
        rows.policy_grad = NULL;
        STATUS(rows, WHET_OK);
    }
}

TEST(another_size_of_the_struct_and_reserved_fields_are_refused) {
    const size_t wrong[] = {0, 1, sizeof(whet_rows_backward) - 1, sizeof(whet_rows_backward) + 8,
                            SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whet_rows_backward rows = sound();
        rows.size = wrong[i];
        STATUS(rows, WHET_ERROR_ARGUMENT);
    }
    for (size_t i = 0; i < 2; i++) {
        whet_rows_backward rows = sound();
        rows.reserved[i] = 1;
        STATUS(rows, WHET_ERROR_ARGUMENT);
    }
}

TEST(types_that_rows_cannot_have_are_refused) {
    const whet_type wrong[] = {WHET_Q8_0, WHET_Q4_0, WHET_IQ4_NL, WHET_CUSTOM, (whet_type)77};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whet_rows_backward rows = sound();
        rows.in_type = wrong[i];
        STATUS(rows, WHET_ERROR_ARGUMENT);
        rows = sound();
        rows.grad_out_type = wrong[i];
        STATUS(rows, WHET_ERROR_ARGUMENT);
        rows = sound();
        rows.grad_in_type = wrong[i];
        STATUS(rows, WHET_ERROR_ARGUMENT);
        rows = sound();
        rows.mask_type = wrong[i];
        STATUS(rows, WHET_ERROR_ARGUMENT);
    }
    whet_rows_backward rows = sound();
    rows.mask_type = WHET_BF16;
    STATUS(rows, WHET_ERROR_ARGUMENT);
    rows.mask = NULL; /* without a mask its type says nothing */
    STATUS(rows, WHET_OK);
}

TEST(addresses_that_do_not_suit_their_type_are_refused) {
    for (size_t shift = 1; shift < 4; shift++) {
        whet_rows_backward rows = sound();
        rows.in = (char *)at.in + shift;
        STATUS(rows, WHET_ERROR_ARGUMENT);
        rows = sound();
        rows.grad_out = (char *)at.grad_out + shift;
        STATUS(rows, WHET_ERROR_ARGUMENT);
        rows = sound();
        rows.grad_in = (char *)at.grad_in + shift;
        STATUS(rows, WHET_ERROR_ARGUMENT);
        rows = sound();
        rows.mask = (char *)at.mask + shift;
        STATUS(rows, WHET_ERROR_ARGUMENT);
    }
}

TEST(policies_that_make_no_sense_are_refused) {
    whet_policy zero = {0};
    const whet_policy wrong[] = {zero, whet_policy_fixed(-1), whet_policy_topk(0),
                                 whet_policy_entmax(3), whet_policy_custom(NULL, NULL)};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whet_rows_backward rows = sound();
        CHECK_MSG(status_of(&rows, &wrong[i]) == WHET_ERROR_POLICY, "policy %zu", i);
    }
}

/* ---- overlaps ---- */

/* grad_in laid over `other`, which is in or grad_out, and moved against it. */
static void move_over(float *other) {
    for (ptrdiff_t shift = 0; shift <= ROWS * N; shift++) {
        whet_rows_backward rows = sound();
        bool is_fine = shift == 0 || shift == ROWS * N;
        rows.grad_in = other + shift;
        STATUS(rows, is_fine ? WHET_OK : WHET_ERROR_OVERLAP);
        rows = sound();
        rows.grad_in = other;
        if (other == at.in) {
            rows.in = other + shift;
        } else {
            rows.grad_out = other + shift;
        }
        STATUS(rows, is_fine ? WHET_OK : WHET_ERROR_OVERLAP);
    }
}

TEST(in_place_is_fine_and_any_other_overlap_refused) {
    move_over(at.in);
    move_over(at.grad_out);
    whet_rows_backward rows = sound();
    rows.grad_in = at.grad_out;
    rows.grad_in_type = WHET_F16; /* another type */
    STATUS(rows, WHET_ERROR_OVERLAP);
    rows = sound();
    rows.grad_in = at.in;
    rows.grad_in_stride = N + 1; /* another stride */
    STATUS(rows, WHET_ERROR_OVERLAP);
    rows.in_stride = N + 1;
    STATUS(rows, WHET_OK);
    rows = sound();
    rows.in = rows.grad_out = rows.grad_in = at.in; /* all three */
    STATUS(rows, WHET_OK);
}

TEST(gradients_that_share_entries_or_lie_over_the_mask_are_refused) {
    for (ptrdiff_t stride = -N + 1; stride < N; stride++) {
        whet_rows_backward rows = sound();
        rows.grad_in = at.grad_in + CAPACITY / 2;
        rows.grad_in_stride = stride;
        STATUS(rows, stride == 0 ? WHET_OK : WHET_ERROR_OVERLAP); /* 0 means n */
    }
    whet_rows_backward rows = sound();
    rows.grad_in = at.mask + 1;
    STATUS(rows, WHET_ERROR_OVERLAP);
}

TEST(a_policy_gradient_over_anything_is_refused) {
    float *const places[] = {at.in, at.grad_out, at.grad_in, at.mask};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        whet_rows_backward rows = sound();
        rows.policy_grad = (whet_policy_gradient *)(void *)(places[i] + 2);
        STATUS(rows, WHET_ERROR_OVERLAP);
    }
    whet_rows_backward rows = sound();
    uintptr_t misaligned = (uintptr_t)at.parameter_grads + 4;
    memcpy(&rows.policy_grad, &misaligned, sizeof misaligned);
    STATUS(rows, WHET_ERROR_ARGUMENT);
}

/* ---- sizes ---- */

TEST(sizes_that_leave_the_address_range_are_refused) {
    const size_t sizes[] = {SIZE_MAX,         SIZE_MAX - 1, SIZE_MAX / 2,
                            SIZE_MAX / 2 + 1, SIZE_MAX / 4, SIZE_MAX / 4 + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        whet_rows_backward rows = sound();
        rows.n = sizes[i];
        STATUS(rows, WHET_ERROR_OVERFLOW);
        rows = sound();
        rows.rows = sizes[i];
        STATUS(rows, WHET_ERROR_OVERFLOW);
    }
}

TEST(strides_that_leave_the_address_range_are_refused) {
    const ptrdiff_t strides[] = {PTRDIFF_MAX,     PTRDIFF_MIN,     PTRDIFF_MAX / 2,
                                 PTRDIFF_MIN / 2, PTRDIFF_MAX / 4, PTRDIFF_MIN / 4};
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
        whet_rows_backward rows = sound();
        ptrdiff_t *const places[] = {&rows.in_stride, &rows.grad_out_stride, &rows.grad_in_stride,
                                     &rows.mask_stride};
        for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
            rows = sound();
            *places[k] = strides[i];
            STATUS(rows, WHET_ERROR_OVERFLOW);
        }
    }
}

/* ---- sinks, betas and gradients of statistics ---- */

/* With all of them. */
static whet_rows_backward sound_with_extras(void) {
    whet_rows_backward rows = sound();
    for (size_t i = 0; i < CAPACITY; i++) {
        at.beta[i] = 1;
    }
    rows.sink = at.sink;
    rows.sink_stride = 1;
    rows.grad_sink = at.grad_sink;
    rows.beta = at.beta;
    rows.grad_beta = at.grad_beta;
    rows.grad_logsumexp = at.grad_logsumexp;
    rows.grad_entropy = at.grad_entropy;
    rows.grad_entropy_after = at.grad_after;
    return rows;
}

enum { READ = 5, WRITTEN = 2 };

/* The pointers of a request that are read, then those that are written. */
static void set_pointer(whet_rows_backward *rows, size_t which, uintptr_t address) {
    void *const places[READ + WRITTEN] = {&rows->sink,
                                          &rows->beta,
                                          &rows->grad_logsumexp,
                                          &rows->grad_entropy,
                                          &rows->grad_entropy_after,
                                          &rows->grad_sink,
                                          &rows->grad_beta};
    memcpy(places[which], &address, sizeof address);
}

TEST(a_sound_request_with_everything_is_granted) {
    whet_rows_backward rows = sound_with_extras();
    STATUS(rows, WHET_OK);
    for (size_t i = 0; i < READ + WRITTEN; i++) {
        rows = sound_with_extras();
        set_pointer(&rows, i, 0);
        STATUS(rows, i == 0 ? WHET_ERROR_ARGUMENT : WHET_OK); /* grad_sink without a sink */
    }
}

TEST(numbers_for_rows_that_are_not_aligned_are_refused) {
    for (size_t i = 0; i < READ + WRITTEN; i++) {
        for (size_t shift = 1; shift < 4; shift++) {
            whet_rows_backward rows = sound_with_extras();
            set_pointer(&rows, i, (uintptr_t)at.grad_after + shift);
            STATUS(rows, WHET_ERROR_ARGUMENT);
        }
    }
}

TEST(nothing_that_is_written_may_lie_over_anything_else) {
    float *const arrays[] = {at.in,           at.grad_out,       at.grad_in,
                             at.mask,         at.sink,           at.beta,
                             at.grad_entropy, at.grad_logsumexp, at.grad_after,
                             at.grad_sink,    at.grad_beta,      (float *)at.parameter_grads};
    float *const own[WRITTEN] = {at.grad_sink, at.grad_beta};
    for (size_t i = 0; i < WRITTEN; i++) {
        for (size_t k = 0; k < sizeof arrays / sizeof arrays[0]; k++) {
            whet_rows_backward rows = sound_with_extras();
            set_pointer(&rows, READ + i, (uintptr_t)(arrays[k] + 2));
            STATUS(rows, arrays[k] == own[i] ? WHET_OK : WHET_ERROR_OVERLAP);
        }
    }
    for (size_t i = 0; i < READ; i++) { /* and what is read not under what is written */
        float *const under[] = {at.grad_in, at.grad_sink, at.grad_beta,
                                (float *)at.parameter_grads};
        for (size_t k = 0; k < sizeof under / sizeof under[0]; k++) {
            whet_rows_backward rows = sound_with_extras();
            set_pointer(&rows, i, (uintptr_t)(under[k] + 1));
            STATUS(rows, WHET_ERROR_OVERLAP);
        }
    }
    whet_rows_backward rows = sound_with_extras();
    for (size_t i = 0; i < READ; i++) {
        set_pointer(&rows, i, (uintptr_t)at.in); /* what is read may be read again */
    }
    STATUS(rows, WHET_OK);
}

TEST(a_gradient_has_to_arrive_from_somewhere) {
    for (size_t i = 2; i < READ; i++) {
        whet_rows_backward rows = sound_with_extras();
        rows.grad_out = NULL;
        rows.grad_logsumexp = rows.grad_entropy = rows.grad_entropy_after = NULL;
        STATUS(rows, WHET_ERROR_ARGUMENT);
        set_pointer(&rows, i, (uintptr_t)at.grad_entropy);
        STATUS(rows, WHET_OK);
    }
}

TEST(maps_without_an_entropy_have_no_gradient_of_it) {
    const whet_policy gates[] = {
        whet_policy_softmax1(), whet_policy_sigmoid(1), whet_policy_stick_breaking(),
        whet_policy_compose(whet_policy_adaptive(), whet_policy_softmax1())};
    for (size_t i = 0; i < sizeof gates / sizeof gates[0]; i++) {
        whet_rows_backward rows = sound_with_extras();
        rows.beta = NULL;
        CHECK_INT(status_of(&rows, &gates[i]), WHET_ERROR_UNSUPPORTED);
        rows.grad_entropy_after = NULL;
        CHECK_INT(status_of(&rows, &gates[i]), WHET_OK);
    }
}

TEST(a_beta_beside_a_temperature_is_refused) {
    for (size_t i = 0; whet_policy_table(i); i++) {
        whet_policy policy;
        REQUIRE(whet_policy_parse(whet_policy_table(i)->example, &policy, NULL, 0) == WHET_OK);
        bool is_plain = policy.temperature == WHET_POLICY_SOFTMAX;
        whet_rows_backward rows = sound_with_extras();
        rows.grad_entropy_after = NULL;
        CHECK_MSG(status_of(&rows, &policy) == (is_plain ? WHET_OK : WHET_ERROR_ARGUMENT), "%s",
                  whet_policy_table(i)->example);
        rows.beta = NULL;
        CHECK_INT(status_of(&rows, &policy), WHET_OK);
    }
}

TEST(rows_of_nothing_have_gradients_of_zero) {
    for (int shared = 0; shared < 2; shared++) {
        for (int no_rows = 0; no_rows < 2; no_rows++) {
            whet_rows_backward rows = sound_with_extras();
            struct arrays before = at;
            rows.in = rows.grad_out = rows.grad_in = NULL;
            rows.rows = no_rows ? 0 : ROWS;
            rows.n = no_rows ? N : 0;
            rows.sink_stride = shared ? 0 : 2;
            STATUS(rows, WHET_OK);
            for (size_t r = 0; r < ROWS; r++) {
                bool is_set = shared ? r == 0 : !no_rows;
                CHECK(is_set ? at.grad_sink[2 * r] == 0
                             : same_bytes(&at.grad_sink[2 * r], &before.grad_sink[2 * r], 4));
                CHECK(no_rows ? same_bytes(&at.grad_beta[r], &before.grad_beta[r], 4)
                              : at.grad_beta[r] == 0);
            }
            CHECK(same_bytes(&at.grad_sink[1], &before.grad_sink[1], 4));
        }
    }
}

TEST(rows_of_nothing_are_checked_as_far_as_they_are_written) {
    whet_rows_backward rows = sound_with_extras();
    rows.n = 0;
    rows.rows = SIZE_MAX;
    STATUS(rows, WHET_ERROR_OVERFLOW);
    rows = sound_with_extras();
    rows.n = 0;
    rows.grad_beta = at.sink;
    STATUS(rows, WHET_ERROR_OVERLAP);
    rows = sound_with_extras();
    rows.n = 0;
    rows.grad_sink = (float *)at.parameter_grads;
    STATUS(rows, WHET_ERROR_OVERLAP);
    rows = sound_with_extras();
    rows.n = 0;
    rows.rows = 9;
    rows.sink_stride = SIZE_MAX / 8;
    STATUS(rows, WHET_ERROR_OVERFLOW);
}

TEST(strides_of_sinks_that_leave_the_address_range_are_refused) {
    const size_t strides[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 4, SIZE_MAX / 8, SIZE_MAX / 8 + 1};
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
        whet_rows_backward rows = sound_with_extras();
        rows.sink_stride = strides[i];
        rows.rows = 7;
        STATUS(rows, WHET_ERROR_OVERFLOW);
    }
}
