/*
 * Attention of few queries over keys that are spread over ranks: what its files share. decode.c
 * plans and drives, decode_search.c finds betas and thresholds that take several reductions.
 *
 * A rank's keys are a part of the context (attention/plan.h) whose chunks are its pieces. libwhet
 * computes logits and statistics of chunks (phase 0 of decode) and their weighted sums of values
 * (phase 2); what it does between and after these with the chunks of a row is done here with
 * pieces of all ranks.
 */
#ifndef WHET_MPI_DECODE_H
#define WHET_MPI_DECODE_H

#include "attention/decode.h"
#include "plan.h"
#include "reduction.h"
#include "search.h"

typedef struct decode_plan {
    whet_mpi_plan base;
    piece_map map;
    span pieces;  /* of this rank, */
    size_t start; /* and its first position */
    whet_plan plan;
    void *memory; /* of the plan: workspace and scratch */
    char *scratch;
    size_t scratch_stride;
    int64_t *positions; /* where the description has none */
    size_t rows;        /* batch * heads * queries, as [slice][row] */
    row_search *search; /* [rows] */
    size_t *active;     /* [rows]: those that a search is not done with */
    double *rest;       /* [rows][pieces of all]: what each leaves of a stick; with ordered maps */
    map_coefficients *coefficients; /* [rows][pieces of this rank]; with maps */
    bool has_ordered, has_mapped;
    reduction r;
} decode_plan;

/* A row as libwhet sees it. */
typedef struct located_row {
    decode_work w;
    size_t r; /* in the slice */
    query_row row;
    decode_row *state;
} located_row;

located_row whet_mpi_locate_row(const decode_plan *p, size_t row);

/* As searches take it (search.h). */
split_row whet_mpi_split_row(const decode_plan *p, const located_row *at, size_t row);

/* The kept logits that a row sees of a piece of this rank. */
row_view whet_mpi_piece_logits(const located_row *at, const decode_plan *p, size_t piece);

/* Betas of temperatures that search; then the coefficients of maps in place of the logits.
 * Collective. */
void whet_mpi_search_betas(decode_plan *p);
void whet_mpi_make_coefficients(decode_plan *p);

/* Bytes of a row in the largest reduction of the two. */
size_t whet_mpi_search_bytes(const decode_plan *p);

#endif
