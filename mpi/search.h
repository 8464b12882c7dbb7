/*
 * Betas and thresholds of rows whose logits are in several places, found by passes over them: a
 * pass gives sums of each place, which are merged, and a step goes on from what all of them come
 * to. The state machines are libwhet's. Ranks that get the same sums take the same steps.
 */
#ifndef WHET_MPI_SEARCH_H
#define WHET_MPI_SEARCH_H

#include "attention/decode.h"
#include "row/map_row.h"
#include "row_message.h"

/* What is known of a row besides its decode_row. */
typedef struct row_search {
    uint64_t visible;      /* keys that the mask leaves, everywhere */
    beta_solver beta;      /* of temperatures that search */
    map_search map;        /* of maps that are no exponentials */
    map_coefficients sink; /* the coefficient of the sink, as statistics */
} row_search;

typedef struct split_row {
    const query_row *row;
    const kernels *kernels;
    const float *given_beta; /* or NULL */
    decode_row *state;
    row_search *search;
} split_row;

/* From the statistics of all keys: those of the row, and a beta that needs no search. */
void whet_mpi_start_row(const split_row *r, const row_message *keys);

/* Doubles of a pass over a row, at most; of one with a given policy's map. */
enum { BETA_SUMS = 3, MAP_NUMBERS_MAX = 1 + MAP_SUMS_MAX };
size_t whet_mpi_map_numbers(const whet_policy *policy);

/* Temperatures that search. The first of these starts the search, which may be done at once. */
void whet_mpi_start_beta(const split_row *r);
bool whet_mpi_searches_beta(const split_row *r);
void whet_mpi_sum_beta(const split_row *r, const row_view *logits, double *sums);
void whet_mpi_step_beta(const split_row *r, const double *sums);

/* Maps that are no exponentials; those of them that are ordered need no search. The numbers of a
 * pass are a minimum, then sums. */
bool whet_mpi_is_mapped(const split_row *r);
bool whet_mpi_is_ordered(const split_row *r);
void whet_mpi_start_map(const split_row *r);
bool whet_mpi_searches_map(const split_row *r);
void whet_mpi_sum_map(const split_row *r, const row_view *logits, double *numbers);
void whet_mpi_merge_map(double *into, const double *from, size_t sums);
void whet_mpi_step_map(const split_row *r, const double *numbers);

/* Coefficients in the place of logits, which the view must allow. Of an ordered map: `rest` is what
 * later keys leave of the stick, and then what these leave. */
map_coefficients whet_mpi_store_map(const split_row *r, const row_view *logits, double *rest);
void whet_mpi_store_sink(const split_row *r);

/* The statistics of a map's result, from those of all coefficients. */
void whet_mpi_report_map(const split_row *r, const map_coefficients *keys);

#endif
