/*
 * Probing a model: a process for each policy runs it (probe_worker), the plug-in
 * writes what each head did into a file, and both are put together here. Rows of
 * that file are told apart by the number of the evaluation that they come from,
 * which the process says of each prompt.
 */
#define _POSIX_C_SOURCE 200809L

#include "model/probe.h"
#include "model/probe_worker.h"
#include "model/runner.h"

#include "base/files.h"
#include "base/progress.h"
#include "base/signals.h"
#include "gguf/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_SIZE = 1 << 16, WAIT_MILLISECONDS = 200, USUAL_ROWS = 32, COLUMNS = 10 };

const char *const probe_measure_names[PROBE_MEASURES] = {
    "entropy",      "entropy_after",      "beta",         "largest_weight", "spread",
    "mean_entropy", "mean_entropy_after", "widest_spread"};

/* Where a prompt's rows are in the plug-in's file. */
typedef struct prompt_place {
    uint64_t first, count; /* evaluations */
    uint64_t tokens;
} prompt_place;

/* A probe under way. */
typedef struct probe {
    const probe_request *request;
    probe_result *result;
    prompt_list prompts;
    char library[RUNNER_PATH_SIZE], plugin[RUNNER_PATH_SIZE];
    char *folder; /* for files that nobody is to see */
    char *rows_path, *log_path;
    prompt_place *places; /* [prompts.count], of the policy under way */
    uint64_t evaluations;
    size_t policy;
    bool has_ended;      /* the process has said that it is done */
    lab_error complaint; /* or why it is not */
    uint64_t tokens_done, tokens_total;
    lab_progress progress;
    lab_error *error;
} probe;

/* ---- the process ---- */

/* Settings of the plug-in: those asked for, and none that happen to be in the environment. */
static bool set_environment(const probe *p) {
    const probe_request *request = p->request;
    char every[32];
    if (request->every)
        snprintf(every, sizeof every, "%llu", (unsigned long long)request->every);
    else
        snprintf(every, sizeof every, "~%d", USUAL_ROWS);
    static const char *const unset[] = {"WHET_CONFIG",      "WHET_STRENGTH", "WHET_LAYERS",
                                        "WHET_HEADS",       "WHET_VERBOSE",  "WHET_MODE",
                                        "GGML_BACKEND_PATH"};
    for (size_t i = 0; i < sizeof unset / sizeof unset[0]; i++)
        unsetenv(unset[i]);
    /* Where ggml fails it would let a debugger print the stack over its reason. */
    return setenv("GGML_NO_BACKTRACE", "1", 1) == 0 &&
           setenv("WHET_POLICY", request->policies[p->policy], 1) == 0 &&
           setenv("WHET_STATS", p->rows_path, 1) == 0 && setenv("WHET_STATS_ROWS", every, 1) == 0 &&
           (!request->layers || setenv("WHET_LAYERS", request->layers, 1) == 0) &&
           (!request->heads || setenv("WHET_HEADS", request->heads, 1) == 0);
}

/* What the child does after fork. It keeps nothing open but its pipe, and speaks to a log. */
_Noreturn static void be_worker(const probe *p, int out) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    int log = open(p->log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int null = open("/dev/null", O_RDWR);
    if (log < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(log, 2) < 0 ||
        !set_environment(p))
        _exit(1);
    FILE *file = fdopen(out, "w");
    if (!file)
        _exit(1);
    int status = probe_work(p->request, &p->prompts, p->library, p->plugin, file);
    exit(status); /* and not _exit: what the plug-in still holds is to be written */
}

enum { WORDS_SIZE = 256 };

/* The last line of what the process said, which tells more than its end; or the first of those that
 * come from the plug-in, where there is one. */
static void last_words(const char *path, char text[WORDS_SIZE]) {
    char line[WORDS_SIZE];
    FILE *file = fopen(path, "r");
    text[0] = '\0';
    while (file && fgets(line, sizeof line, file) && strncmp(text, "whet: ", 6) != 0) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0])
            snprintf(text, WORDS_SIZE, "%s", line);
    }
    if (file)
        fclose(file);
}

static bool take_plan(probe *p, const json_t *line) {
    const char *version = json_string_value(json_object_get(line, "version"));
    p->result->sizes = (size_t)json_integer_value(json_object_get(line, "sizes"));
    p->tokens_total = (uint64_t)json_integer_value(json_object_get(line, "tokens"));
    snprintf(p->result->version, sizeof p->result->version, "%s", version ? version : "");
    p->progress.total = p->tokens_total * p->request->policy_count;
    p->progress.quiet = p->request->quiet;
    return true;
}

