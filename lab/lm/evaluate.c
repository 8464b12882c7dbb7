/* Generates samples, answers them batch by batch, and adds up; see evaluate.h. */
#include "lm/evaluate.h"

#include "base/grow.h"
#include "base/progress.h"
#include "base/signals.h"
#include "lm/sample.h"

#include <stdlib.h>
#include <string.h>

/* Samples answered together, fewer if their caches would take more than this; and the number of
 * tokens by which an answer may exceed the reference before it is cut off. */
enum { LANES = 16, CACHE_MOST = 256 << 20, OVERLENGTH = 64 };

static bool is_wanted_still(lab_error *error) {
    return !lab_interrupted() || lab_fail(error, LAB_STOPPED, "stopped while evaluating");
}

/* ---- samples ---- */

typedef struct sample {
    size_t tokens; /* where BEGIN and the question begin, among all tokens */
    size_t token_count;
    size_t answer, answer_length; /* in the texts */
} sample;

/* The samples of one algorithm and length. */
typedef struct exam {
    sample *list;
    size_t count;
    lm_token *tokens;
    size_t token_count, token_room;
    char *answers;
    size_t answer_length, answer_capacity;
    size_t longest; /* tokens of question and answer together */
} exam;

static void free_exam(exam *e) {
    free(e->list);
    free(e->tokens);
    free(e->answers);
    *e = (exam){.count = 0};
}

static bool add_sample(exam *e, const clrs_sample *made) {
    size_t tokens = made->question_length + 1;
    void *grown = lab_grow(e->tokens, sizeof *e->tokens, e->token_count + tokens, &e->token_room);
    if (!grown)
        return false;
    e->tokens = grown;
    grown = lab_grow(e->answers, 1, e->answer_length + made->answer_length, &e->answer_capacity);
    if (!grown)
        return false;
    e->answers = grown;
    e->list[e->count++] = (sample){e->token_count, tokens, e->answer_length, made->answer_length};
    e->tokens[e->token_count] = LM_TOKEN_BEGIN;
    lm_tokens_of_text(made->question, made->question_length, e->tokens + e->token_count + 1);
    memcpy(e->answers + e->answer_length, made->answer, made->answer_length);
    e->token_count += tokens;
    e->answer_length += made->answer_length;
    if (tokens + made->answer_length > e->longest)
        e->longest = tokens + made->answer_length;
    return true;
}

static bool make_exam(exam *e, const lm_task *task, uint64_t length, uint64_t seed,
                      uint64_t samples, lab_error *error) {
    clrs_request request = clrs_request_default(task->algorithm->name, (int64_t)length);
    clrs_sampler *sampler;
    clrs_sample made;
    request.seed = seed;
    request.hints = task->hints;
    *e = (exam){.list = calloc((size_t)samples, sizeof *e->list)};
    clrs_status status = e->list ? clrs_sampler_create(&request, &sampler) : CLRS_ERROR_MEMORY;
    if (status == CLRS_OK) {
        while (status == CLRS_OK && e->count < samples && is_wanted_still(error)) {
            status = clrs_sampler_next(sampler, &made);
            if (status == CLRS_OK && !add_sample(e, &made))
                status = CLRS_ERROR_MEMORY;
        }
        clrs_sampler_destroy(sampler);
    }
    if (status == CLRS_OK)
        return e->count == samples; /* or it was stopped */
    return status == CLRS_ERROR_MEMORY
               ? lab_fail_memory(error)
               : lab_fail(error, LAB_INPUT, "%s of length %llu: %s", task->algorithm->name,
                          (unsigned long long)length, clrs_status_text(status));
}

/* ---- answering ---- */

/* All batches of an exam under all policies. */
typedef struct sitting {
    const lm_eval_request *request;
    const lm_matrices *matrices;
    const lm_task *task;
    const exam *exam;
    size_t capacity, lanes, batches;
    struct marks *marks; /* [policies][batches] */
} sitting;

/* The result of a batch. */
typedef struct marks {
    clrs_score_sum sum;
    lm_entropy *entropies; /* [layers][heads] */
    lab_error error;
} marks;

