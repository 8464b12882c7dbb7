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

/* ---- with details ---- */

static record_detail made_up(void) {
    record_detail detail = {.key_count = 2, .keys = {{131000, (double)0.75f}, {0, (double)1e-12f}}};
    static const float logits[] = {1.25f, -0.01f, 1.24f, -29, -INFINITY};
    gaps_add_row(&detail.gaps, logits, sizeof logits / sizeof *logits);
    return detail;
}

TEST(details_read_back_as_they_were_written) {
    record_row row = {.evaluation = 3, .keys = 5}, read;
    record_detail detail = made_up(), again;
    char line[RECORD_DETAILED_BYTES];
    size_t length = record_format_detailed(&row, &detail, line);
    CHECK_INT(length, strlen(line));
    CHECK_MSG(strstr(line, ",131000:0.75 0:9.99999996e-13,1.25 20:1 19:1 -1:1 -464:1\n"), "%s",
              line);
    REQUIRE(record_parse_detailed(line, &read, &again));
    CHECK(read.evaluation == 3 && again.key_count == 2 && again.keys[0].index == 131000);
    CHECK((float)again.keys[1].weight == 1e-12f && again.keys[0].weight == 0.75);
    CHECK(again.gaps.top == detail.gaps.top && again.gaps.largest == detail.gaps.largest);
    CHECK(memcmp(again.gaps.counts, detail.gaps.counts, sizeof detail.gaps.counts) == 0);
    CHECK(!record_parse(line, &read));
}

TEST(rows_without_details_leave_their_columns_empty) {
    record_row row = {.evaluation = 3}, read;
    record_detail again = made_up();
    char line[RECORD_DETAILED_BYTES];
    size_t named = 0, written = 0;
    record_format_detailed(&row, NULL, line);
    REQUIRE(record_parse_detailed(line, &read, &again));
    CHECK(again.key_count == 0 && again.gaps.counts[0] == 0);
    for (const char *p = record_detailed_header; *p; p++)
        named += *p == ',';
    for (const char *p = line; *p; p++)
        written += *p == ',';
    CHECK_INT(named, written);
}

TEST(the_longest_details_fit) {
    record_row row = {.position = INT64_MAX}, read;
    record_detail detail = {.key_count = RECORD_KEYS_MAX}, again;
    char line[RECORD_DETAILED_BYTES];
    for (size_t i = 0; i < RECORD_KEYS_MAX; i++)
        detail.keys[i] = (record_key){999999999999999, (double)1.17549435e-38f};
    for (int i = 0; i < GAP_BINS; i++)
        gaps_add(&detail.gaps, -999999999999000 - i, UINT32_MAX, -1.17549435e-38f);
    row.position = 0;
    CHECK(record_format_detailed(&row, &detail, line) < RECORD_DETAILED_BYTES);
    CHECK(record_parse_detailed(line, &read, &again) && again.key_count == RECORD_KEYS_MAX);
}

TEST(other_details_are_refused) {
    static const char *const wrong[] = {"",          "\n",         ",",           ",,\n",
                                        "1:2\n",     "1:2,3\n",    "1,3 4:5\n",   "x:2,\n",
                                        "-1:2,\n",   "1:2 ,\n",    "1:2  3:4,\n", ",3 4:0\n",
                                        ",3 4:-1\n", ",3 4\n",     ",3 4:5,\n",   ",3 4:5 \n",
                                        ",3  4:5\n", ",3 4:5e9\n", ",3 1e30:5\n"};
    record_row row;
    record_detail detail;
    char line[512];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(line, sizeof line, "0,1,2,3,4,5,6,7,8,9,10,11,%s", wrong[i]);
        CHECK_MSG(!record_parse_detailed(line, &row, &detail), "%s was taken", line);
    }
    size_t length = (size_t)snprintf(line, sizeof line, "0,1,2,3,4,5,6,7,8,9,10,11");
    for (int i = 0; i <= RECORD_KEYS_MAX; i++)
        length += (size_t)snprintf(line + length, sizeof line - length, "%c1:1", i ? ' ' : ',');
    snprintf(line + length, sizeof line - length, ",\n");
    CHECK(!record_parse_detailed(line, &row, &detail));
}
