/* Shared by the files of a search: losses of points, of which each is computed once. */
#ifndef WHET_LAB_TUNE_SEARCH_PARTS_H
#define WHET_LAB_TUNE_SEARCH_PARTS_H

#include "tune/search.h"

/* The numbers that are searched. */
typedef struct search_point {
    double *a; /* [layers] */
    double h;
} search_point;

/* A point's losses. */
typedef struct search_record {
    char *key;
    double *losses;            /* [count], by sequence; NaN: not known yet */
    unsigned char *is_counted; /* [count]: among the passes of this search */
} search_record;

typedef struct search {
    const tune_judge *judge;
    const tune_sequence *sequences;
    size_t count;
    const tune_search_options *options;
    const tune_search_listener *listener;
    json_t *state;
    tune_setting *setting; /* of the point that is run */
    size_t *order;         /* [count]: sequences in the order in which they are looked at */
    search_record **records;
    size_t record_count, record_capacity;
    tune_sequence *batch; /* [options->batch] */
    size_t *batch_at;     /* their indices */
    double *differences;  /* [count] */
    double stretch;       /* max(0, ln(longest / n0)) */
    tune_search_news news;
    bool has_run_out;
    lab_error *error;
} search;

/* Whether the work can go on: SEARCH_OUT when the budget is used up, which is not an error. */
typedef enum search_status { SEARCH_GOOD, SEARCH_OUT, SEARCH_FAILED } search_status;

/* Gives every tuned head the numbers of its layer, and the others beta = 1. */
void search_set_point(const search *s, const search_point *point);

/* Whether a layer has a tuned head. */
bool search_tunes_layer(const search *s, size_t layer);

/* Checks the state that was handed in, or begins one. */
bool search_begin_state(search *s);

/* Finds the losses of the first n sequences in the search's order. *record has them afterwards, or
 * those that the budget allowed; it lasts as long as the search. */
search_status search_losses(search *s, const search_point *point, size_t n,
                            const search_record **record);

void search_free_records(search *s);

#endif