static bool take_prompt(probe *p, const json_t *line) {
    size_t index = (size_t)json_integer_value(json_object_get(line, "prompt"));
    const char *answer = json_string_value(json_object_get(line, "answer"));
    if (index >= p->prompts.count)
        return lab_fail(p->error, LAB_SYSTEM, "the probe's process tells of a prompt too many");
    const prompt *asked = &p->prompts.items[index];
    prompt_place *place = &p->places[index];
    place->first = (uint64_t)json_integer_value(json_object_get(line, "first"));
    place->count = (uint64_t)json_integer_value(json_object_get(line, "count"));
    place->tokens = (uint64_t)json_integer_value(json_object_get(line, "tokens"));
    if (asked->maximum[0]) {
        probe_score *score = &p->result->score[p->policy][asked->size];
        score->asked++;
        score->right += answer && answer_has_number(answer, asked->maximum);
    }
    p->tokens_done += place->tokens;
    return true;
}

/* One line of what the process tells. */
static bool take_line(probe *p, const json_t *line) {
    const char *complaint = json_string_value(json_object_get(line, "error"));
    if (complaint) {
        /* It may be a consequence of what the plug-in has to say. */
        p->complaint.kind = (lab_error_kind)json_integer_value(json_object_get(line, "kind"));
        snprintf(p->complaint.text, sizeof p->complaint.text, "%s", complaint);
        return false;
    }
    if (json_object_get(line, "version"))
        return take_plan(p, line);
    if (json_object_get(line, "prompt"))
        return take_prompt(p, line);
    if (json_object_get(line, "perplexity")) {
        p->result->judged_tokens = (uint64_t)json_integer_value(json_object_get(line, "judged"));
        p->result->perplexity[p->policy] = json_number_value(json_object_get(line, "perplexity"));
    }
    if (json_object_get(line, "evaluations")) {
        p->evaluations = (uint64_t)json_integer_value(json_object_get(line, "evaluations"));
        p->has_ended = true;
    }
    p->tokens_done += (uint64_t)json_integer_value(json_object_get(line, "fed"));
    return true;
}

/* Takes the whole lines at the beginning of a text, and moves what is left to its front. */
static bool take_lines(probe *p, char *text, size_t *used) {
    char *at = text, *end;
    bool is_good = true;
    while (is_good && (end = memchr(at, '\n', (size_t)(text + *used - at))) != NULL) {
        json_t *json = json_loadb(at, (size_t)(end - at), 0, NULL);
        is_good = json ? take_line(p, json) : lab_fail_memory(p->error);
        json_decref(json);
        at = end + 1;
    }
    *used = (size_t)(text + *used - at);
    memmove(text, at, *used);
    return is_good;
}

/* Listens until the process ends or the user does not want any more. */
static bool listen_to(probe *p, int in) {
    char *text = malloc(LINE_SIZE);
    size_t used = 0;
    bool is_good = true;
    if (!text)
        return lab_fail_memory(p->error);
    while (is_good) {
        struct pollfd wait = {.fd = in, .events = POLLIN};
        if (lab_interrupted()) {
            is_good = lab_fail(p->error, LAB_STOPPED, "stopped");
            break;
        }
        if (poll(&wait, 1, WAIT_MILLISECONDS) <= 0)
            continue;
        ssize_t got = read(in, text + used, LINE_SIZE - used);
        if (got == 0)
            break;
        used += got > 0 ? (size_t)got : 0;
        is_good = take_lines(p, text, &used) &&
                  (used < LINE_SIZE || lab_fail(p->error, LAB_SYSTEM, "a line without an end"));
        lab_progress_show(&p->progress, p->tokens_done, "policy %s",
                          p->request->policies[p->policy]);
    }
    free(text);
    return is_good;
}

