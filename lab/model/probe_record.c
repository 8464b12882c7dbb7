/*
 * What the plug-in wrote while a model was probed: a row for each head and
 * position. Rows are assigned to prompts by the number of their evaluation,
 * which the process reports, and become measures of each head on each prompt.
 */
#include "model/llama_process.h"
#include "model/probe_parts.h"

#include "llama/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A line of the record. */
typedef struct record_line {
    char text[RECORD_DETAILED_BYTES];
    record_row row;
    record_detail detail; /* empty where the record has none */
} record_line;

typedef bool take_record(probe *p, const record_row *row, const record_detail *detail,
                         void *context);

static bool parse_line(record_line *line, bool has_details) {
    return has_details ? record_parse_detailed(line->text, &line->row, &line->detail)
                       : record_parse(line->text, &line->row);
}

/* Calls `take` with each row of the file. */
static bool read_rows(probe *p, record_line *line, take_record *take, void *context) {
    bool has_details = p->request->keys > 0 || p->request->has_gaps;
    FILE *file = fopen(p->rows_path, "r");
    bool is_good = file && fgets(line->text, sizeof line->text, file);
    if (is_good && strcmp(line->text, has_details ? record_detailed_header : record_header) != 0)
        is_good =
            lab_fail(p->error, LAB_INPUT,
                     "the plug-in's record has an unknown format; is it of another whet version?");
    else if (!is_good)
        lab_fail(p->error, LAB_SYSTEM, "the plug-in recorded nothing");
    while (is_good && fgets(line->text, sizeof line->text, file))
        is_good = parse_line(line, has_details)
                      ? take(p, &line->row, &line->detail, context)
                      : lab_fail(p->error, LAB_SYSTEM, "the plug-in's record is incomplete: %.60s",
                                 line->text);
    if (file)
        fclose(file);
    return is_good;
}

static bool each_row(probe *p, take_record *take, void *context) {
    record_line *line = calloc(1, sizeof *line);
    bool is_good = line ? read_rows(p, line, take, context) : lab_fail_memory(p->error);
    free(line);
    return is_good;
}

/* The numbers of layers, heads and evaluations. */
typedef struct extent {
    size_t layers, heads;
    uint64_t evaluations;
} extent;

static bool widen(probe *p, const record_row *row, const record_detail *detail, void *context) {
    extent *all = context;
    (void)detail;
    if (row->layer >= 65536 || row->head >= 65536)
        return lab_fail(p->error, LAB_SYSTEM, "the plug-in's record is damaged");
    all->layers = row->layer + 1 > all->layers ? (size_t)row->layer + 1 : all->layers;
    all->heads = row->head + 1 > all->heads ? (size_t)row->head + 1 : all->heads;
    all->evaluations =
        row->evaluation + 1 > all->evaluations ? row->evaluation + 1 : all->evaluations;
    return true;
}

/* Rows of one head on one prompt. */
typedef struct head_rows {
    record_row last;
    double entropies, entropies_after, widest;
    double positions; /* that the rows represent */
    uint64_t count;
} head_rows;

typedef struct gathering {
    size_t *prompt_of; /* [evaluations]; SIZE_MAX: of none */
    head_rows *heads;  /* [prompts][layers][heads] */
} gathering;

static bool gather_row(probe *p, const record_row *row, const record_detail *detail,
                       void *context) {
    gathering *all = context;
    size_t index = row->evaluation < p->evaluations ? all->prompt_of[row->evaluation] : SIZE_MAX;
    if (row->layer >= p->result->layers || row->head >= p->result->heads)
        return lab_fail(p->error, LAB_SYSTEM, "policies saw different heads");
    needles_add(&p->needles, (size_t)(row->layer * p->result->heads + row->head), row);
    if (index == SIZE_MAX)
        return true;
    probe_details_add(p, index, row, detail);
    size_t place = (index * p->result->layers + (size_t)row->layer) * p->result->heads;
    head_rows *head = &all->heads[place + (size_t)row->head];
    /* A row represents the positions since the previous row; short evaluations are recorded more
     * densely. */
    double since = head->count ? (double)row->position - (double)head->last.position
                               : (double)row->position + 1;
    since = since > 0 ? since : 1;
    if (head->count == 0 || row->evaluation > head->last.evaluation ||
        (row->evaluation == head->last.evaluation && row->position >= head->last.position))
        head->last = *row;
    head->count++;
    head->positions += since;
    head->entropies += since * row->entropy;
    head->entropies_after += since * row->entropy_after;
    if (row->spread > head->widest)
        head->widest = row->spread;
    return true;
}

float *probe_values(const probe_result *r, size_t policy, size_t size, size_t sequence,
                    size_t layer, size_t head) {
    size_t place = ((policy * r->sizes + size) * r->sequences + sequence) * r->layers;
    return r->values + ((place + layer) * r->heads + head) * PROBE_MEASURES;
}

