/*
 * Decoding over a context that is spread over MPI ranks. Each rank has the keys and values of its
 * share of 65,536 positions; all get the result of one token. It is the same for any number of
 * ranks:
 *
 *     mpicc mpi_decode.c $(pkg-config --cflags --libs whet-mpi-openmpi) -o mpi_decode
 *     mpirun -n 4 ./mpi_decode
 */
#include <stdio.h>
#include <stdlib.h>
#include <whet_mpi.h>

enum { KEYS = 65536, DIM = 64, NEEDLE = 12345 };

/* All ranks get the same error, so that all can leave. */
static void must(whet_status status, int rank) {
    if (status == WHET_OK)
        return;
    if (rank == 0)
        fprintf(stderr, "mpi_decode: %s\n", whet_mpi_last_error());
    MPI_Finalize();
    exit(EXIT_FAILURE);
}

/* Key and value of a position: noise, but for the needle, which has the query's key and value 1. */
static void make_position(size_t position, float *key, float *value) {
    unsigned state = (unsigned)position * 2654435761u + 1u;
    for (size_t i = 0; i < DIM; i++) {
        state = state * 1664525u + 1013904223u;
        float noise = (float)(state >> 8) / 8388608.0f - 1.0f;
        key[i] = position == NEEDLE ? 1.25f : noise;
        value[i] = position == NEEDLE ? 1.0f : 0.0f;
    }
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    whet_mpi_share share;
    must(whet_mpi_local_size(MPI_COMM_WORLD, KEYS, WHET_MPI_BLOCK, &share), rank);
    float *keys = malloc((share.positions + 1) * DIM * sizeof(float));
    float *values = malloc((share.positions + 1) * DIM * sizeof(float));
    if (!keys || !values)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    for (size_t i = 0; keys && values && i < share.positions; i++)
        make_position(share.start[0] + i, keys + i * DIM, values + i * DIM);

    float query[DIM], out[DIM];
    for (size_t i = 0; i < DIM; i++)
        query[i] = 1;
    whet_stats stats = {.n = 0};
    whet_policy policies[2] = {whet_policy_softmax(), whet_policy_adaptive_hold()};
    whet_attention attention = {.size = sizeof attention,
                                .heads = 1,
                                .queries = 1,
                                .keys = KEYS,
                                .head_dim = DIM,
                                .q = {.data = query},
                                .k = {.data = keys},
                                .v = {.data = values},
                                .out = {.data = out},
                                .stats = &stats};
    for (int i = 0; i < 2; i++) {
        whet_mpi_plan *plan;
        attention.policies = &policies[i];
        must(whet_mpi_decode_plan(MPI_COMM_WORLD, &attention, NULL, &plan), rank);
        whet_mpi_execute(plan, NULL);
        if (rank == 0)
            printf("%-13s entropy %.4f, beta %.4f, weight on the needle %.6f\n",
                   i ? "adaptive:hold" : "softmax", stats.entropy, stats.beta, (double)out[0]);
        whet_mpi_destroy(plan);
    }
    free(keys);
    free(values);
    MPI_Finalize();
}