static bool end_of_process(probe *p, pid_t child, bool is_good) {
    int status = 0;
    char words[WORDS_SIZE];
    if (!is_good && p->complaint.kind == LAB_NO_ERROR)
        kill(child, SIGTERM);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return lab_fail(p->error, LAB_SYSTEM, "lost the probe's process: %s", strerror(errno));
    last_words(p->log_path, words);
    if (p->complaint.kind == LAB_SYSTEM && strncmp(words, "whet: ", 6) == 0)
        return lab_fail(p->error, LAB_SYSTEM, "%.200s (%s)", p->complaint.text, words + 6);
    if (p->complaint.kind != LAB_NO_ERROR)
        return lab_fail(p->error, p->complaint.kind, "%s", p->complaint.text);
    /* Once it has said so, everything is written: how it takes its leave is llama.cpp's affair. */
    if (!is_good || p->has_ended)
        return is_good;
    if (WIFSIGNALED(status))
        return lab_fail(p->error, LAB_SYSTEM, "llama.cpp was ended by signal %d: %s",
                        WTERMSIG(status), words);
    return lab_fail(p->error, LAB_SYSTEM, "llama.cpp ended without a result: %s", words);
}

static bool run_process(probe *p) {
    int ends[2];
    p->has_ended = false;
    if (pipe(ends) != 0)
        return lab_fail(p->error, LAB_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    fflush(NULL); /* or the child would write it once more */
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        be_worker(p, ends[1]);
    }
    close(ends[1]);
    bool is_good =
        child > 0 || lab_fail(p->error, LAB_SYSTEM, "cannot start a process: %s", strerror(errno));
    if (is_good)
        is_good = end_of_process(p, child, listen_to(p, ends[0]));
    close(ends[0]);
    return is_good;
}

/* ---- what the plug-in wrote ---- */

/* A row of it. */
typedef struct recorded_row {
    uint64_t evaluation, layer, head, position;
    double entropy, entropy_after, beta, largest_weight, spread;
} recorded_row;

static bool parse_row(const char *line, recorded_row *row) {
    double numbers[COLUMNS];
    char *end;
    for (int i = 0; i < COLUMNS; i++) {
        numbers[i] = strtod(line, &end);
        if (end == line || (*end != ',' && *end != '\n'))
            return false;
        line = end + 1;
    }
    for (int i = 0; i < 4; i++)
        if (!(numbers[i] >= 0 && numbers[i] < 1e15))
            return false;
    *row = (recorded_row){.evaluation = (uint64_t)numbers[0],
                          .layer = (uint64_t)numbers[1],
                          .head = (uint64_t)numbers[2],
                          .position = (uint64_t)numbers[3],
                          .entropy = numbers[5],
                          .entropy_after = numbers[6],
                          .beta = numbers[7],
                          .largest_weight = numbers[8],
                          .spread = numbers[9]};
    return true;
}

/* Calls `take` with each row of the file. */
static bool each_row(probe *p, bool (*take)(probe *p, const recorded_row *row, void *context),
                     void *context) {
    char line[512];
    recorded_row row;
    FILE *file = fopen(p->rows_path, "r");
    bool is_good = file && fgets(line, sizeof line, file);
    if (is_good && strncmp(line, "evaluation,layer,head,position,keys,entropy,", 44) != 0)
        is_good = lab_fail(p->error, LAB_INPUT, "the plug-in records in a way that is not known");
    else if (!is_good)
        lab_fail(p->error, LAB_SYSTEM, "the plug-in has recorded nothing");
    while (is_good && fgets(line, sizeof line, file))
        is_good =
            parse_row(line, &row)
                ? take(p, &row, context)
                : lab_fail(p->error, LAB_SYSTEM, "the plug-in's record is not whole: %.60s", line);
    if (file)
        fclose(file);
    return is_good;
}

/* How many layers, heads and evaluations there are. */
typedef struct extent {
    size_t layers, heads;
    uint64_t evaluations;
} extent;

static bool widen(probe *p, const recorded_row *row, void *context) {
    extent *all = context;
    if (row->layer >= 65536 || row->head >= 65536)
        return lab_fail(p->error, LAB_SYSTEM, "the plug-in's record makes no sense");
    all->layers = row->layer + 1 > all->layers ? (size_t)row->layer + 1 : all->layers;
    all->heads = row->head + 1 > all->heads ? (size_t)row->head + 1 : all->heads;
    all->evaluations =
        row->evaluation + 1 > all->evaluations ? row->evaluation + 1 : all->evaluations;
    return true;
}

/* Rows of one head on one prompt. */
typedef struct head_rows {
    recorded_row last;
    double entropies, entropies_after, widest;
    double positions; /* that the rows stand for */
    uint64_t count;
} head_rows;

