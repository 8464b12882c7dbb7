/*
 * Appends evaluations to a CSV file. Each is assembled in memory and written at once, so that a
 * failed write can be undone by truncating the file.
 */
#include "recording.h"
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct recording {
    pthread_mutex_t lock;
    bool has_details;
    int file; /* -1 once writing has failed */
    off_t size;
    uint64_t evaluations, lines;
    locale_t locale; /* numbers with a decimal point, whatever the host's locale */
    char *path;
    char *text;
    size_t used, capacity;
};

/*
 * A closed pipe and a file that exceeds its limit raise signals that would end the host. They are
 * blocked in this thread and consumed, unless they were blocked or pending before; the write then
 * just fails.
 */
typedef struct held_signals {
    sigset_t held, mask;
} held_signals;

static held_signals hold_signals(void) {
    static const int deadly[] = {SIGPIPE, SIGXFSZ};
    held_signals s;
    sigset_t pending;
    sigemptyset(&s.held);
    sigpending(&pending);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        if (!sigismember(&pending, deadly[i]))
            sigaddset(&s.held, deadly[i]);
    pthread_sigmask(SIG_BLOCK, &s.held, &s.mask);
    return s;
}

static void let_signals_go(const held_signals *s) {
    static const struct timespec at_once = {0, 0};
    int reason = errno;
    while (sigtimedwait(&s->held, NULL, &at_once) > 0 || errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
    errno = reason;
}

static bool write_bytes(int file, const char *text, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = write(file, text, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text += n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool write_all(int file, const char *text, size_t bytes) {
    held_signals signals = hold_signals();
    bool is_written = write_bytes(file, text, bytes);
    let_signals_go(&signals);
    return is_written;
}

recording *recording_open(const char *path, bool has_details) {
    const char *header = has_details ? record_detailed_header : record_header;
    recording *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->has_details = has_details;
    r->path = strdup(path);
    r->locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    r->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (!r->path || !r->locale || r->file < 0 || !write_all(r->file, header, strlen(header))) {
        int reason = errno;
        if (r->file >= 0)
            close(r->file);
        if (r->locale)
            freelocale(r->locale);
        free(r->path);
        free(r);
        errno = reason;
        return NULL;
    }
    r->size = (off_t)strlen(header);
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

static bool reserve(recording *r, size_t bytes) {
    if (r->capacity - r->used >= bytes)
        return true;
    size_t capacity = r->capacity ? 2 * r->capacity : 1 << 16;
    char *text = realloc(r->text, capacity);
    if (!text)
        return false;
    r->text = text;
    r->capacity = capacity;
    return true;
}

static bool add_line(recording *r, const recorded_operation *o, size_t item, size_t head,
                     size_t recorded) {
    size_t query = recorded_query(o->queries, o->interval, recorded);
    size_t item_head = item * o->heads + head;
    const whet_stats *s = o->stats + item_head * o->queries + query;
    if (s->n == 0)
        return true;
    if (!reserve(r, r->has_details ? RECORD_DETAILED_BYTES : RECORD_LINE_BYTES))
        return false;
    record_row row = {
        .evaluation = r->evaluations,
        .layer = (uint64_t)o->layer,
        .head = head,
        .position = o->positions ? o->positions[item * o->queries + query] : (int64_t)query,
        .keys = s->n,
        .entropy = s->entropy,
        .entropy_after = s->entropy_after,
        .beta = s->beta,
        .max_prob = s->max_prob,
        .spread = (double)(float)(s->max - s->min),
        .sink_share = s->sink_share,
        .argmax = s->argmax == UINT64_MAX ? 0 : s->argmax,
        .skipped_share = s->skipped_share,
    };
    const record_detail *detail =
        o->details && query + 1 == o->queries ? &o->details[item_head] : NULL;
    r->used += r->has_details ? record_format_detailed(&row, detail, r->text + r->used)
                              : record_format(&row, r->text + r->used);
    r->lines++;
    return true;
}

static bool add_operation(recording *r, const recorded_operation *o) {
    size_t recorded = recorded_count(o->queries, o->interval);
    for (size_t item = 0; item < o->batch; item++)
        for (size_t head = 0; head < o->heads; head++)
            for (size_t i = 0; i < recorded; i++)
                if (!add_line(r, o, item, head, i))
                    return false;
    return true;
}

static void give_up(recording *r, const char *reason) {
    fprintf(stderr, "whet: %s: %s; " RECORD_STOPS ", earlier rows are kept\n", r->path, reason);
    if (ftruncate(r->file, r->size) != 0)
        fprintf(stderr, "whet: %s: the last lines may be incomplete\n", r->path);
    close(r->file);
    r->file = -1;
}

void recording_write(recording *r, const recorded_operation *operations, size_t count) {
    pthread_mutex_lock(&r->lock);
    uint64_t lines_before = r->lines;
    locale_t before = uselocale(r->locale);
    bool fits = true;
    r->used = 0;
    for (size_t i = 0; i < count && fits && r->file >= 0; i++)
        fits = add_operation(r, &operations[i]);
    if (r->file >= 0) {
        if (!fits || !write_all(r->file, r->text, r->used)) {
            r->lines = lines_before;
            give_up(r, fits ? strerror(errno) : "out of memory");
        } else {
            r->size += (off_t)r->used;
            r->evaluations++;
        }
    }
    uselocale(before);
    pthread_mutex_unlock(&r->lock);
}

uint64_t recording_lines(recording *r) {
    pthread_mutex_lock(&r->lock);
    uint64_t lines = r->lines;
    pthread_mutex_unlock(&r->lock);
    return lines;
}

void recording_close(recording *r) {
    if (r->file >= 0)
        close(r->file);
    pthread_mutex_destroy(&r->lock);
    if (r->locale)
        freelocale(r->locale);
    free(r->text);
    free(r->path);
    free(r);
}
