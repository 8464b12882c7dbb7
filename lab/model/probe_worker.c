/* The process that runs the model; see probe_worker.h. */
#include "model/probe_worker.h"

#include "model/llama_process.h"
#include "model/runner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 512, JUDGED_WINDOW = 512, ANSWER_SIZE = 4096 };

/* Tokens of a prompt. */
typedef struct token_list {
    int32_t *items;
    size_t count;
} token_list;

/* Where a needle's answer is among the tokens of its prompt. */
typedef struct needle_place {
    size_t first, count;
} needle_place;

typedef struct worker {
    const probe_request *request;
    const prompt_list *prompts;
    runner *runner;
    token_list *prompt_tokens; /* [prompts->count] */
    needle_place *needles;     /* likewise */
    size_t sizes;              /* that fit */
    uint64_t whole;            /* tokens of the text, if the last size is all of it; or 0 */
    token_list judged;
    FILE *out;
    lab_error error;
} worker;

/* Sends an object; steals the reference. */
static bool send(worker *w, json_t *line) { return llama_process_send(w->out, line, &w->error); }

/* ---- tokens ---- */

static bool make_tokens(worker *w, const char *text, bool has_start, bool has_special,
                        token_list *list) {
    list->items = runner_tokens(w->runner, text, has_start, has_special, &list->count, &w->error);
    return list->items != NULL;
}

/* Adds the first `limit` tokens of another list, and frees that. */
static bool append(worker *w, token_list *list, token_list *more, size_t limit) {
    size_t count = more->count < limit ? more->count : limit;
    int32_t *items = realloc(list->items, (list->count + count + 1) * sizeof *items);
    if (items) {
        memcpy(items + list->count, more->items, count * sizeof *items);
        list->items = items;
        list->count += count;
    }
    free(more->items);
    return items || lab_fail_memory(&w->error);
}

/* Whether a text has the requested number of tokens, or may be shorter. */
static bool is_long_enough(worker *w, const prompt *asked, size_t count) {
    if (count >= asked->token_limit)
        return true;
    if (count == 0)
        return lab_fail(&w->error, LAB_INPUT, "the text is empty");
    w->whole = count;
    return w->request->may_shrink ||
           lab_fail(&w->error, LAB_INPUT, "the text has only %zu tokens, not %llu", count,
                    (unsigned long long)asked->token_limit);
}

/* The beginning of a text, between the template's parts before and after a message. */
static bool cut_text(worker *w, const prompt *asked, token_list *list) {
    char *around = NULL, *after = NULL;
    token_list text = {0}, end = {0};
    if (w->request->is_chat) {
        around = runner_chat(w->runner, "\x01", &w->error);
        after = around ? strchr(around, '\x01') : NULL;
        if (!after) {
            free(around);
            return lab_fail(&w->error, LAB_INPUT, "the chat template drops the message");
        }
        *after++ = '\0';
    }
    bool is_made =
        make_tokens(w, around ? around : "", true, true, list) &&
        make_tokens(w, asked->text, false, false, &text) && is_long_enough(w, asked, text.count) &&
        append(w, list, &text, (size_t)asked->token_limit) &&
        (!after || (make_tokens(w, after, false, true, &end) && append(w, list, &end, SIZE_MAX)));
    free(around);
    return is_made;
}

/* Adds `count` tokens of a haystack from one of them on, starting again at its end. */
static bool append_hay(worker *w, token_list *list, const token_list *hay, size_t from,
                       size_t count) {
    int32_t *items = realloc(list->items, (list->count + count + 1) * sizeof *items);
    if (!items)
        return lab_fail_memory(&w->error);
    list->items = items;
    for (size_t i = 0; i < count; i++)
        items[list->count++] = hay->items[(from + i) % hay->count];
    return true;
}

static bool append_text(worker *w, token_list *list, const char *text) {
    token_list more = {0};
    return make_tokens(w, text, false, false, &more) && append(w, list, &more, SIZE_MAX);
}