typedef struct gathering {
    size_t *prompt_of; /* [evaluations]; SIZE_MAX: of none */
    head_rows *heads;  /* [prompts][layers][heads] */
} gathering;

static bool gather_row(probe *p, const recorded_row *row, void *context) {
    gathering *all = context;
    size_t index = row->evaluation < p->evaluations ? all->prompt_of[row->evaluation] : SIZE_MAX;
    if (index == SIZE_MAX)
        return true;
    if (row->layer >= p->result->layers || row->head >= p->result->heads)
        return lab_fail(p->error, LAB_SYSTEM, "policies see different heads");
    size_t place = (index * p->result->layers + (size_t)row->layer) * p->result->heads;
    head_rows *head = &all->heads[place + (size_t)row->head];
    /* A row stands for the positions since the one before: short evaluations have more of them. */
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

static float *values_of(const probe_result *r, size_t policy, size_t size, size_t sequence,
                        size_t layer, size_t head) {
    size_t place = ((policy * r->sizes + size) * r->sequences + sequence) * r->layers;
    return r->values + ((place + layer) * r->heads + head) * PROBE_MEASURES;
}

static void keep_head(const head_rows *rows, float *values) {
    double measures[PROBE_MEASURES] = {
        [PROBE_ENTROPY] = rows->last.entropy,
        [PROBE_ENTROPY_AFTER] = rows->last.entropy_after,
        [PROBE_BETA] = rows->last.beta,
        [PROBE_LARGEST_WEIGHT] = rows->last.largest_weight,
        [PROBE_SPREAD] = rows->last.spread,
        [PROBE_MEAN_ENTROPY] = rows->entropies / rows->positions,
        [PROBE_MEAN_ENTROPY_AFTER] = rows->entropies_after / rows->positions,
        [PROBE_WIDEST_SPREAD] = rows->widest,
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
                          values_of(r, p->policy, asked->size, asked->sequence, layer, head));
    }
}

/* Room for the results, once it is known how many heads there are. */
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

static bool gather(probe *p) {
    extent all = {0};
    probe_result *r = p->result;
    if (!each_row(p, widen, &all))
        return false;
    if (all.evaluations != p->evaluations)
        return lab_fail(p->error, LAB_SYSTEM,
                        "the plug-in saw %llu evaluations of %llu: it may not have been where "
                        "attention is computed",
                        (unsigned long long)all.evaluations, (unsigned long long)p->evaluations);
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
        is_good = each_row(p, gather_row, &rows);
        if (is_good)
            keep_heads(p, &rows);
    } else {
        lab_fail_memory(p->error);
    }
    free(rows.prompt_of);
    free(rows.heads);
    return is_good;
}

static void mean_tokens(probe *p) {
    uint64_t counts[PROBE_SIZES_MAX] = {0};
    for (size_t i = 0; i < p->prompts.count; i++) {
        size_t size = p->prompts.items[i].size;
        p->result->tokens[size] += (double)p->places[i].tokens;
        counts[size]++;
    }
    for (size_t s = 0; s < p->result->sizes; s++)
        p->result->tokens[s] /= counts[s] ? (double)counts[s] : 1;
}

/* ---- the whole ---- */

static bool make_prompts(probe *p) {
    const probe_request *q = p->request;
    bool is_made = q->text ? prompts_of_text(q->sizes, q->size_count, q->text, &p->prompts)
                           : prompts_of_numbers(q->sizes, q->size_count, q->sequences, &q->format,
                                                q->seed, &p->prompts);
    p->places = is_made ? calloc(p->prompts.count + 1, sizeof *p->places) : NULL;
    return p->places || lab_fail_memory(p->error);
}

static bool make_places(probe *p) {
    const char *temporary = getenv("TMPDIR");
    p->folder = lab_path(temporary && *temporary ? temporary : "/tmp", "whet-probe.XXXXXX");
    if (!p->folder)
        return lab_fail_memory(p->error);
    if (!mkdtemp(p->folder)) {
        lab_fail_file(p->error, "make the folder", p->folder);
        free(p->folder);
        p->folder = NULL;
        return false;
    }
    p->rows_path = lab_path(p->folder, "rows.csv");
    p->log_path = lab_path(p->folder, "log");
    return (p->rows_path && p->log_path) || lab_fail_memory(p->error);
}

