/*
 * Recordings: lines as the header promises, and whole evaluations or none.
 */
#include "alike.h"
#include "temporary.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static char path[64];

static void make_path(void) {
    strcpy(path, "/tmp/whet-recording.XXXXXX");
    temporary_file(path, "");
}

__attribute__((constructor)) static void before(void) { check_before_each(make_path); }

static char *read_back(void) {
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    size_t n = file && text ? fread(text, 1, (1 << 20) - 1, file) : 0;
    (void)n;
    if (file)
        fclose(file);
    unlink(path);
    return text;
}

static const char header[] =
    "evaluation,layer,head,position,keys,entropy,entropy_after,beta,max_prob,spread,"
    "sink_share,argmax,skipped_share\n";

TEST(rows_to_record_are_counted_back_from_the_last) {
    CHECK_INT(recorded_count(0, 1), 0);
    CHECK_INT(recorded_count(1, SIZE_MAX), 1);
    CHECK_INT(recorded_count(10, 1), 10);
    CHECK_INT(recorded_count(10, 4), 3);
    CHECK_INT(recorded_query(10, 4, 0), 1);
    CHECK_INT(recorded_query(10, 4, 2), 9);
    CHECK_INT(recorded_query(10, SIZE_MAX, 0), 9);
    for (size_t i = 0; i < 10; i++)
        CHECK_INT(recorded_query(10, 1, i), i);
}

TEST(lines_are_those_of_the_rows_and_empty_rows_are_left_out) {
    whet_stats stats[6];
    for (int i = 0; i < 6; i++)
        stats[i] = (whet_stats){.n = (uint64_t)i,
                                .entropy = 0.5 * i,
                                .entropy_after = 0.25 * i,
                                .max = 2 * i,
                                .min = -6,
                                .beta = i == 4 ? (double)NAN : 1 + i,
                                .max_prob = 1.0 / (1 + i),
                                .sink_share = 0.125 * i,
                                .argmax = (uint64_t)i,
                                .skipped_share = i / 8.0};
    static const int32_t positions[] = {100, 101, 102};
    recorded_operation rows = {.layer = 3,
                               .batch = 1,
                               .heads = 2,
                               .queries = 3,
                               .interval = 2,
                               .stats = stats,
                               .positions = positions};
    recording *r = recording_open(path, false);
    REQUIRE(r != NULL);
    recording_write(r, &rows, 1);
    rows.positions = NULL;
    rows.layer = 4;
    recording_write(r, &rows, 1);
    CHECK_INT(recording_lines(r), 6);
    recording_close(r);
    char *text = read_back();
    CHECK_MSG(strncmp(text, header, sizeof header - 1) == 0, "%s", text);
    CHECK_STR(text + sizeof header - 1, "0,3,0,102,2,1,0.5,3,0.333333333,10,0.25,2,0.25\n"
                                        "0,3,1,100,3,1.5,0.75,4,0.25,12,0.375,3,0.375\n"
                                        "0,3,1,102,5,2.5,1.25,6,0.166666667,16,0.625,5,0.625\n"
                                        "1,4,0,2,2,1,0.5,3,0.333333333,10,0.25,2,0.25\n"
                                        "1,4,1,0,3,1.5,0.75,4,0.25,12,0.375,3,0.375\n"
                                        "1,4,1,2,5,2.5,1.25,6,0.166666667,16,0.625,5,0.625\n");
    free(text);
}

TEST(a_file_that_cannot_be_written_is_refused) {
    unlink(path);
    CHECK(recording_open("/there/is/no/such/folder/rows.csv", false) == NULL);
}

TEST(a_full_disk_leaves_whole_evaluations) {
    enum { QUERIES = 100 };
    recorded_operation rows = alike_rows(QUERIES);
    struct rlimit limit, small;
    REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    small = limit;
    small.rlim_cur = 10000;
    recording *r = recording_open(path, false);
    REQUIRE(r != NULL && setrlimit(RLIMIT_FSIZE, &small) == 0);
    for (int i = 0; i < 10; i++)
        recording_write(r, &rows, 1);
    setrlimit(RLIMIT_FSIZE, &limit); /* and its signal has not ended this program */
    uint64_t lines = recording_lines(r);
    recording_close(r);
    char *text = read_back();
    uint64_t found = 0;
    for (const char *p = text; *p; p++)
        found += *p == '\n';
    CHECK(lines > 0 && lines < 1000 && lines % QUERIES == 0);
    CHECK_INT(found, lines + 1);
    CHECK(text[strlen(text) - 1] == '\n');
    free(text);
}

TEST(a_closed_pipe_does_not_end_the_host) {
    recorded_operation rows = alike_rows(1);
    int ends[2];
    unlink(path);
    REQUIRE(pipe(ends) == 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    recording *r = recording_open(path, false);
    REQUIRE(r != NULL);
    recording_write(r, &rows, 1);
    close(ends[0]);
    recording_write(r, &rows, 1);
    recording_write(r, &rows, 1);
    CHECK_INT(recording_lines(r), 1);
    recording_close(r);
    /* signal handling is unchanged: a signal of the host's own still has its effect */
    sigset_t mask;
    REQUIRE(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
    CHECK(!sigismember(&mask, SIGPIPE) && !sigismember(&mask, SIGXFSZ));
    close(ends[1]);
}
