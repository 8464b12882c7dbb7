/*
 * whet_mpi.h - attention over a context that is spread over MPI ranks.
 *
 * INTRODUCTION
 *
 * One machine can hold only so many keys and values. Here each rank holds a share of them, and all
 * ranks together compute what whet_attention_forward would compute with the whole context: under
 * every policy, with sinks, windows, masks and statistics, and with the same bits for any number
 * of ranks. A program that decodes one token:
 *
 *     #include <whet_mpi.h>
 *
 *     MPI_Init(&argc, &argv);
 *     whet_mpi_share share;
 *     whet_mpi_local_size(MPI_COMM_WORLD, n, WHET_MPI_BLOCK, &share);
 *     ... this rank provides keys and values of positions share.start[0] to
 *         share.start[0] + share.count[0] - 1 ...
 *     whet_attention attention = {.size = sizeof attention, .heads = 8, .queries = 1, .keys = n,
 *                                 .head_dim = 128, .q = {.data = q}, .k = {.data = my_keys},
 *                                 .v = {.data = my_values}, .out = {.data = out},
 *                                 .policies = &adaptive};
 *     whet_mpi_plan *plan;
 *     whet_mpi_decode_plan(MPI_COMM_WORLD, &attention, NULL, &plan);
 *     whet_mpi_execute(plan, NULL);
 *     whet_mpi_destroy(plan);
 *
 * How it works: a rank computes the logits of its keys and, of every row, the statistics (m, Z, S)
 * of whet.h. These merge into those of the whole row, from which every rank computes the same
 * beta. Then the weighted sums of values merge. That makes two reductions of a few kilobytes,
 * whatever the length of the context. target and maps that search for a threshold take more
 * reductions, of a few sums each.
 *
 * SAME BITS
 *
 * n positions are divided into pieces, up to 1,024 of them, in a way that depends on n alone. A
 * rank owns whole pieces. What pieces contribute is merged in the order of one fixed binary tree,
 * by messages of this library's own, since MPI_Allreduce promises no order. So results do not
 * depend on the number of ranks or threads. They are as accurate as those of whet_attention_forward
 * (whet.h, section 4), whose bits differ, because it divides the context otherwise. Ranks on
 * processors with different instruction sets round differently: set WHET_ISA to one that all of
 * them have.
 *
 * ERRORS
 *
 * A function that is marked "Collective" must be called by all ranks of its communicator, with
 * the same arguments unless stated otherwise. Planning compares what the ranks pass. If one rank is
 * refused, or two disagree, every rank gets the same status and the same sentence from
 * whet_mpi_last_error, and none hangs. After that nothing can fail but MPI itself: then the rank
 * that notices prints a line and ends the job by MPI_Abort. Most launchers also end the job when a
 * rank dies.
 *
 * MPI must be initialised; MPI_THREAD_FUNNELED is enough, since only the calling thread calls MPI.
 * Ranks must have the same byte order. Descriptions, policies, statistics and executors are those
 * of whet.h; link with libwhet_mpi_openmpi or libwhet_mpi_mpich (pkg-config whet-mpi-openmpi or
 * whet-mpi-mpich).
 */
#ifndef WHET_MPI_H
#define WHET_MPI_H

#include <mpi.h>
#include <whet.h>

