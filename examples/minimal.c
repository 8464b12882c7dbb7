/*
 * The smallest useful program: one row of logits and one small attention, each under the paper's
 * adaptive temperature. Build it against an installed library with
 *
 *     cc minimal.c $(pkg-config --cflags --libs whet) -o minimal
 */
#include <stdio.h>
#include <stdlib.h>
#include <whet.h>

static void must(whet_status status) {
    if (status == WHET_OK)
        return;
    fprintf(stderr, "minimal: %s: %s\n", whet_status_text(status), whet_last_error());
    exit(EXIT_FAILURE);
}

int main(void) {
    whet_policy policy = whet_policy_adaptive();

    /* A row of logits, normalised in place. */
    float row[] = {1, 2, 3, 4, 4.5f, 2, 1, 0.5f};
    whet_stats stats = {.n = 0};
    whet_rows rows = {
        .size = sizeof rows, .rows = 1, .n = 8, .in = row, .out = row, .stats = &stats};
    must(whet_softmax(&rows, &policy, NULL));
    printf("row: entropy %.3f -> %.3f, beta %.3f, largest %.3f\n", stats.entropy,
           stats.entropy_after, stats.beta, (double)row[4]);

    /* Attention: 2 heads, 3 queries, 3 keys, head_dim 4, causal. Zero means the default for
     * everything that is not set. */
    float q[2][3][4], k[2][3][4], v[2][3][4], out[2][3][4];
    for (int head = 0; head < 2; head++)
        for (int position = 0; position < 3; position++)
            for (int i = 0; i < 4; i++) {
                q[head][position][i] = (float)(position == i) * 3;
                k[head][position][i] = (float)(position == i) * 2;
                v[head][position][i] = (float)(10 * position + i);
            }
    whet_attention attention = {.size = sizeof attention,
                                .heads = 2,
                                .queries = 3,
                                .keys = 3,
                                .head_dim = 4,
                                .q = {.data = q},
                                .k = {.data = k},
                                .v = {.data = v},
                                .out = {.data = out},
                                .flags = WHET_CAUSAL,
                                .policies = &policy};
    must(whet_attention_forward(&attention, NULL, NULL));
    for (int position = 0; position < 3; position++)
        printf("attention: query %d -> %.3f %.3f %.3f %.3f\n", position,
               (double)out[0][position][0], (double)out[0][position][1],
               (double)out[0][position][2], (double)out[0][position][3]);
    return EXIT_SUCCESS;
}