/* A batch that is being answered. */
typedef struct sample_batch {
    const sitting *of;
    size_t first, count; /* samples */
    lm_decoder *decoder;
    float *logits; /* [LANES][vocabulary] */
    char *answers; /* [LANES][answer_capacity] */
    size_t answer_capacity;
    size_t lengths[LANES]; /* of answers */
    lm_token next[LANES];  /* chosen, not fed yet */
    size_t active[LANES];  /* lanes still active */
    size_t active_count;
} sample_batch;

static const sample *sample_of(const sample_batch *batch, size_t lane) {
    return &batch->of->exam->list[batch->first + lane];
}

/* Appends a lane's token; false when its answer is complete. */
static bool goes_on(sample_batch *batch, size_t lane, lm_token token) {
    const sample *s = sample_of(batch, lane);
    if (token == LM_TOKEN_END || batch->lengths[lane] >= s->answer_length + OVERLENGTH ||
        lm_decoder_length(batch->decoder, lane) >= batch->of->capacity)
        return false;
    char character = lm_character_of(token);
    batch->answers[lane * batch->answer_capacity + batch->lengths[lane]++] =
        character ? character : '?';
    batch->next[lane] = token;
    return true;
}

static bool read_questions(sample_batch *batch, lab_error *error) {
    size_t vocabulary = batch->of->request->model->config.vocabulary;
    batch->active_count = 0;
    for (size_t lane = 0; lane < batch->count; lane++) {
        const sample *s = sample_of(batch, lane);
        batch->lengths[lane] = 0;
        if (!lm_decoder_read(batch->decoder, lane, batch->of->exam->tokens + s->tokens,
                             s->token_count, batch->logits, error))
            return false;
        if (goes_on(batch, lane, lm_greedy(batch->logits, vocabulary)))
            batch->active[batch->active_count++] = lane;
    }
    return true;
}

static bool write_answers(sample_batch *batch, lab_error *error) {
    size_t vocabulary = batch->of->request->model->config.vocabulary;
    while (batch->active_count > 0) {
        if (!is_wanted_still(error))
            return false;
        lm_token tokens[LANES];
        size_t kept = 0;
        for (size_t i = 0; i < batch->active_count; i++)
            tokens[i] = batch->next[batch->active[i]];
        if (!lm_decoder_step(batch->decoder, batch->active, tokens, batch->active_count,
                             batch->logits, error))
            return false;
        for (size_t i = 0; i < batch->active_count; i++)
            if (goes_on(batch, batch->active[i],
                        lm_greedy(batch->logits + i * vocabulary, vocabulary)))
                batch->active[kept++] = batch->active[i];
        batch->active_count = kept;
    }
    return true;
}

static void add_score(clrs_score_sum *sum, const clrs_score *score) {
    sum->samples++;
    sum->exact += score->exact;
    sum->final += score->final;
    sum->traced += score->steps > 0;
    if (score->steps > 0)
        sum->steps_share += (double)score->steps_right / (double)score->steps;
}

static void mark_answers(const sample_batch *batch, marks *into) {
    const sitting *of = batch->of;
    for (size_t lane = 0; lane < batch->count; lane++) {
        const sample *s = sample_of(batch, lane);
        clrs_span answer = {batch->answers + lane * batch->answer_capacity, batch->lengths[lane]};
        clrs_span wanted = {of->exam->answers + s->answer, s->answer_length};
        clrs_score score = clrs_score_answer(of->task->algorithm, answer, wanted);
        add_score(&into->sum, &score);
    }
}

static size_t heads_of(const lm_model *model) {
    return (size_t)model->config.layers * model->config.heads;
}

static bool answer_batch(sample_batch *batch, const lm_eval_policy *policy, marks *into,
                         lab_error *error) {
    const sitting *of = batch->of;
    const lm_decoder_options options = {.matrices = of->matrices,
                                        .policy = policy->policy,
                                        .lanes = of->lanes,
                                        .capacity = of->capacity,
                                        .measures = true};
    batch->answer_capacity = of->exam->longest + OVERLENGTH;
    batch->logits = malloc(LANES * of->request->model->config.vocabulary * sizeof *batch->logits);
    batch->answers = malloc(LANES * batch->answer_capacity);
    if (!batch->logits || !batch->answers)
        return lab_fail_memory(error);
    batch->decoder = lm_decoder_create(&options, error);
    if (!batch->decoder || !read_questions(batch, error) || !write_answers(batch, error))
        return false;
    mark_answers(batch, into);
    memcpy(into->entropies, lm_decoder_entropies(batch->decoder),
           heads_of(of->request->model) * sizeof *into->entropies);
    return true;
}