/* Haystack, lead, answer, haystack, lead. */
static bool hide_needle(worker *w, const prompt *asked, token_list *list) {
    needle_place *place = &w->needles[asked - w->prompts->items];
    token_list hay = {0};
    if (!make_tokens(w, "", true, true, list) || !make_tokens(w, asked->text, false, false, &hay))
        return false;
    size_t before = (size_t)(asked->depth * (double)asked->token_limit);
    bool is_made = hay.count > 0 || lab_fail(&w->error, LAB_INPUT, "the text is empty");
    is_made = is_made && append_hay(w, list, &hay, 0, before) && append_text(w, list, asked->lead);
    place->first = list->count;
    is_made = is_made && append_text(w, list, asked->answer);
    place->count = list->count - place->first;
    is_made = is_made && append_text(w, list, ".\n") &&
              append_hay(w, list, &hay, before, (size_t)asked->token_limit - before) &&
              append_text(w, list, asked->lead);
    free(hay.items);
    return is_made;
}

static bool tokens_of(worker *w, const prompt *asked, token_list *list) {
    if (asked->lead[0])
        return hide_needle(w, asked, list);
    if (asked->token_limit > 0)
        return cut_text(w, asked, list);
    if (!w->request->is_chat)
        return make_tokens(w, asked->text, true, false, list);
    char *chat = runner_chat(w->runner, asked->text, &w->error);
    bool is_made = chat && make_tokens(w, chat, true, true, list);
    free(chat);
    return is_made;
}

static uint64_t context_limit(const worker *w) {
    uint64_t trained = runner_trained_context(w->runner);
    return w->request->context ? w->request->context : trained;
}

static bool fail_too_long(worker *w, const prompt *asked, size_t tokens) {
    return lab_fail(&w->error, LAB_INPUT,
                    "a prompt of size %llu has %zu tokens, which with %llu for the answer exceed "
                    "the context of %llu; use smaller --sizes or a larger --context",
                    (unsigned long long)w->request->sizes[asked->size], tokens,
                    (unsigned long long)w->request->answer_tokens,
                    (unsigned long long)context_limit(w));
}

/* The last prompt is all of the text, unless that does not fit or the one before was it. */
static bool end_with_whole_text(worker *w, const prompt *asked, size_t tokens) {
    bool is_first = asked->size == 0;
    bool fits = tokens + w->request->answer_tokens <= context_limit(w);
    if (is_first && !fits)
        return fail_too_long(w, asked, tokens);
    bool is_new = is_first || w->whole > w->request->sizes[asked->size - 1];
    w->sizes = asked->size + (is_new && fits);
    w->whole = fits ? w->whole : 0;
    return true;
}

/* A prompt and its answer must fit. Sizes that do not are left out, except for the first. */
static bool fit_prompts(worker *w) {
    uint64_t limit = context_limit(w);
    w->sizes = w->request->size_count;
    for (size_t i = 0; i < w->prompts->count; i++) {
        const prompt *asked = &w->prompts->items[i];
        if (asked->size >= w->sizes)
            break;
        if (!tokens_of(w, asked, &w->prompt_tokens[i]))
            return false;
        uint64_t needed = w->prompt_tokens[i].count + w->request->answer_tokens;
        if (w->whole)
            return end_with_whole_text(w, asked, w->prompt_tokens[i].count);
        if (needed <= limit)
            continue;
        if (!w->request->may_shrink || asked->size == 0)
            return fail_too_long(w, asked, w->prompt_tokens[i].count);
        w->sizes = asked->size;
    }
    return true;
}

/* ---- running ---- */

