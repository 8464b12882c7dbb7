// Samples, mixed streams and exported files against what google-deepmind/clrs made of them. The
// tables beside this file hold hashes of every public record, so that any clone can tell whether a
// byte is wrong. WHET_GOLDEN may name a folder with the records themselves, which are then compared
// in full, and which say what the difference is.
#include "base/atomic_file.h"
#include "base/files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "clrs/clrs.h"
#include "clrs/export.h"
#include "support/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FIELDS_MAX = 64, LINE_MAX_SIZE = 1024, FILE_LIMIT = 1 << 26, SAMPLERS_MAX = 64 };

// ---- Tables ----------------------------------------------------------------------------------

struct table {
    FILE *file;
    char line[LINE_MAX_SIZE];
    char *fields[FIELDS_MAX];
    size_t count;
};

static struct table open_table(const char *name) {
    struct table table = {.count = 0};
    const char *source = getenv("WHET_SOURCE_DIR");
    if (!source)
        SKIP("WHET_SOURCE_DIR is not set");
    char *path = lab_path(source, "tests/lab/clrs/%s", name);
    REQUIRE(path != NULL);
    table.file = fopen(path, "r");
    free(path);
    REQUIRE(table.file != NULL);
    return table;
}

// The fields of the next line that is no comment; false at the end, when the table is closed.
static bool next_row(struct table *table) {
    while (fgets(table->line, sizeof table->line, table->file)) {
        if (table->line[0] == '#')
            continue;
        table->line[strcspn(table->line, "\n")] = '\0';
        table->count = 0;
        for (char *at = table->line; at && table->count < FIELDS_MAX; table->count++) {
            table->fields[table->count] = at;
            at = strchr(at, '\t');
            if (at)
                *at++ = '\0';
        }
        return true;
    }
    fclose(table->file);
    return false;
}

static bool has_hash(const char *text, size_t length, const char *expected) {
    char hash[LAB_SHA256_SIZE];
    lab_sha256 sum = lab_sha256_start();
    lab_sha256_add(&sum, text, length);
    lab_sha256_text(sum, hash);
    return strcmp(hash, expected) == 0;
}

static size_t parse_list(const char *text, int64_t *numbers, size_t capacity) {
    size_t count = 0;
    for (; *text && count < capacity; text += *text == ',') {
        char *end;
        numbers[count++] = strtoll(text, &end, 10);
        text = end;
    }
    return count;
}

// ---- Samples ---------------------------------------------------------------------------------

struct made {
    clrs_sampler *sampler;
    clrs_sample sample;
};

static bool make(const clrs_request *request, uint64_t index, struct made *made) {
    if (clrs_sampler_create(request, &made->sampler) != CLRS_OK)
        return false;
    return clrs_sampler_seek(made->sampler, index) == CLRS_OK &&
           clrs_sampler_next(made->sampler, &made->sample) == CLRS_OK;
}

// A field as a number; a table that holds something else is broken.
static long long number_at(const struct table *table, size_t field) {
    char *end;
    long long number = strtoll(table->fields[field], &end, 10);
    REQUIRE(end != table->fields[field]);
    return number;
}

static clrs_request request_of_row(const struct table *table, clrs_ties ties) {
    clrs_request request = clrs_request_default(table->fields[0], number_at(table, 1));
    request.seed = strtoull(table->fields[2], NULL, 10);
    request.decimals = number_at(table, 4);
    request.hints = number_at(table, 5) != 0;
    request.ties = ties;
    return request;
}

static void check_row(const struct table *table, clrs_ties ties) {
    clrs_request request = request_of_row(table, ties);
    bool is_same = strcmp(table->fields[8], "=") == 0;
    const char *answer = table->fields[ties == CLRS_TIES_SIMD && !is_same ? 8 : 7];
    struct made made;
    bool is_made = make(&request, strtoull(table->fields[3], NULL, 10), &made);
    CHECK_MSG(is_made &&
                  has_hash(made.sample.question, made.sample.question_length, table->fields[6]) &&
                  has_hash(made.sample.answer, made.sample.answer_length, answer),
              "%s, length %s, seed %s, index %s, decimals %s, hints %s, ties %d", table->fields[0],
              table->fields[1], table->fields[2], table->fields[3], table->fields[4],
              table->fields[5], (int)ties);
    clrs_sampler_destroy(made.sampler);
}