#if defined(__cplusplus)
extern "C" {
#endif

#if defined(__GNUC__)
#define WHET_MPI_API __attribute__((visibility("default")))
#else
#define WHET_MPI_API
#endif

/*
 * Returns one sentence about the last call of this library that was refused on this thread, such as
 * "rank 2: k.stride[1] is 0 with 2 key heads" or "keys is 4096 on rank 1 and 8192 on rank 0".
 * It is the same on all ranks. Never NULL, and "" before the first refusal.
 */
WHET_MPI_API const char *whet_mpi_last_error(void);

/*
 * How positions are dealt to ranks. In a block layout, rank 0 has the first positions, rank 1
 * the next, and so on. A zig-zag layout cuts the positions into twice as many parts as there are
 * ranks and gives rank r part r from the front and part r from the back: under causal attention,
 * where later queries see more keys, all ranks then have the same work.
 */
typedef enum whet_mpi_layout { WHET_MPI_BLOCK = 0, WHET_MPI_ZIGZAG = 1 } whet_mpi_layout;

/*
 * The positions of one rank: count[0] from start[0] on, then count[1] from start[1] on, stored
 * one after the other. In a block layout count[1] is 0.
 */
typedef struct whet_mpi_share {
    size_t positions; /* count[0] + count[1]; 0 if there are more ranks than pieces */
    size_t start[2];
    size_t count[2];
} whet_mpi_share;

/*
 * Says which of n positions the calling rank owns. It depends on n, the layout, the rank and the
 * number of ranks, and involves no communication. Not collective.
 */
WHET_MPI_API whet_status whet_mpi_local_size(MPI_Comm comm, size_t n, whet_mpi_layout layout,
                                             whet_mpi_share *share);

/* The same for a rank of one's choice, for programs that hand out the positions. Not collective. */
WHET_MPI_API whet_status whet_mpi_share_of(size_t n, whet_mpi_layout layout, int rank, int ranks,
                                           whet_mpi_share *share);

typedef struct whet_mpi_plan whet_mpi_plan;

/*
 * Plans attention of queries that every rank has over keys that are spread, as when decoding.
 *
 * `attention` is a description as in whet.h in which `keys` is the length of the whole context,
 * and k, v, mask and bias hold the calling rank's positions only (WHET_MPI_BLOCK), strides
 * included; they may differ between ranks in address and strides. An empty share may have null
 * pointers, and mask and bias may be absent where they are all zeros. q, betas, positions, sinks
 * and slopes must be the same on all ranks. out, stats and max_logits are written by every rank,
 * with the same values. The statistics' argmax counts from the start of the whole context.
 * skip must be 0 (WHET_ERROR_UNSUPPORTED otherwise).
 *
 * To decode with a growing cache, plan once for its capacity with WHET_CAUSAL and call
 * whet_mpi_set_offset for each token: keys beyond the offset are not visible, and unused slots may
 * hold anything.
 *
 * The plan keeps the description, and what it points to must outlive it. The communicator is
 * duplicated. executor NULL means one thread; the executor may differ between ranks and must
 * outlive the plan. If the result is not WHET_OK, *plan is NULL. Collective.
 */
WHET_MPI_API whet_status whet_mpi_decode_plan(MPI_Comm comm, const whet_attention *attention,
                                              const whet_executor *executor, whet_mpi_plan **plan);

/*
 * Plans attention of queries that are spread over ranks like the keys, as when a long prompt is
 * read or a model is trained.
 *
 * In `attention`, `queries` and `keys` are the numbers of all ranks. q, out, stats, betas and
 * positions hold the calling rank's queries, and k, v and bias its keys, both as
 * whet_mpi_local_size says for the layout: where a rank has two parts, one after the other, as if
 * they were one. A mask has rows for the rank's queries and columns for all keys. bias must be
 * given by all ranks or by none. sinks, slopes and policies are the same on all ranks.
 *
 * Keys and values travel from rank to rank while each works on those it has: a rank needs memory
 * for two further shares of keys and values, and for the results of its own queries. Where beta
 * depends on the statistics, the keys travel once more, before: that is what adaptive temperature
 * costs here, beside computing the logits twice.
 *
 * If one of the policies is target, or has another map than softmax or softmax1, the keys travel
 * once for every step of the searches, of all rows at once: 5 for topk, 1 for hardmax and softpick,
 * none for sigmoid and stick-breaking, and for target and entmax as many as the row needs that
 * needs most, but no more than 64 and 200. Logits are computed again each time, row by row.
 *
 * k and v must have rows without gaps, of a type other than WHET_CUSTOM, and max_logits must be
 * NULL (WHET_ERROR_UNSUPPORTED otherwise). Everything else as for whet_mpi_decode_plan. Collective.
 */
WHET_MPI_API whet_status whet_mpi_prefill_plan(MPI_Comm comm, const whet_attention *attention,
                                               whet_mpi_layout layout,
                                               const whet_executor *executor, whet_mpi_plan **plan);

/*
 * Plans the backward pass of a prefill plan. In `gradients`, `attention` is its description, with
 * the statistics that it wrote (out is ignored). out, q, betas, logsumexp, entropy and
 * entropy_after hold the calling rank's queries, and k, v and bias its keys, all in the layout of
 * the prefill plan. The gradients of policies, sinks and slopes are written by every rank, with the
 * same values. All ranks must ask for the same gradients; types, addresses and strides may differ.
 *
 * Keys and values travel twice: once for the sums that a row's gradients are made of, once for the
 * gradients. In the second round the gradients of keys and values go straight to the rank whose
 * keys they are, in f32, while the next keys are worked on. Logits are computed again in both
 * rounds. A rank needs memory for two further shares of keys and values, for the gradients of three
 * shares or, where the numbers of ranks or pieces are no powers of two, a few times that, and for
 * results of its own queries. Gradients are as accurate as those of whet_attention_backward.
 *
 * Rows with another map than softmax, and all rows if statistics have gradients, are computed one
 * by one. For these the keys travel once more for the largest logits, and once for every step of
 * the maps' searches, as in prefill (1 for softmax and softmax1; temperatures are not searched
 * again).
 *
 * With stick-breaking, a rank also needs 16 bytes for each of its rows and each piece of keys that
 * the row sees, up to 16 KiB a row.
 *
 * skip must be 0, and k and v are as for whet_mpi_prefill_plan. Collective.
 */
WHET_MPI_API whet_status whet_mpi_backward_plan(MPI_Comm comm, const whet_gradients *gradients,
                                                whet_mpi_layout layout,
                                                const whet_executor *executor,
                                                whet_mpi_plan **plan);

/* Moves the queries of a decode plan: sets `offset` of its description. All ranks must set the
 * same. Not collective. */
WHET_MPI_API whet_status whet_mpi_set_offset(whet_mpi_plan *plan, int64_t offset);

/*
 * Computes. May be called any number of times, with new contents of the same arrays. Returns
 * WHET_OK, or WHET_NOT_FINITE and the first bad row as whet_attention_forward does, the same on all
 * ranks. first_bad_row may be NULL. Collective.
 */
WHET_MPI_API whet_status whet_mpi_execute(whet_mpi_plan *plan, uint64_t *first_bad_row);

/* Frees a plan and its communicator; NULL is allowed. Collective. */
WHET_MPI_API void whet_mpi_destroy(whet_mpi_plan *plan);

/* What the calling rank has sent since the plan was made, planning itself excluded. */
typedef struct whet_mpi_counts {
    uint64_t reductions; /* reductions over all ranks */
    uint64_t rounds;     /* steps in which the rank waited for a message */
    uint64_t messages;   /* messages sent */
    uint64_t bytes;      /* bytes sent */
} whet_mpi_counts;

/* Not collective. */
WHET_MPI_API whet_mpi_counts whet_mpi_counts_of(const whet_mpi_plan *plan);

#if defined(__cplusplus)
}
#endif

#endif
