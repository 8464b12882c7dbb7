/*
 * The process that runs the model for a probe: started with the plug-in's
 * settings in its environment and read line by line; however it ends, its last
 * message is reported.
 */
#define _POSIX_C_SOURCE 200809L

#include "model/probe_parts.h"
#include "model/probe_worker.h"

#include "base/signals.h"
#include "llama/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_SIZE = 1 << 16, WAIT_MILLISECONDS = 200, USUAL_ROWS = 32 };

/* Settings of the plug-in: those requested, and none from the environment. */
static bool set_environment(const probe *p) {
    const probe_request *request = p->request;
    char every[32];
    if (request->every)
        snprintf(every, sizeof every, "%llu", (unsigned long long)request->every);
    else
        snprintf(every, sizeof every, "~%d", USUAL_ROWS);
    environment_clear();
    unsetenv("GGML_BACKEND_PATH");
    /* When ggml fails it would let a debugger print a stack trace over its message. */
    return setenv("GGML_NO_BACKTRACE", "1", 1) == 0 &&
           setenv("WHET_POLICY", request->policies[p->policy], 1) == 0 &&
           setenv("WHET_STATS", p->rows_path, 1) == 0 && setenv("WHET_STATS_ROWS", every, 1) == 0 &&
           (!request->layers || setenv("WHET_LAYERS", request->layers, 1) == 0) &&
           (!request->heads || setenv("WHET_HEADS", request->heads, 1) == 0);
}

/* The child after fork. It keeps nothing open but its pipe, and prints to a log. */
_Noreturn static void be_worker(const probe *p, int out) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (signal(SIGHUP, SIG_DFL) == SIG_IGN)
        signal(SIGHUP, SIG_IGN);
    int log = open(p->log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int null = open("/dev/null", O_RDWR);
    if (log < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(log, 2) < 0 ||
        !set_environment(p))
        _exit(1);
    FILE *file = fdopen(out, "w");
    if (!file)
        _exit(1);
    int status = probe_work(p->request, &p->prompts, p->library, p->plugin, file);
    exit(status); /* not _exit: the plug-in still has to write its buffers */
}

void probe_last_words(const probe *p, char text[PROBE_WORDS_SIZE]) {
    char line[PROBE_WORDS_SIZE];
    FILE *file = fopen(p->log_path, "r");
    text[0] = '\0';
    while (file && fgets(line, sizeof line, file) && strncmp(text, "whet: ", 6) != 0) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] && !strstr(line, " attention operations handled")) /* which explains nothing */
            snprintf(text, PROBE_WORDS_SIZE, "%s", line);
    }
    if (file)
        fclose(file);
}

static bool take_plan(probe *p, const json_t *line) {
    const char *version = json_string_value(json_object_get(line, "version"));
    p->result->sizes = (size_t)json_integer_value(json_object_get(line, "sizes"));
    p->tokens_total = (uint64_t)json_integer_value(json_object_get(line, "tokens"));
    uint64_t whole = (uint64_t)json_integer_value(json_object_get(line, "whole"));
    p->result->has_whole_text = whole > 0;
    if (whole > 0)
        p->result->size[p->result->sizes - 1] = whole;
    snprintf(p->result->version, sizeof p->result->version, "%s", version ? version : "");
    p->progress.total = p->tokens_total * p->request->policy_count;
    p->progress.quiet = p->request->quiet;
    return true;
}

static bool take_prompt(probe *p, const json_t *line) {
    size_t index = (size_t)json_integer_value(json_object_get(line, "prompt"));
    const char *answer = json_string_value(json_object_get(line, "answer"));
    if (index >= p->prompts.count)
        return lab_fail(p->error, LAB_SYSTEM,
                        "the probe's process reports more prompts than were asked for");
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

/* One line from the process. */
static bool take_line(probe *p, const json_t *line) {
    const char *complaint = json_string_value(json_object_get(line, "error"));
    if (complaint) {
        /* It may be a consequence of an error of the plug-in. */
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

/* Handles the complete lines at the start of a text, and moves the rest to its front. */
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

/* Reads until the process ends or the user interrupts. */
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
                  (used < LINE_SIZE || lab_fail(p->error, LAB_SYSTEM,
                                                "the probe's process sent a line without an end"));
        lab_progress_show(&p->progress, p->tokens_done, "policy %s",
                          p->request->policies[p->policy]);
    }
    free(text);
    return is_good;
}

/* The system kills processes when memory runs out, and ggml aborts when an allocation fails. */
static const char *may_want_memory(int signal_number, const char *words) {
    bool may_be = signal_number == SIGKILL || strstr(words, "mem_buffer") || strstr(words, "alloc");
    return may_be ? ", probably out of memory" : "";
}

static bool end_of_process(probe *p, pid_t child, bool is_good) {
    int status = 0;
    char words[PROBE_WORDS_SIZE];
    if (!is_good && p->complaint.kind == LAB_NO_ERROR)
        kill(child, SIGTERM);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return lab_fail(p->error, LAB_SYSTEM, "lost the probe's process: %s", strerror(errno));
    probe_last_words(p, words);
    if (p->complaint.kind == LAB_SYSTEM && strncmp(words, "whet: ", 6) == 0)
        return lab_fail(p->error, LAB_SYSTEM, "%.200s (%s)", p->complaint.text, words + 6);
    if (p->complaint.kind != LAB_NO_ERROR)
        return lab_fail(p->error, p->complaint.kind, "%s", p->complaint.text);
    /* Once it has reported success everything is written; how llama.cpp exits does not matter. */
    if (!is_good || p->has_ended)
        return is_good;
    if (WIFSIGNALED(status))
        return lab_fail(p->error, LAB_SYSTEM, "llama.cpp was ended by signal %d%s: %s",
                        WTERMSIG(status), may_want_memory(WTERMSIG(status), words), words);
    return lab_fail(p->error, LAB_SYSTEM, "llama.cpp ended without a result: %s", words);
}

bool probe_run_process(probe *p) {
    int ends[2];
    p->has_ended = false;
    if (pipe(ends) != 0)
        return lab_fail(p->error, LAB_SYSTEM, "cannot create a pipe: %s", strerror(errno));
    fflush(NULL); /* or the child would write it again */
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