TEST(samples_have_the_hashes_of_the_reference) {
    struct table table = open_table("samples.tsv");
    size_t rows = 0;
    for (; next_row(&table); rows++) {
        REQUIRE(table.count == 9);
        check_row(&table, CLRS_TIES_SCALAR);
        check_row(&table, CLRS_TIES_SIMD);
    }
    CHECK_INT(rows, 619);
}

// ---- Mixed streams ---------------------------------------------------------------------------

// The requests of a line "sampler ...", whose fields they point into.
static size_t read_samples(struct table *table, clrs_request *requests) {
    size_t count = 0;
    for (size_t i = 4; i < table->count; i++) {
        char *lengths = strchr(table->fields[i], ':');
        REQUIRE(lengths != NULL);
        *lengths++ = '\0';
        int64_t numbers[SAMPLERS_MAX];
        size_t length_count = parse_list(lengths, numbers, SAMPLERS_MAX);
        for (size_t j = 0; j < length_count && count < SAMPLERS_MAX; j++) {
            requests[count] = clrs_request_default(table->fields[i], numbers[j]);
            requests[count].decimals = number_at(table, 2);
            requests[count++].hints = number_at(table, 3) != 0;
        }
    }
    return count;
}

TEST(mixed_samples_have_the_hashes_of_the_reference) {
    struct table table = open_table("mixed.tsv");
    clrs_mix *mix = NULL;
    clrs_request requests[SAMPLERS_MAX];
    size_t samples = 0;
    while (next_row(&table)) {
        if (strcmp(table.fields[0], "stream") == 0) {
            clrs_mix_destroy(mix);
            size_t count = read_samples(&table, requests);
            uint64_t seed = strtoull(table.fields[1], NULL, 10);
            REQUIRE(clrs_mix_create(requests, count, seed, &mix, NULL) == CLRS_OK);
            continue;
        }
        clrs_sample sample;
        REQUIRE(clrs_mix_next(mix, &sample) == CLRS_OK);
        CHECK_STR(sample.algorithm->name, table.fields[0]);
        CHECK_INT(sample.length, number_at(&table, 1));
        CHECK(has_hash(sample.question, sample.question_length, table.fields[2]));
        CHECK(has_hash(sample.answer, sample.answer_length, table.fields[3]));
        samples++;
    }
    clrs_mix_destroy(mix);
    CHECK_INT(samples, 80);
}

// ---- Exported files --------------------------------------------------------------------------

// Exports one file into a folder of its own and returns it; to be freed.
static char *export_one(const struct table *table, size_t *size) {
    char folder[] = "/tmp/whet-clrs-XXXXXX";
    REQUIRE(mkdtemp(folder) != NULL);
    int64_t lengths[16], seeds[16];
    clrs_export wanted = {.split = CLRS_SPLIT_VAL,
                          .folder = folder,
                          .algorithms = {clrs_algorithm_find(table->fields[3])},
                          .algorithm_count = 1,
                          .lengths = lengths,
                          .length_count = parse_list(table->fields[4], lengths, 16),
                          .seeds = seeds,
                          .seed_count = parse_list(table->fields[5], seeds, 16),
                          .count = strtoull(table->fields[2], NULL, 10),
                          .decimals = number_at(table, 0),
                          .hints = number_at(table, 1) != 0,
                          .quiet = true};
    lab_error error = {.kind = LAB_NO_ERROR};
    bool was_complete = true;
    CHECK_MSG(clrs_export_write(&wanted, &was_complete, &error), "%s", error.text);
    CHECK(!was_complete);
    char *split = lab_path(folder, "val");
    char *path = lab_path(split, "%s.json", table->fields[3]);
    REQUIRE(split && path);
    char *bytes = lab_read_file(path, FILE_LIMIT, size, &error);
    unlink(path);
    rmdir(split);
    CHECK_INT(rmdir(folder), 0); // nothing else was in it
    free(split);
    free(path);
    return bytes;
}

TEST(exported_files_have_the_hashes_of_the_reference) {
    struct table table = open_table("exports.tsv");
    while (next_row(&table)) {
        REQUIRE(table.count == 7);
        size_t size = 0;
        char *bytes = export_one(&table, &size);
        REQUIRE(bytes != NULL);
        CHECK_MSG(has_hash(bytes, size, table.fields[6]), "%s", table.fields[3]);
        free(bytes);
    }
}

// ---- The records themselves ------------------------------------------------------------------

static const char *text_member(const json_t *record, const char *name) {
    return json_string_value(json_object_get(record, name));
}

static int64_t number_member(const json_t *record, const char *name) {
    return json_integer_value(json_object_get(record, name));
}

