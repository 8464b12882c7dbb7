/*
 * Lines of a recording: `whet probe` reads what the plug-in writes, and nothing else.
 */
#include "llama/record.h"
#include "support/check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

TEST(a_row_reads_back_as_it_was_written) {
    record_row row = {.evaluation = 12,
                      .layer = 3,
                      .head = 31,
                      .position = 131071,
                      .keys = 131072,
                      .entropy = (double)1.2345678f,
                      .entropy_after = (double)0.1f,
                      .beta = 1,
                      .max_prob = (double)0.33333334f,
                      .spread = (double)1e-20f,
                      .sink_share = (double)0.1f,
                      .argmax = 131000,
                      .skipped_share = (double)0.7f},
               read;
    char line[RECORD_LINE_BYTES];
    size_t length = record_format(&row, line);
    CHECK_INT(length, strlen(line));
    REQUIRE(record_parse(line, &read));
    CHECK(read.evaluation == 12 && read.layer == 3 && read.head == 31 && read.keys == 131072);
    CHECK_INT(read.position, 131071);
    CHECK((float)read.entropy == (float)row.entropy && (float)read.beta == (float)row.beta);
    CHECK((float)read.entropy_after == (float)row.entropy_after);
    CHECK((float)read.max_prob == (float)row.max_prob && (float)read.spread == (float)row.spread);
    CHECK((float)read.sink_share == (float)row.sink_share && read.argmax == row.argmax);
    CHECK((float)read.skipped_share == (float)row.skipped_share);
}

TEST(unknown_numbers_read_back_as_unknown) {
    record_row row = {.beta = (double)NAN, .spread = (double)NAN}, read;
    char line[RECORD_LINE_BYTES];
    record_format(&row, line);
    REQUIRE(record_parse(line, &read));
    CHECK(isnan(read.beta) && isnan(read.spread) && read.entropy == 0);
}

TEST(the_header_names_as_many_columns_as_a_line_has) {
    record_row row = {.evaluation = 0};
    char line[RECORD_LINE_BYTES];
    size_t named = 0, written = 0;
    record_format(&row, line);
    for (const char *p = record_header; *p; p++)
        named += *p == ',';
    for (const char *p = line; *p; p++)
        written += *p == ',';
    CHECK_INT(named, written);
    CHECK(record_header[strlen(record_header) - 1] == '\n');
}

TEST(other_lines_are_refused) {
    static const char *const wrong[] = {
        "",
        "\n",
        "0,1,2,3,4,5,6,7,8,9,10,11\n",
        "0,1,2,3,4,5,6,7,8,9,10,11,12",
        "0,1,2,3,4,5,6,7,8,9,10,11,12,13\n",
        "0,1,2,3,4,5,6,7,8,9,10,-1,12\n",
        "0,1,2,3,4,5,6,7,8,9,10,nan,12\n",
        "0,1,2,3,4,x,6,7,8,9,10,11,12\n",
        "-1,1,2,3,4,5,6,7,8,9,10,11,12\n",
        "0,1,2,nan,4,5,6,7,8,9,10,11,12\n",
        "0,1,2,3,1e30,5,6,7,8,9,10,11,12\n",
        ("evaluation,layer,head,position,keys,entropy,entropy_after,beta,max_prob,spread,"
         "sink_share,argmax\n"),
    };
    record_row row;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_MSG(!record_parse(wrong[i], &row), "%s was taken", wrong[i]);
    for (size_t n = 0; n < strlen("0,1,2,3,4,5,6,7,8,9,10,11,12\n"); n++) {
        char line[RECORD_LINE_BYTES];
        snprintf(line, sizeof line, "%.*s", (int)n, "0,1,2,3,4,5,6,7,8,9,10,11,12\n");
        CHECK(!record_parse(line, &row));
    }
}
