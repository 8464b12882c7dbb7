/*
 * What whet_softmax and whet_entropy refuse: null pointers, types and sizes out
 * of range, overlaps, sizes that leave the address range, policies that make no
 * sense. A refused call writes nothing.
 */
#include "support/check.h"
#include "whet.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { ROWS = 3, N = 8, CAPACITY = 64 };

static float in[CAPACITY];
static float out[CAPACITY];
static float mask[CAPACITY];
static float sinks[CAPACITY];
static float betas[CAPACITY];
static whet_stats stats[CAPACITY];

/* A request in which everything is used and right. */
static whet_rows sound(void) {
    for (size_t i = 0; i < CAPACITY; i++) {
        in[i] = (float)(i % 5);
        mask[i] = 0;
    }
    whet_rows rows = {.size = sizeof rows, .rows = ROWS, .n = N, .in = in, .out = out};
    rows.mask = mask;
    rows.mask_stride = N;
    rows.stats = stats;
    return rows;
}

/* The status of a request, which if it is an error must have left everything alone. */
static whet_status status_of(const whet_rows *rows, const whet_policy *policy) {
    static float in_before[CAPACITY];
    static float mask_before[CAPACITY];
    memcpy(in_before, in, sizeof in);
    memcpy(mask_before, mask, sizeof mask);
    memset(out, 0x77, sizeof out);
    memset(stats, 0x77, sizeof stats);
    size_t first_bad = 4711;
    whet_status status = whet_softmax(rows, policy, &first_bad);
    if (status >= WHET_ERROR_ARGUMENT) {
        static unsigned char untouched[sizeof stats];
        memset(untouched, 0x77, sizeof untouched);
        CHECK(same_bytes(out, untouched, sizeof out));
        CHECK(same_bytes(stats, untouched, sizeof stats));
        CHECK(same_bytes(in, in_before, sizeof in));
        CHECK(same_bytes(mask, mask_before, sizeof mask));
        CHECK_INT(first_bad, 4711);
    }
    return status;
}

#define REFUSED(rows, expected) CHECK_INT(status_of(&(rows), NULL), expected)

TEST(a_sound_request_is_granted) {
    whet_rows rows = sound();
    REFUSED(rows, WHET_OK);
}

TEST(null_pointers_are_refused) {
    CHECK_INT(whet_softmax(NULL, NULL, NULL), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_entropy(NULL, NULL, NULL), WHET_ERROR_ARGUMENT);
    whet_rows rows = sound();
    rows.in = NULL;
    REFUSED(rows, WHET_ERROR_ARGUMENT);
    rows = sound();
    rows.out = NULL;
    REFUSED(rows, WHET_ERROR_ARGUMENT);
    rows = sound();
    rows.stats = NULL;
    CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_ERROR_ARGUMENT);
}

TEST(another_size_of_the_struct_is_refused) {
    const size_t wrong[] = {0, 1, sizeof(whet_rows) - 1, sizeof(whet_rows) + 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whet_rows rows = sound();
        rows.size = wrong[i];
        REFUSED(rows, WHET_ERROR_ARGUMENT);
        CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_ERROR_ARGUMENT);
    }
}

TEST(types_that_rows_cannot_have_are_refused) {
    whet_rows rows = sound();
    rows.in_type = WHET_CUSTOM;
    REFUSED(rows, WHET_ERROR_ARGUMENT);
    rows.in_type = (whet_type)77;
    REFUSED(rows, WHET_ERROR_ARGUMENT);
    rows.in_type = WHET_Q8_0;
    REFUSED(rows, WHET_ERROR_ARGUMENT);
    rows.in_type = WHET_Q4_0;
    REFUSED(rows, WHET_ERROR_ARGUMENT);
    rows = sound();
    rows.out_type = WHET_CUSTOM;
    REFUSED(rows, WHET_ERROR_ARGUMENT);
    rows.out_type = WHET_Q8_0;
    REFUSED(rows, WHET_ERROR_ARGUMENT);
    rows.out_type = WHET_Q4_0;
    REFUSED(rows, WHET_ERROR_ARGUMENT);
    rows = sound();
    rows.mask_type = WHET_BF16;
    REFUSED(rows, WHET_ERROR_ARGUMENT);
    rows.mask_type = WHET_Q8_0;
    REFUSED(rows, WHET_ERROR_ARGUMENT);
    rows.mask_type = WHET_CUSTOM;
    REFUSED(rows, WHET_ERROR_ARGUMENT);
    rows.mask = NULL; /* without a mask its type says nothing */
    REFUSED(rows, WHET_OK);
}