static void check_record(const json_t *record, clrs_ties ties) {
    const char *answer = ties == CLRS_TIES_SIMD ? text_member(record, "answer_simd") : NULL;
    if (!answer)
        answer = text_member(record, "answer");
    clrs_request request =
        clrs_request_default(text_member(record, "algo"), number_member(record, "length"));
    request.seed = (uint64_t)number_member(record, "seed");
    request.decimals = number_member(record, "decimals"); // null reads as 0
    request.hints = json_is_true(json_object_get(record, "use_hints"));
    request.ties = ties;
    struct made made;
    if (CHECK(make(&request, (uint64_t)number_member(record, "index"), &made))) {
        CHECK_STR(made.sample.question, text_member(record, "question"));
        CHECK_STR(made.sample.answer, answer);
    }
    clrs_sampler_destroy(made.sampler);
}

static size_t check_records(const char *folder, const char *name) {
    char *path = lab_path(folder, "%s", name);
    REQUIRE(path != NULL);
    FILE *file = fopen(path, "r");
    free(path);
    REQUIRE(file != NULL);
    size_t records = 0;
    for (json_t *record; (record = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)); records++) {
        check_record(record, CLRS_TIES_SCALAR);
        check_record(record, CLRS_TIES_SIMD);
        json_decref(record);
    }
    fclose(file);
    return records;
}

TEST(samples_are_those_of_the_records_in_full) {
    const char *folder = getenv("WHET_GOLDEN");
    if (!folder)
        SKIP("WHET_GOLDEN names no folder of records");
    static const char *const names[] = {"golden_public.jsonl", "golden_ties_public.jsonl",
                                        "golden_fullprec_public.jsonl",
                                        "golden_decimals_public.jsonl"};
    size_t records = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        records += check_records(folder, names[i]);
    CHECK(records >= 619);
}

static clrs_mix *mix_of_record(const json_t *record) {
    clrs_request requests[SAMPLERS_MAX];
    size_t count = 0;
    const char *name;
    json_t *lengths;
    json_object_foreach(json_object_get(record, "algos_and_lengths"), name, lengths) {
        for (size_t i = 0; i < json_array_size(lengths) && count < SAMPLERS_MAX; i++) {
            int64_t length = json_integer_value(json_array_get(lengths, i));
            requests[count] = clrs_request_default(name, length);
            requests[count].decimals = number_member(record, "decimals");
            requests[count++].hints = json_is_true(json_object_get(record, "use_hints"));
        }
    }
    clrs_mix *mix;
    REQUIRE(clrs_mix_create(requests, count, (uint64_t)number_member(record, "seed"), &mix, NULL) ==
            CLRS_OK);
    return mix;
}

TEST(mixed_samples_are_those_of_the_records_in_full) {
    const char *folder = getenv("WHET_GOLDEN");
    if (!folder)
        SKIP("WHET_GOLDEN names no folder of records");
    char *path = lab_path(folder, "golden_mixed_public.jsonl");
    REQUIRE(path != NULL);
    FILE *file = fopen(path, "r");
    free(path);
    REQUIRE(file != NULL);
    clrs_mix *mix = NULL;
    for (json_t *record; (record = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL));) {
        if (number_member(record, "n") == 0) {
            clrs_mix_destroy(mix);
            mix = mix_of_record(record);
        }
        clrs_sample sample;
        REQUIRE(clrs_mix_next(mix, &sample) == CLRS_OK);
        CHECK_STR(sample.algorithm->name, text_member(record, "algo"));
        CHECK_STR(sample.question, text_member(record, "question"));
        CHECK_STR(sample.answer, text_member(record, "answer"));
        json_decref(record);
    }
    clrs_mix_destroy(mix);
    fclose(file);
}

TEST(exported_files_are_those_of_the_records_in_full) {
    const char *folder = getenv("WHET_GOLDEN");
    if (!folder)
        SKIP("WHET_GOLDEN names no folder of records");
    struct table table = open_table("exports.tsv");
    while (next_row(&table)) {
        size_t size = 0, expected_size = 0;
        lab_error error = {.kind = LAB_NO_ERROR};
        char *bytes = export_one(&table, &size);
        char *path = lab_path(folder, "golden_json/%s/val/%s.json",
                              number_at(&table, 0) ? "dec3" : "full", table.fields[3]);
        REQUIRE(bytes && path);
        char *expected = lab_read_file(path, FILE_LIMIT, &expected_size, &error);
        CHECK_MSG(expected && size == expected_size && same_bytes(bytes, expected, size), "%s",
                  path);
        free(expected);
        free(path);
        free(bytes);
    }
}