/* The model's greedy answer, up to the end of a line. */
static bool answer(worker *w, size_t after, char text[ANSWER_SIZE]) {
    size_t length = 0, vocabulary = runner_vocabulary(w->runner);
    text[0] = '\0';
    for (uint64_t i = 0; i < w->request->answer_tokens; i++) {
        char piece[RUNNER_PIECE_SIZE];
        const float *logits = runner_logits(w->runner, after);
        if (!logits)
            return lab_fail(&w->error, LAB_SYSTEM, "llama.cpp gave no logits");
        int32_t token = runner_likeliest(logits, vocabulary);
        size_t size = runner_piece(w->runner, token, piece);
        if (runner_is_end(w->runner, token) || length + size + 1 > ANSWER_SIZE)
            break;
        memcpy(text + length, piece, size + 1);
        length += size;
        bool has_ended = strchr(piece, '\n') && strspn(text, " \n") < length;
        if (has_ended || i + 1 == w->request->answer_tokens)
            break;
        if (!runner_feed(w->runner, &token, 1, 0, &w->error))
            return false;
        after = 0;
    }
    return true;
}

/* The needle's answer, written for the model: which evaluation predicts each token, where the token
 * is in the needle, and whether the model would have chosen it. NULL and an error if that fails. */
static json_t *retrieve(worker *w, size_t index) {
    const token_list *tokens = &w->prompt_tokens[index];
    const needle_place *place = &w->needles[index];
    size_t after = tokens->count - 1, vocabulary = runner_vocabulary(w->runner);
    json_t *steps = json_array();
    for (size_t i = 0; i < place->count; i++, after = 0) {
        const float *logits = runner_logits(w->runner, after);
        int32_t token = tokens->items[place->first + i];
        if (!logits) {
            lab_fail(&w->error, LAB_SYSTEM, "llama.cpp gave no logits");
            json_decref(steps);
            return NULL;
        }
        json_array_append_new(steps,
                              json_pack("[I, I, b]", (json_int_t)runner_evaluations(w->runner) - 1,
                                        (json_int_t)place->first + (json_int_t)i,
                                        runner_likeliest(logits, vocabulary) == token));
        if (i + 1 < place->count && !runner_feed(w->runner, &token, 1, 0, &w->error)) {
            json_decref(steps);
            return NULL;
        }
    }
    return steps;
}

/* Adds the text of a prompt's tokens to its report, for readers of the largest weights. */
static json_t *with_pieces(worker *w, size_t index, json_t *report) {
    const token_list *tokens = &w->prompt_tokens[index];
    if (w->request->keys == 0 || w->prompts->items[index].sequence != 0)
        return report;
    json_t *pieces = json_array();
    for (size_t i = 0; i < tokens->count; i++) {
        char piece[RUNNER_PIECE_SIZE];
        runner_piece(w->runner, tokens->items[i], piece);
        json_array_append_new(pieces, lab_json_text(piece));
    }
    json_object_set_new(report, "pieces", pieces);
    return report;
}

static bool run_prompt(worker *w, size_t index) {
    const token_list *tokens = &w->prompt_tokens[index];
    char text[ANSWER_SIZE];
    uint64_t first = runner_evaluations(w->runner);
    runner_forget(w->runner);
    if (!runner_feed(w->runner, tokens->items, tokens->count, tokens->count - 1, &w->error))
        return false;
    uint64_t count = runner_evaluations(w->runner) - first;
    if (w->needles[index].count > 0) {
        json_t *steps = retrieve(w, index);
        return steps &&
               send(w, with_pieces(w, index,
                                   json_pack("{s:I, s:I, s:I, s:I, s:o}", "prompt",
                                             (json_int_t)index, "tokens", (json_int_t)tokens->count,
                                             "first", (json_int_t)first, "count", (json_int_t)count,
                                             "steps", steps)));
    }
    return answer(w, tokens->count - 1, text) &&
           send(w, with_pieces(w, index,
                               json_pack("{s:I, s:I, s:I, s:I, s:o}", "prompt", (json_int_t)index,
                                         "tokens", (json_int_t)tokens->count, "first",
                                         (json_int_t)first, "count", (json_int_t)count, "answer",
                                         lab_json_text(text))));
}

/*
 * Perplexity over windows that do not overlap, scored on their second halves, each starting with
 * the begin token if the model has one: as llama-perplexity does.
 */