static void remove_places(probe *p) {
    if (p->rows_path)
        unlink(p->rows_path);
    if (p->log_path)
        unlink(p->log_path);
    if (p->folder)
        rmdir(p->folder);
    free(p->folder);
    free(p->rows_path);
    free(p->log_path);
    free(p->places);
    prompts_free(&p->prompts);
}

/* A file that is no model is better told of by our own reader than by llama.cpp. */
static bool check_model(const char *path, lab_error *error) {
    gguf_file *file = gguf_open(path, error);
    gguf_close(file);
    return file != NULL;
}

/* A number of the model's, such as "llama.block_count". */
static bool model_number(const char *path, const char *what, uint32_t *number, lab_error *error) {
    gguf_text architecture;
    char key[128];
    gguf_file *file = gguf_open(path, error);
    bool is_known = file && gguf_get_text(file, "general.architecture", &architecture, error);
    if (is_known) {
        snprintf(key, sizeof key, "%.*s.%s",
                 (int)(architecture.length < 64 ? architecture.length : 64), architecture.bytes,
                 what);
        is_known = gguf_get_u32(file, key, number, error);
    }
    gguf_close(file);
    return is_known;
}

bool probe_layers(const char *path, uint32_t *layers, lab_error *error) {
    return model_number(path, "block_count", layers, error);
}

bool probe_heads(const char *path, uint32_t *heads, lab_error *error) {
    return model_number(path, "attention.head_count", heads, error);
}

/* Sizes that cannot fit, since each number takes a token at least, are not even made into prompts;
 * the process that runs the model counts what is left. */
static bool check_sizes(probe_request *q, lab_error *error) {
    lab_error unknown = {.kind = LAB_NO_ERROR};
    uint32_t trained = 0;
    uint64_t limit = q->context;
    if (q->text) /* whose length is told first */
        return true;
    if (!limit && model_number(q->model, "context_length", &trained, &unknown))
        limit = trained;
    for (size_t i = 0; limit && i < q->size_count; i++) {
        if (q->sizes[i] <= limit)
            continue;
        if (!q->may_shrink || i == 0)
            return lab_fail(error, LAB_INPUT,
                            "the %llu numbers of a prompt alone are more than the context of %llu; "
                            "smaller --sizes, or --context",
                            (unsigned long long)q->sizes[i], (unsigned long long)limit);
        q->size_count = i;
    }
    return true;
}

static bool run_policies(probe *p) {
    const probe_request *q = p->request;
    bool is_good = true;
    p->progress = lab_progress_begin("probe", 0, 0, true);
    for (p->policy = 0; is_good && p->policy < q->policy_count; p->policy++) {
        memset(p->places, 0, p->prompts.count * sizeof *p->places);
        is_good = run_process(p) && gather(p);
        if (is_good && p->policy == 0)
            mean_tokens(p);
    }
    lab_progress_end(&p->progress);
    return is_good;
}

bool probe_run(const probe_request *request, probe_result *result, lab_error *error) {
    probe_request fitting = *request;
    probe p = {.request = &fitting, .result = result, .error = error};
    *result = (probe_result){.policies = request->policy_count,
                             .sizes = request->size_count,
                             .sequences = request->text ? 1 : request->sequences};
    memcpy(result->size, request->sizes, request->size_count * sizeof *result->size);
    for (size_t i = 0; i < PROBE_POLICIES_MAX; i++)
        result->perplexity[i] = (double)NAN;
    bool is_good = check_model(request->model, error) && check_sizes(&fitting, error) &&
                   runner_find_library(request->library, p.library, error) &&
                   runner_find_plugin(request->plugin, p.plugin, error) && make_prompts(&p) &&
                   make_places(&p) && run_policies(&p);
    snprintf(result->library, sizeof result->library, "%.500s", p.library);
    remove_places(&p);
    if (!is_good)
        probe_free(result);
    return is_good;
}

void probe_free(probe_result *result) {
    free(result->values);
    result->values = NULL;
}

double probe_mean(const probe_result *result, size_t policy, size_t size, size_t layer, size_t head,
                  probe_measure measure) {
    double sum = 0, largest = 0;
    for (size_t i = 0; i < result->sequences; i++) {
        double value = (double)values_of(result, policy, size, i, layer, head)[measure];
        sum += value;
        largest = fmax(largest, value);
    }
    return measure == PROBE_WIDEST_SPREAD && !isnan(sum) ? largest
                                                         : sum / (double)result->sequences;
}

double probe_ceiling(const probe_result *result, size_t size) { return log(result->tokens[size]); }