TEST(statistics_too_close_or_not_aligned_are_refused) {
    const size_t wrong[] = {1,        8,           sizeof(whet_stats) - 8, sizeof(whet_stats) + 4,
                            SIZE_MAX, SIZE_MAX - 7};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whet_rows rows = sound();
        rows.stats_stride = wrong[i];
        REFUSED(rows, WHET_ERROR_ARGUMENT);
        CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_ERROR_ARGUMENT);
    }
}

TEST(policies_that_make_no_sense_are_refused) {
    whet_policy zero = {0};
    whet_policy unknown = whet_policy_softmax();
    unknown.temperature = 42;
    whet_policy reserved = whet_policy_adaptive();
    reserved.reserved_bytes[3] = 1;
    const double none[1] = {1};
    const whet_policy wrong[] = {
        zero,
        unknown,
        reserved,
        whet_policy_fixed(-1),
        whet_policy_fixed((double)NAN),
        whet_policy_target(-1, 256),
        whet_policy_target(1, 0.5),
        whet_policy_length(1),
        whet_policy_linear(0),
        whet_policy_topk(0),
        whet_policy_entmax(1),
        whet_policy_entmax(3),
        whet_policy_custom(NULL, NULL),
        whet_policy_poly(NULL, 2, 0, 0, 0),
        whet_policy_poly(none, 99, -(double)INFINITY, 1, (double)INFINITY),
        whet_policy_with_strength(whet_policy_adaptive(), -0.5),
        whet_policy_with_strength(whet_policy_adaptive(), (double)NAN),
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whet_rows rows = sound();
        CHECK_MSG(status_of(&rows, &wrong[i]) == WHET_ERROR_POLICY, "policy %zu", i);
        CHECK_MSG(whet_entropy(&rows, &wrong[i], NULL) == WHET_ERROR_POLICY, "policy %zu", i);
    }
}

/* ---- overlaps ---- */

TEST(in_place_is_fine_and_any_other_overlap_refused) {
    whet_rows rows = sound();
    rows.mask = NULL;
    rows.out = in;
    CHECK_INT(whet_softmax(&rows, NULL, NULL), WHET_OK);
    for (ptrdiff_t shift = 1; shift < ROWS * N; shift++) {
        rows = sound();
        rows.mask = NULL;
        rows.out = in + shift;
        REFUSED(rows, WHET_ERROR_OVERLAP);
        rows.out = in;
        rows.in = in + shift;
        REFUSED(rows, WHET_ERROR_OVERLAP);
    }
    rows.in = in;
    rows.out = in + ROWS * N;
    CHECK_INT(whet_softmax(&rows, NULL, NULL), WHET_OK);
    rows.out = in;
    rows.in = in + ROWS * N;
    CHECK_INT(whet_softmax(&rows, NULL, NULL), WHET_OK);
}

TEST(the_same_place_with_another_stride_or_type_is_refused) {
    whet_rows rows = sound();
    rows.mask = NULL;
    rows.out = in;
    rows.out_stride = N + 1;
    REFUSED(rows, WHET_ERROR_OVERLAP);
    rows.in_stride = N + 1;
    CHECK_INT(whet_softmax(&rows, NULL, NULL), WHET_OK);
    rows = sound();
    rows.mask = NULL;
    rows.out = in;
    rows.out_type = WHET_F16;
    REFUSED(rows, WHET_ERROR_OVERLAP);
    rows.in_type = WHET_BF16;
    REFUSED(rows, WHET_ERROR_OVERLAP);
}