static bool judge(worker *w) {
    const token_list *text = &w->judged;
    size_t window = text->count < JUDGED_WINDOW ? text->count : JUDGED_WINDOW, judged = 0;
    size_t context = (size_t)context_limit(w), vocabulary = runner_vocabulary(w->runner);
    double total = 0;
    window = window < context ? window : context;
    for (size_t at = 0; window >= PROBE_JUDGED_MIN && at + window <= text->count; at += window) {
        int32_t kept = text->items[at];
        if (runner_adds_start(w->runner))
            text->items[at] = text->items[0];
        runner_forget(w->runner);
        bool is_fed = runner_feed(w->runner, text->items + at, window, window / 2, &w->error);
        text->items[at] = kept;
        if (!is_fed || !send(w, json_pack("{s:I}", "fed", (json_int_t)window)))
            return false;
        for (size_t i = window / 2; i + 1 < window; i++, judged++) {
            const float *logits = runner_logits(w->runner, i);
            if (!logits)
                return lab_fail(&w->error, LAB_SYSTEM, "llama.cpp gave no logits");
            total += runner_surprise(logits, vocabulary, text->items[at + i + 1]);
        }
    }
    if (judged == 0)
        return lab_fail(&w->error, LAB_INPUT, "--perplexity: the text is too short");
    return send(w, json_pack("{s:I, s:o}", "judged", (json_int_t)judged, "perplexity",
                             lab_json_number(exp(total / (double)judged))));
}

static bool make_judged(worker *w) {
    if (!w->request->judged)
        return true;
    if (!make_tokens(w, w->request->judged, true, false, &w->judged))
        return false;
    if (w->request->judged_tokens_max && w->judged.count > w->request->judged_tokens_max)
        w->judged.count = (size_t)w->request->judged_tokens_max;
    return true;
}

static bool start(worker *w) {
    uint64_t longest = w->judged.count < JUDGED_WINDOW ? w->judged.count : JUDGED_WINDOW;
    uint64_t total = w->judged.count, limit = context_limit(w);
    longest = longest < limit ? longest : limit;
    for (size_t i = 0; i < w->prompts->count && w->prompts->items[i].size < w->sizes; i++) {
        uint64_t needed = w->prompt_tokens[i].count + w->request->answer_tokens;
        longest = needed > longest ? needed : longest;
        total += w->prompt_tokens[i].count;
    }
    const libllama_context_options options = {
        .context = (uint32_t)longest + 8, .batch = BATCH, .threads = w->request->threads};
    return send(w, json_pack("{s:s, s:I, s:I, s:I}", "version", runner_version(w->runner), "sizes",
                             (json_int_t)w->sizes, "tokens", (json_int_t)total, "whole",
                             (json_int_t)w->whole)) &&
           runner_start(w->runner, &options, &w->error);
}

static bool work(worker *w) {
    if (!fit_prompts(w) || !make_judged(w) || !start(w))
        return false;
    for (size_t i = 0; i < w->prompts->count && w->prompts->items[i].size < w->sizes; i++)
        if (!run_prompt(w, i))
            return false;
    return (!w->request->judged || judge(w)) &&
           send(w, json_pack("{s:I}", "evaluations", (json_int_t)runner_evaluations(w->runner)));
}

int probe_work(const probe_request *request, const prompt_list *prompts, const char *library,
               const char *plugin, FILE *out) {
    worker w = {.request = request, .prompts = prompts, .out = out};
    w.prompt_tokens = calloc(prompts->count + 1, sizeof *w.prompt_tokens);
    w.needles = calloc(prompts->count + 1, sizeof *w.needles);
    if (!w.prompt_tokens || !w.needles)
        lab_fail_memory(&w.error);
    else
        w.runner = runner_open(library, plugin, request->model.path, &w.error);
    bool is_done = w.runner && work(&w);
    if (!is_done)
        llama_process_complain(out, &w.error);
    for (size_t i = 0; w.prompt_tokens && i < prompts->count; i++)
        free(w.prompt_tokens[i].items);
    free(w.prompt_tokens);
    free(w.needles);
    free(w.judged.items);
    runner_close(w.runner);
    return is_done ? 0 : 1;
}
