/* llama.cpp in a process of its own; see llama_process.h. */
#define _POSIX_C_SOURCE 200809L

#include "model/llama_process.h"

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
#if defined(__linux__)
#include <sys/prctl.h>
#endif

enum { LINE_SIZE = 1 << 16, WAIT_MILLISECONDS = 200 };

/* ---- in the process ---- */

bool llama_process_send(FILE *out, json_t *line, lab_error *error) {
    return lab_json_log(out, line) ||
           lab_fail(error, LAB_SYSTEM, "llama.cpp's process lost its parent");
}

void llama_process_complain(FILE *out, const lab_error *error) {
    lab_error unimportant = {.kind = LAB_NO_ERROR};
    llama_process_send(
        out, json_pack("{s:o, s:i}", "error", lab_json_text(error->text), "kind", error->kind),
        &unimportant);
}

/* Settings of the plug-in: those requested, and none from the environment. */
static bool set_environment(const llama_process *p) {
    environment_clear();
    unsetenv("GGML_BACKEND_PATH");
    /* When ggml fails it would let a debugger print a stack trace over its message. */
    return setenv("GGML_NO_BACKTRACE", "1", 1) == 0 && p->set_environment(p->owner);
}

/* The child after fork. It keeps nothing open but its pipe, and prints to a log. */
_Noreturn static void be_worker(const llama_process *p, int out, pid_t parent) {
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent)
        _exit(1);
    if (p->folder) {
        lab_folder_lock lock = p->folder->lock;
        lab_folder_release(&lock);
    }
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
    int status = p->work(p->owner, file);
    exit(status); /* not _exit: the plug-in still has to write its buffers */
}

/* ---- in the parent ---- */

void llama_process_last_words(const char *log_path, char text[LLAMA_WORDS_SIZE]) {
    char line[LLAMA_WORDS_SIZE];
    FILE *file = fopen(log_path, "r");
    text[0] = '\0';
    while (file && fgets(line, sizeof line, file) && strncmp(text, "whet: ", 6) != 0) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] && !strstr(line, " attention operations handled")) /* which explains nothing */
            snprintf(text, LLAMA_WORDS_SIZE, "%s", line);
    }
    if (file)
        fclose(file);
}

/* One line from the process. */
static bool take_line(llama_process *p, const json_t *line, lab_error *error) {
    const char *complaint = json_string_value(json_object_get(line, "error"));
    if (!complaint)
        return p->take(p, line, error);
    /* It may be a consequence of an error of the plug-in. */
    p->complaint.kind = (lab_error_kind)json_integer_value(json_object_get(line, "kind"));
    snprintf(p->complaint.text, sizeof p->complaint.text, "%s", complaint);
    return false;
}

/* Handles the complete lines at the start of a text, and moves the rest to its front. */
static bool take_lines(llama_process *p, char *text, size_t *used, lab_error *error) {
    char *at = text, *end;
    bool is_good = true;
    while (is_good && (end = memchr(at, '\n', (size_t)(text + *used - at))) != NULL) {
        json_t *json = json_loadb(at, (size_t)(end - at), 0, NULL);
        is_good = json ? take_line(p, json, error) : lab_fail_memory(error);
        json_decref(json);
        at = end + 1;
    }
    *used = (size_t)(text + *used - at);
    memmove(text, at, *used);
    return is_good;
}

/* Reads until the process ends or the user interrupts. */
static bool listen_to(llama_process *p, int in, lab_error *error) {
    char *text = malloc(LINE_SIZE);
    size_t used = 0;
    bool is_good = true;
    if (!text)
        return lab_fail_memory(error);
    while (is_good) {
        struct pollfd wait = {.fd = in, .events = POLLIN};
        if (lab_interrupted()) {
            is_good = lab_fail(error, LAB_STOPPED, "stopped");
            break;
        }
        if (poll(&wait, 1, WAIT_MILLISECONDS) > 0) {
            ssize_t got = read(in, text + used, LINE_SIZE - used);
            if (got == 0)
                break;
            used += got > 0 ? (size_t)got : 0;
            is_good = take_lines(p, text, &used, error) &&
                      (used < LINE_SIZE ||
                       lab_fail(error, LAB_SYSTEM, "llama.cpp's process sent a line without end"));
        }
        is_good = is_good && p->look(p->owner, error);
    }
    free(text);
    return is_good;
}

/* The system kills processes when memory runs out, and ggml aborts when an allocation fails. */
static const char *may_want_memory(int signal_number, const char *words) {
    bool may_be = signal_number == SIGKILL || strstr(words, "mem_buffer") || strstr(words, "alloc");
    return may_be ? ", probably out of memory" : "";
}

static bool end_of_process(const llama_process *p, pid_t child, bool is_good, lab_error *error) {
    int status = 0;
    char words[LLAMA_WORDS_SIZE];
    if (!is_good && p->complaint.kind == LAB_NO_ERROR)
        kill(child, SIGTERM);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return lab_fail(error, LAB_SYSTEM, "lost llama.cpp's process: %s", strerror(errno));
    llama_process_last_words(p->log_path, words);
    if (p->complaint.kind == LAB_SYSTEM && strncmp(words, "whet: ", 6) == 0)
        return lab_fail(error, LAB_SYSTEM, "%.200s (%s)", p->complaint.text, words + 6);
    if (p->complaint.kind != LAB_NO_ERROR)
        return lab_fail(error, p->complaint.kind, "%s", p->complaint.text);
    /* Once it has reported success everything is written; how llama.cpp exits does not matter. */
    if (!is_good || p->has_ended)
        return is_good;
    if (WIFSIGNALED(status))
        return lab_fail(error, LAB_SYSTEM, "llama.cpp was ended by signal %d%s: %s",
                        WTERMSIG(status), may_want_memory(WTERMSIG(status), words), words);
    return lab_fail(error, LAB_SYSTEM, "llama.cpp ended without a result: %s", words);
}

bool llama_process_run(llama_process *p, lab_error *error) {
    int ends[2];
    p->has_ended = false;
    p->complaint = (lab_error){.kind = LAB_NO_ERROR};
    if (pipe(ends) != 0)
        return lab_fail(error, LAB_SYSTEM, "cannot create a pipe: %s", strerror(errno));
    fflush(NULL); /* or the child would write it again */
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        close(ends[0]);
        be_worker(p, ends[1], parent);
    }
    close(ends[1]);
    bool is_good =
        child > 0 || lab_fail(error, LAB_SYSTEM, "cannot start a process: %s", strerror(errno));
    if (is_good)
        is_good = end_of_process(p, child, listen_to(p, ends[0], error), error);
    close(ends[0]);
    return is_good;
}