TEST(output_rows_that_share_entries_are_refused) {
    for (ptrdiff_t stride = -N + 1; stride < N; stride++) {
        whet_rows rows = sound();
        rows.out = out + CAPACITY / 2;
        rows.out_stride = stride;
        REFUSED(rows, stride == 0 ? WHET_OK : WHET_ERROR_OVERLAP); /* 0 means n */
    }
    whet_rows rows = sound();
    rows.rows = 1;
    rows.out_stride = 1;
    REFUSED(rows, WHET_OK);
}

TEST(results_over_the_mask_and_statistics_over_anything_are_refused) {
    whet_rows rows = sound();
    rows.out = mask;
    REFUSED(rows, WHET_ERROR_OVERLAP);
    rows.out = mask + 1;
    REFUSED(rows, WHET_ERROR_OVERLAP);
    rows = sound();
    rows.stats = (whet_stats *)(void *)in;
    REFUSED(rows, WHET_ERROR_OVERLAP);
    CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_ERROR_OVERLAP);
    rows.stats = (whet_stats *)(void *)(out + 2);
    REFUSED(rows, WHET_ERROR_OVERLAP);
    rows.stats = (whet_stats *)(void *)mask;
    REFUSED(rows, WHET_ERROR_OVERLAP);
    CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_ERROR_OVERLAP);
}

/* ---- sizes ---- */

TEST(sizes_that_leave_the_address_range_are_refused) {
    const size_t sizes[] = {SIZE_MAX,         SIZE_MAX - 1, SIZE_MAX / 2,
                            SIZE_MAX / 2 + 1, SIZE_MAX / 4, SIZE_MAX / 4 + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        whet_rows rows = sound();
        rows.n = sizes[i];
        REFUSED(rows, WHET_ERROR_OVERFLOW);
        CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_ERROR_OVERFLOW);
        rows = sound();
        rows.rows = sizes[i];
        REFUSED(rows, WHET_ERROR_OVERFLOW);
        CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_ERROR_OVERFLOW);
    }
}

TEST(strides_that_leave_the_address_range_are_refused) {
    const ptrdiff_t strides[] = {PTRDIFF_MAX,     PTRDIFF_MIN,     PTRDIFF_MAX / 2,
                                 PTRDIFF_MIN / 2, PTRDIFF_MAX / 4, PTRDIFF_MIN / 4};
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
        whet_rows rows = sound();
        rows.in_stride = strides[i];
        REFUSED(rows, WHET_ERROR_OVERFLOW);
        CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_ERROR_OVERFLOW);
        rows = sound();
        rows.out_stride = strides[i];
        REFUSED(rows, WHET_ERROR_OVERFLOW);
        rows = sound();
        rows.mask_stride = strides[i];
        REFUSED(rows, WHET_ERROR_OVERFLOW);
    }
    whet_rows rows = sound();
    rows.stats_stride = SIZE_MAX / 4 + 1;
    rows.rows = 4;
    REFUSED(rows, WHET_ERROR_OVERFLOW);
}

/* ---- sinks and betas ---- */

/* With both, one for each row. */
static whet_rows sound_with_extras(void) {
    whet_rows rows = sound();
    for (size_t i = 0; i < CAPACITY; i++) {
        sinks[i] = 0;
        betas[i] = 1;
    }
    rows.sink = sinks;
    rows.sink_stride = 1;
    rows.beta = betas;
    return rows;
}

static const float *moved(const void *from, size_t bytes) {
    uintptr_t address = (uintptr_t)from + bytes;
    const float *result;
    memcpy(&result, &address, sizeof result);
    return result;
}