static void keep_head(const head_rows *rows, float *values) {
    double measures[PROBE_MEASURES] = {
        [PROBE_ENTROPY] = rows->last.entropy,
        [PROBE_ENTROPY_AFTER] = rows->last.entropy_after,
        [PROBE_BETA] = rows->last.beta,
        [PROBE_LARGEST_WEIGHT] = rows->last.max_prob,
        [PROBE_SPREAD] = rows->last.spread,
        [PROBE_MEAN_ENTROPY] = rows->entropies / rows->positions,
        [PROBE_MEAN_ENTROPY_AFTER] = rows->entropies_after / rows->positions,
        [PROBE_WIDEST_SPREAD] = rows->widest,
        [PROBE_SINK_SHARE] = rows->last.sink_share,
    };
    for (int i = 0; rows->count > 0 && i < PROBE_MEASURES; i++)
        values[i] = (float)measures[i];
}

static void keep_heads(probe *p, const gathering *all) {
    probe_result *r = p->result;
    for (size_t i = 0; i < p->prompts.count; i++) {
        const prompt *asked = &p->prompts.items[i];
        if (asked->size >= r->sizes)
            break;
        for (size_t layer = 0; layer < r->layers; layer++)
            for (size_t head = 0; head < r->heads; head++)
                keep_head(&all->heads[(i * r->layers + layer) * r->heads + head],
                          probe_values(r, p->policy, asked->size, asked->sequence, layer, head));
    }
}

static bool keep_retrieval(probe *p) {
    probe_result *r = p->result;
    size_t heads = r->layers * r->heads;
    if (!r->retrieval)
        r->retrieval = malloc((r->policies * heads + 1) * sizeof *r->retrieval);
    if (!r->retrieval)
        return lab_fail_memory(p->error);
    for (size_t head = 0; head < heads; head++) {
        needle_score score = needles_score(&p->needles, head);
        r->retrieval[p->policy * heads + head] = (float)score.share;
        r->needle_tokens = score.tokens;
        r->needle_copied[p->policy] = score.copied;
    }
    return true;
}

/* Allocates the results, once the number of heads is known. */
static bool make_values(probe *p, const extent *all) {
    probe_result *r = p->result;
    r->layers = all->layers;
    r->heads = all->heads;
    size_t count = r->policies * r->sizes * r->sequences * r->layers * r->heads;
    r->values = malloc((count * PROBE_MEASURES + 1) * sizeof *r->values);
    if (!r->values)
        return lab_fail_memory(p->error);
    for (size_t i = 0; i < count * PROBE_MEASURES; i++)
        r->values[i] = NAN;
    return true;
}

/* Some evaluations are missing: the disk was full, which the plug-in may have reported, or
 * attention was computed elsewhere. */
static bool fail_incomplete(const probe *p, uint64_t recorded) {
    unsigned long long seen = recorded, all = p->evaluations;
    char words[LLAMA_WORDS_SIZE];
    llama_process_last_words(p->log_path, words);
    if (strstr(words, RECORD_STOPS))
        return lab_fail(p->error, LAB_SYSTEM, "cannot record the heads (%s)", words);
    return lab_fail(p->error, LAB_SYSTEM,
                    "the plug-in recorded %llu of %llu evaluations: %s may be full, or attention "
                    "runs where the plug-in is not",
                    seen, all, p->folder.path);
}

bool probe_gather(probe *p) {
    extent all = {0};
    probe_result *r = p->result;
    if (!each_row(p, widen, &all))
        return false;
    if (all.evaluations != p->evaluations)
        return fail_incomplete(p, all.evaluations);
    if (!r->values && !make_values(p, &all))
        return false;
    gathering rows = {.prompt_of = malloc((size_t)(p->evaluations + 1) * sizeof *rows.prompt_of),
                      .heads =
                          calloc(p->prompts.count * r->layers * r->heads + 1, sizeof *rows.heads)};
    bool is_good = rows.prompt_of && rows.heads;
    if (is_good) {
        memset(rows.prompt_of, 0xff, (size_t)p->evaluations * sizeof *rows.prompt_of);
        for (size_t i = 0; i < p->prompts.count; i++)
            for (uint64_t e = 0; e < p->places[i].count; e++)
                if (p->places[i].first + e < p->evaluations)
                    rows.prompt_of[p->places[i].first + e] = i;
        is_good = needles_begin(&p->needles, r->layers * r->heads, p->error) &&
                  probe_details_begin(p) && each_row(p, gather_row, &rows) &&
                  (!p->request->has_needles || keep_retrieval(p));
        if (is_good) {
            keep_heads(p, &rows);
            probe_details_end(p);
        }
    } else {
        lab_fail_memory(p->error);
    }
    free(rows.prompt_of);
    free(rows.heads);
    return is_good;
}
