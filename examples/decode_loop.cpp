// The decoding loop from C++: whet.h is plain C and needs no wrapper, but resources fit well into
// objects that free themselves. Attention runs on a whet_pool.
#include "needle.h"
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include <whet.h>

static void must(whet_status status) {
    if (status != WHET_OK)
        throw std::runtime_error(std::string(whet_status_text(status)) + ": " + whet_last_error());
}

struct PoolDeleter {
    void operator()(whet_pool *pool) const { whet_pool_destroy(pool); }
};
using Pool = std::unique_ptr<whet_pool, PoolDeleter>;

static Pool make_pool(std::size_t threads) {
    whet_pool *pool = nullptr;
    must(whet_pool_create(threads, &pool));
    return Pool(pool);
}

static void decode() {
    std::vector<float> keys(CACHE_FLOATS), values(CACHE_FLOATS);
    std::vector<float> query(QUERY_FLOATS), out(QUERY_FLOATS);
    const whet_policy policies[2] = {whet_policy_softmax(), whet_policy_adaptive()};
    Pool pool = make_pool(2);
    whet_executor executor = whet_pool_executor(pool.get());

    const std::ptrdiff_t position = HEAD_DIM * sizeof(float), head = CAPACITY * position;
    whet_attention attention{};
    attention.size = sizeof attention;
    attention.heads = HEADS;
    attention.kv_heads = KV_HEADS;
    attention.queries = 1;
    attention.head_dim = HEAD_DIM;
    attention.q.data = query.data();
    attention.k.data = keys.data();
    attention.v.data = values.data();
    attention.out.data = out.data();
    for (whet_tensor *tensor : {&attention.k, &attention.v}) {
        const std::ptrdiff_t stride[4] = {KV_HEADS * head, head, position, sizeof(float)};
        for (int i = 0; i < 4; i++)
            tensor->stride[i] = stride[i];
    }

    std::printf("%8s %10s %10s\n", "keys", "softmax", "adaptive");
    for (std::size_t length = 1; length <= CAPACITY; length++) {
        next_token(length - 1, query.data(), keys.data(), values.data());
        attention.keys = length;
        float weight[2];
        for (int i = 0; i < 2; i++) {
            attention.policies = &policies[i];
            must(whet_attention_forward(&attention, &executor, nullptr));
            weight[i] = out[0];
        }
        if (worth_printing(length))
            std::printf("%8zu %10.4f %10.4f\n", length, static_cast<double>(weight[0]),
                        static_cast<double>(weight[1]));
    }
}

int main() {
    try {
        decode();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "decode_loop_cpp: %s\n", error.what());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
