/* The process that runs a model by llama.cpp; see llama_worker.h. */
#include "tune/llama_worker.h"

#include "model/llama_process.h"
#include "model/runner.h"

#include <math.h>
#include <stdlib.h>

/* Numbers of a line at most: lines have a limited length (llama_process.c). */
enum { BATCH = 512, TOKENS_OF_LINE = 4096, LOSSES_OF_LINE = 512 };

typedef struct worker {
    const llama_job *job;
    runner *runner;
    size_t vocabulary;
    FILE *out;
    lab_error error;
    /* of the line that is being filled */
    size_t sequence, count;
    json_t *losses;
    char right[LOSSES_OF_LINE + 1];
} worker;

/* Sends an object; steals the reference. */
static bool send(worker *w, json_t *line) { return llama_process_send(w->out, line, &w->error); }

static bool describe(worker *w) {
    const runner *r = w->runner;
    return send(w,
                json_pack("{s:o, s:I, s:I, s:I, s:b, s:I, s:b}", "version",
                          lab_json_text(runner_version(r)), "layers", (json_int_t)runner_layers(r),
                          "heads", (json_int_t)runner_heads(r), "vocabulary",
                          (json_int_t)w->vocabulary, "adds_begin", runner_adds_start(r), "begin",
                          (json_int_t)runner_start_token(r), "rotates", runner_rotates(r)));
}

/* ---- tokens ---- */

static bool send_tokens(worker *w, size_t text, const int32_t *tokens, size_t count) {
    for (size_t at = 0; at < count; at += TOKENS_OF_LINE) {
        size_t end = count - at < TOKENS_OF_LINE ? count : at + TOKENS_OF_LINE;
        json_t *list = json_array();
        for (size_t i = at; i < end; i++)
            json_array_append_new(list, json_integer(tokens[i]));
        if (!send(w, json_pack("{s:I, s:o}", "text", (json_int_t)text, "tokens", list)))
            return false;
    }
    return true;
}

static bool tokenise(worker *w) {
    for (size_t i = 0; i < w->job->text_count; i++) {
        size_t count;
        int32_t *tokens = runner_tokens(w->runner, w->job->texts[i], false, w->job->are_prompts,
                                        &count, &w->error);
        bool is_sent = tokens && send_tokens(w, i, tokens, count);
        free(tokens);
        if (!is_sent)
            return false;
    }
    return true;
}

/* ---- losses ---- */

static bool send_losses(worker *w) {
    json_t *losses = w->losses;
    w->losses = NULL;
    w->right[w->count] = '\0';
    w->count = 0;
    return send(w, json_pack("{s:I, s:o, s:s}", "sequence", (json_int_t)w->sequence, "loss", losses,
                             "right", w->right));
}

static bool add_loss(worker *w, const float *logits, lm_token token) {
    if (!logits)
        return lab_fail(&w->error, LAB_SYSTEM, "llama.cpp gave no logits");
    double loss = runner_surprise(logits, w->vocabulary, (int32_t)token);
    if (!isfinite(loss))
        return lab_fail(&w->error, LAB_INPUT, "llama.cpp gave logits that are not finite");
    if (!w->losses)
        w->losses = json_array();
    json_array_append_new(w->losses, json_real(loss));
    bool is_right = runner_likeliest(logits, w->vocabulary) == (int32_t)token;
    w->right[w->count++] = is_right ? '1' : '0';
    return w->count < LOSSES_OF_LINE || send_losses(w);
}

/* One batch of a sequence, whose tokens are judged by the logits of the ones before them. */
static bool judge_batch(worker *w, const tune_sequence *s, size_t at, size_t end) {
    size_t first = s->from - 1 > at ? s->from - 1 : at;
    size_t wanted = first < end ? first - at : end - at;
    if (!runner_feed(w->runner, (const int32_t *)s->tokens + at, end - at, wanted, &w->error))
        return false;
    for (size_t i = first; i < end; i++)
        if (!add_loss(w, runner_logits(w->runner, i - at), s->tokens[i + 1]))
            return false;
    return true;
}

static bool judge_sequence(worker *w, const tune_sequence *s) {
    size_t fed = s->length - 1; /* nothing follows the last */
    runner_forget(w->runner);
    for (size_t at = 0; at < fed; at += BATCH)
        if (!judge_batch(w, s, at, fed - at < BATCH ? fed : at + BATCH))
            return false;
    return w->count == 0 || send_losses(w);
}

static bool start(worker *w) {
    libllama_context_options options = w->job->context;
    for (size_t i = 0; i < w->job->sequence_count; i++)
        if (w->job->sequences[i].length > options.context)
            options.context = (uint32_t)w->job->sequences[i].length;
    options.batch = BATCH;
    return runner_start(w->runner, &options, &w->error);
}

static bool judge(worker *w) {
    if (w->job->sequence_count > 0 && !start(w))
        return false;
    for (w->sequence = 0; w->sequence < w->job->sequence_count; w->sequence++)
        if (!judge_sequence(w, &w->job->sequences[w->sequence]))
            return false;
    return true;
}

static bool work(worker *w) {
    w->vocabulary = runner_vocabulary(w->runner);
    return describe(w) && tokenise(w) && judge(w) && send(w, json_pack("{s:b}", "end", 1));
}

int tune_llama_work(const llama_job *job, FILE *out) {
    worker w = {.job = job, .out = out};
    w.runner = runner_open(job->library, job->plugin, job->model, &w.error);
    bool is_done = w.runner && work(&w);
    if (!is_done)
        llama_process_complain(out, &w.error);
    json_decref(w.losses);
    runner_close(w.runner);
    return is_done ? 0 : 1;
}