static void answer_task(void *context, size_t task, size_t worker) {
    (void)worker;
    const sitting *of = context;
    size_t first = task % of->batches * of->lanes, left = of->exam->count - first;
    sample_batch batch = {.of = of, .first = first, .count = left < of->lanes ? left : of->lanes};
    marks *into = &of->marks[task];
    if (is_wanted_still(&into->error))
        answer_batch(&batch, &of->request->policies[task / of->batches], into, &into->error);
    lm_decoder_destroy(batch.decoder);
    free(batch.logits);
    free(batch.answers);
}

static void run_tasks(const whet_executor *executor, size_t tasks, sitting *of) {
    if (executor)
        executor->parallel_for(executor->context, tasks, answer_task, of);
    else
        for (size_t i = 0; i < tasks; i++)
            answer_task(of, i, 0);
}

/* ---- adding up ---- */

static bool add_marks(const sitting *of, lm_eval_cell *cells, lab_error *error) {
    size_t heads = heads_of(of->request->model);
    for (size_t i = 0; i < of->request->policy_count * of->batches; i++) {
        const marks *m = &of->marks[i];
        lm_eval_cell *cell = &cells[i / of->batches];
        if (m->error.kind != LAB_NO_ERROR)
            return lab_fail(error, m->error.kind, "%s", m->error.text);
        cell->sum.samples += m->sum.samples;
        cell->sum.exact += m->sum.exact;
        cell->sum.final += m->sum.final;
        cell->sum.traced += m->sum.traced;
        cell->sum.steps_share += m->sum.steps_share;
        for (size_t h = 0; h < heads; h++) {
            cell->entropies[h].before += m->entropies[h].before;
            cell->entropies[h].after += m->entropies[h].after;
            cell->entropies[h].rows += m->entropies[h].rows;
        }
    }
    return true;
}

static bool sit(sitting *of, lm_eval_cell *cells, lab_error *error) {
    size_t tasks = of->request->policy_count * of->batches, heads = heads_of(of->request->model);
    if (tasks == 0 || heads == 0)
        return true;
    of->marks = calloc(tasks, sizeof *of->marks);
    lm_entropy *entropies = calloc(tasks * heads, sizeof *entropies);
    bool good = of->marks && entropies;
    for (size_t i = 0; good && i < tasks; i++)
        of->marks[i].entropies = entropies + i * heads;
    if (good)
        run_tasks(of->request->executor, tasks, of);
    good = good ? add_marks(of, cells, error) : lab_fail_memory(error);
    free(of->marks);
    free(entropies);
    return good;
}

static size_t lanes_for(const lm_matrices *matrices, size_t capacity) {
    lm_decoder_options options = {.matrices = matrices, .capacity = capacity, .lanes = LANES};
    while (options.lanes > 1 && lm_decoder_cache_bytes(&options) > CACHE_MOST)
        options.lanes /= 2;
    return options.lanes;
}

/* All policies on one algorithm and length. If samples are too long for the model, the cells stay
 * empty. */
static bool examine(const lm_eval_request *r, const lm_matrices *matrices, size_t task,
                    size_t length, lm_eval_cell *cells, lab_error *error) {
    exam e;
    bool good = make_exam(&e, &r->tasks[task], r->lengths[length], r->seed, r->samples, error);
    size_t context = r->model->config.context;
    sitting of = {.request = r, .matrices = matrices, .task = &r->tasks[task], .exam = &e};
    of.capacity = e.longest + OVERLENGTH < context ? e.longest + OVERLENGTH : context;
    of.lanes = lanes_for(matrices, of.capacity);
    of.batches = (e.count + of.lanes - 1) / of.lanes;
    for (size_t p = 0; good && p < r->policy_count; p++) {
        cells[p].sum.algorithm = r->tasks[task].algorithm;
        cells[p].sum.length = (int64_t)r->lengths[length];
        cells[p].question_tokens = e.token_count;
        cells[p].answer_tokens = e.answer_length;
    }
    if (good && e.longest <= context)
        good = sit(&of, cells, error);
    free_exam(&e);
    return good;
}

