/* Drawing sets. One random number makes one item. */
#include "retrieval/task.h"

#include "nn/layers.h"

#include <math.h>

void retrieval_draw_items(lab_random *random, const retrieval_config *config, float priority_range,
                          size_t drawn, size_t count, retrieval_items into, retrieval_top *top) {
    bool rounds = config->precision != RETRIEVAL_F32;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = lab_random_bits(random);
        float priority = (float)(bits >> 40) * 0x1p-24f;
        if (priority_range < 1)
            priority = 1 - priority_range * (1 - priority);
        into.class_of[i] = (uint16_t)(((bits & 0xFFFFFFFFu) * config->classes) >> 32);
        into.priority[i] = rounds ? nn_round_to_bf16(priority) : priority;
        if (priority > top->priority)
            *top = (retrieval_top){priority, drawn + i};
    }
}

float retrieval_draw_query(lab_random *random, const retrieval_config *config) {
    float query = lab_random_float(random);
    return config->precision == RETRIEVAL_BF16 ? nn_round_to_bf16(query) : query;
}

float retrieval_draw_priority_range(lab_random *random, const retrieval_config *config) {
    return config->nearest < 1 ? (float)exp(log(config->nearest) * lab_random_double(random)) : 1;
}
