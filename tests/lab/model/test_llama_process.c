// The process that runs llama.cpp, with other work in its place: what it reports arrives, and
// however it ends, there is a sentence about it.
#define _POSIX_C_SOURCE 200809L

#include "model/llama_process.h"

#include "support/check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct owner {
    int (*act)(FILE *out);
    json_int_t sum;
    size_t lines;
    bool wants_end; // look() stops the process
} owner;

static bool set_environment(void *context) {
    (void)context;
    return setenv("WHET_POLICY", "softmax", 1) == 0;
}

static int work(void *context, FILE *out) { return ((owner *)context)->act(out); }

static bool take(llama_process *process, const json_t *line, lab_error *error) {
    owner *o = process->owner;
    o->lines++;
    o->sum += json_integer_value(json_object_get(line, "n"));
    process->has_ended = json_object_get(line, "end") != NULL;
    return !json_object_get(line, "bad") || lab_fail(error, LAB_INPUT, "a bad line");
}

static bool look(void *context, lab_error *error) {
    const owner *o = context;
    return !o->wants_end || lab_fail(error, LAB_STOPPED, "stopped");
}

static bool run(owner *o, lab_error *error) {
    char log[64];
    snprintf(log, sizeof log, "/tmp/whet-process-%d.log", (int)getpid());
    llama_process process = {.owner = o,
                             .log_path = log,
                             .set_environment = set_environment,
                             .work = work,
                             .take = take,
                             .look = look};
    bool is_done = llama_process_run(&process, error);
    unlink(log);
    return is_done;
}

static void check_fails(owner o, lab_error_kind kind, const char *words) {
    lab_error error = {0};
    bool is_done = run(&o, &error);
    CHECK_MSG(!is_done && error.kind == kind && strstr(error.text, words), "%s", error.text);
}

static int report_much(FILE *out) {
    lab_error error = {0};
    for (int i = 0; i < 20000; i++) {
        llama_process_send(out, json_pack("{s:i}", "n", i), &error);
    }
    // The environment has the settings of this process and no others.
    const char *policy = getenv("WHET_POLICY");
    bool is_clean = policy && strcmp(policy, "softmax") == 0 && !getenv("WHET_SOURCE_DIR") &&
                    !getenv("GGML_BACKEND_PATH");
    llama_process_send(out, json_pack("{s:b}", is_clean ? "end" : "bad", 1), &error);
    return error.kind == LAB_NO_ERROR ? 0 : 1;
}

TEST(all_reports_arrive) {
    owner o = {.act = report_much};
    lab_error error = {0};
    setenv("WHET_SOURCE_DIR", "/somewhere", 0);
    setenv("GGML_BACKEND_PATH", "/somewhere", 1);
    bool is_done = run(&o, &error);
    CHECK_MSG(is_done, "%s", error.text);
    CHECK_INT(o.lines, 20001);
    CHECK_INT(o.sum, 20000 * 19999 / 2);
}

static int end_early(FILE *out) {
    (void)out;
    fputs("what it printed last\n", stderr);
    return 0;
}

static int crash(FILE *out) {
    (void)out;
    fputs("ggml: failed to allocate a buffer\n", stderr);
    signal(SIGABRT, SIG_DFL);
    raise(SIGKILL);
    return 0;
}

static int complain(FILE *out) {
    lab_error error = {0};
    lab_fail(&error, LAB_SYSTEM, "llama.cpp could not compute 3 tokens");
    fputs("whet: WHET_CONFIG: line 3: unknown key; refusing to compute\nmore\n", stderr);
    llama_process_complain(out, &error);
    return 1;
}

static int report_bad(FILE *out) {
    lab_error error = {0};
    llama_process_send(out, json_pack("{s:b}", "bad", 1), &error);
    while (pause() != 0) { // until it is ended
    }
    return 0;
}

static int report_endless(FILE *out) {
    for (int i = 0; i < 1 << 17; i++) {
        fputc('x', out);
    }
    return 0;
}

static int wait_for_end(FILE *out) {
    (void)out;
    while (pause() != 0) {
    }
    return 0;
}

TEST(however_a_process_ends_the_reason_is_reported) {
    check_fails((owner){.act = end_early}, LAB_SYSTEM,
                "llama.cpp ended without a result: what it printed last");
    check_fails((owner){.act = crash}, LAB_SYSTEM,
                "ended by signal 9, probably out of memory: ggml: failed to allocate");
    check_fails((owner){.act = complain}, LAB_SYSTEM,
                "could not compute 3 tokens (WHET_CONFIG: line 3: unknown key; refusing");
    check_fails((owner){.act = report_bad}, LAB_INPUT, "a bad line");
    check_fails((owner){.act = report_endless}, LAB_SYSTEM, "sent a line without end");
    check_fails((owner){.act = wait_for_end, .wants_end = true}, LAB_STOPPED, "stopped");
}