TEST(sinks_and_betas_that_are_not_aligned_are_refused) {
    whet_rows rows = sound_with_extras();
    REFUSED(rows, WHET_OK);
    for (size_t shift = 1; shift < 4; shift++) {
        rows = sound_with_extras();
        rows.sink = moved(sinks, shift);
        REFUSED(rows, WHET_ERROR_ARGUMENT);
        rows = sound_with_extras();
        rows.beta = moved(betas, shift);
        REFUSED(rows, WHET_ERROR_ARGUMENT);
        rows.n = 0;
        REFUSED(rows, WHET_ERROR_ARGUMENT);
    }
}

TEST(results_and_statistics_over_sinks_and_betas_are_refused) {
    for (size_t i = 0; i < ROWS * N; i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            whet_rows rows = sound_with_extras();
            rows.out = in_place ? in : out;
            rows.sink = (const float *)rows.out + i;
            REFUSED(rows, WHET_ERROR_OVERLAP);
            rows.sink_stride = 0;
            REFUSED(rows, WHET_ERROR_OVERLAP);
            rows = sound_with_extras();
            rows.out = in_place ? in : out;
            rows.beta = (const float *)rows.out + i;
            REFUSED(rows, WHET_ERROR_OVERLAP);
        }
    }
    whet_rows rows = sound_with_extras();
    rows.sink = rows.beta = in; /* these may be read twice */
    REFUSED(rows, WHET_OK);
    rows.sink = out + (ptrdiff_t)ROWS * N; /* beside it */
    REFUSED(rows, WHET_OK);
    rows.sink_stride = 5;
    rows.sink = mask + 1;
    REFUSED(rows, WHET_OK);
    for (int over_beta = 0; over_beta < 2; over_beta++) {
        rows = sound_with_extras();
        *(over_beta ? &rows.beta : &rows.sink) = (const float *)(const void *)&stats[ROWS - 1];
        REFUSED(rows, WHET_ERROR_OVERLAP);
        CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_ERROR_OVERLAP);
    }
    rows = sound_with_extras();
    rows.n = 0; /* statistics are written all the same */
    rows.sink = (const float *)(const void *)&stats[ROWS - 1];
    REFUSED(rows, WHET_ERROR_OVERLAP);
}

TEST(strides_of_sinks_that_leave_the_address_range_are_refused) {
    const size_t strides[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 4, SIZE_MAX / 8, SIZE_MAX / 8 + 1};
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
        for (size_t n = 0; n <= N; n += N) {
            whet_rows rows = sound_with_extras();
            rows.n = n;
            rows.sink_stride = strides[i];
            rows.rows = 7; /* so that the last one also leaves it */
            REFUSED(rows, WHET_ERROR_OVERFLOW);
        }
    }
}

TEST(a_beta_beside_a_temperature_is_refused) {
    for (size_t i = 0; whet_policy_table(i); i++) {
        whet_policy policy, both;
        REQUIRE(whet_policy_parse(whet_policy_table(i)->example, &policy, NULL, 0) == WHET_OK);
        bool is_plain = policy.temperature == WHET_POLICY_SOFTMAX;
        whet_rows rows = sound_with_extras();
        CHECK_MSG(status_of(&rows, &policy) == (is_plain ? WHET_OK : WHET_ERROR_ARGUMENT), "%s",
                  whet_policy_table(i)->example);
        CHECK_INT(whet_entropy(&rows, &policy, NULL), is_plain ? WHET_OK : WHET_ERROR_ARGUMENT);
        both = whet_policy_compose(policy, whet_policy_entmax15());
        CHECK_INT(status_of(&rows, &both), is_plain ? WHET_OK : WHET_ERROR_ARGUMENT);
    }
}

/* ---- statuses ---- */

TEST(every_status_has_a_text) {
    for (int status = -1; status < 20; status++) {
        const char *text = whet_status_text((whet_status)status);
        CHECK(text && strlen(text) > 0 && !strchr(text, '\n'));
    }
}