static bool request_is_good(const lm_eval_request *r, lab_error *error) {
    if (r->task_count == 0 || r->length_count == 0 || r->policy_count == 0 || r->samples == 0)
        return lab_fail(error, LAB_INPUT, "nothing to evaluate");
    if (r->model->config.vocabulary != LM_CLRS_VOCABULARY)
        return lab_fail(error, LAB_INPUT,
                        "not a CLRS-Text model: its vocabulary has %u "
                        "tokens instead of %d",
                        r->model->config.vocabulary, LM_CLRS_VOCABULARY);
    for (size_t t = 0; t < r->task_count; t++)
        for (size_t l = 0; l < r->length_count; l++) {
            char message[CLRS_MESSAGE_SIZE];
            clrs_request request =
                clrs_request_default(r->tasks[t].algorithm->name, (int64_t)r->lengths[l]);
            request.seed = r->seed;
            if (clrs_request_check(&request, message) != CLRS_OK)
                return lab_fail(error, LAB_INPUT, "%s", message);
        }
    return true;
}

static bool make_cells(lm_evaluation *result, lab_error *error) {
    const lm_eval_request *r = result->request;
    size_t heads = heads_of(r->model), count, all;
    if (__builtin_mul_overflow(r->task_count * r->length_count, r->policy_count, &count) ||
        __builtin_mul_overflow(count, heads, &all))
        return lab_fail(error, LAB_INPUT,
                        "too many algorithms, lengths and policies to evaluate at once");
    result->cells = calloc(count, sizeof *result->cells);
    result->entropies = calloc(all, sizeof *result->entropies);
    if (!result->cells || !result->entropies)
        return lab_fail_memory(error);
    for (size_t i = 0; i < count; i++)
        result->cells[i].entropies = result->entropies + i * heads;
    return true;
}

/* Approximate cost of an algorithm and length. */
static uint64_t work_of(const lm_eval_request *r, size_t length) { return r->lengths[length] + 8; }

static bool examine_all(lm_evaluation *result, const lm_matrices *matrices, lab_error *error) {
    const lm_eval_request *r = result->request;
    uint64_t total = 0, done = 0;
    for (size_t l = 0; l < r->length_count; l++)
        total += work_of(r, l) * r->task_count;
    lab_progress progress =
        lab_progress_begin(r->title ? r->title : "evaluation", 0, total, r->quiet);
    bool good = true;
    for (size_t i = 0; good && i < r->task_count * r->length_count; i++) {
        size_t task = i / r->length_count, length = i % r->length_count;
        lab_progress_show(&progress, done, "%s, length %llu", r->tasks[task].algorithm->name,
                          (unsigned long long)r->lengths[length]);
        good = examine(r, matrices, task, length, result->cells + i * r->policy_count, error);
        done += work_of(r, length);
    }
    lab_progress_end(&progress);
    return good;
}

bool lm_evaluate(const lm_eval_request *request, lm_evaluation *result, lab_error *error) {
    lm_matrices matrices = {.values = NULL};
    *result = (lm_evaluation){.request = request};
    bool good = request_is_good(request, error) && make_cells(result, error) &&
                lm_matrices_create(request->model, request->engine, &matrices, error) &&
                examine_all(result, &matrices, error);
    lm_matrices_free(&matrices);
    if (!good)
        lm_evaluation_free(result);
    return good;
}

void lm_evaluation_free(lm_evaluation *evaluation) {
    free(evaluation->cells);
    free(evaluation->entropies);
    *evaluation = (lm_evaluation){.cells = NULL};
}

const lm_eval_cell *lm_eval_cell_at(const lm_evaluation *evaluation, size_t task, size_t length,
                                    size_t policy) {
    const lm_eval_request *r = evaluation->request;
    return &evaluation->cells[(task * r->length_count + length) * r->policy_count + policy];
}
