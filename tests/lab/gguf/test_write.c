// Writing GGUF files: what was put in comes out again, and what cannot be written is not.
#include "gguf/write.h"

#include "support/check.h"
#include "support/models.h"
#include "support/random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static char path[128];

static void make_scratch(void) {
    snprintf(folder, sizeof folder, "/tmp/whet-gguf.XXXXXX");
    REQUIRE(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.gguf", folder);
}

static void remove_scratch(void) {
    unlink(path);
    CHECK_INT(rmdir(folder), 0); // nothing else was left there
}

static gguf_file *finish_and_open(gguf_writer *writer) {
    lab_error error = {0};
    bool is_written = gguf_writer_finish(writer, path, &error);
    CHECK_MSG(is_written, "%s", error.text);
    gguf_file *file = gguf_open(path, &error);
    CHECK_MSG(file, "%s", error.text);
    REQUIRE(file);
    return file;
}

TEST(metadata_comes_back_as_it_was) {
    static const char *const words[] = {"one", "", "dr\xc3\xa9i"};
    static const float floats[] = {1.5f, -0.0f, INFINITY};
    static const int32_t integers[] = {INT32_MIN, 0, 7};
    make_scratch();
    gguf_writer *writer = gguf_writer_start();
    gguf_put_text(writer, "general.architecture", "llama");
    gguf_put_u32(writer, "a.u32", UINT32_MAX);
    gguf_put_float(writer, "a.float", 0.1f);
    gguf_put_bool(writer, "a.bool", true);
    gguf_put_texts(writer, "a.texts", words, 3);
    gguf_put_floats(writer, "a.floats", floats, 3);
    gguf_put_integers(writer, "a.integers", integers, 3);
    gguf_put_integers(writer, "a.nothing", integers, 0);
    gguf_file *file = finish_and_open(writer);
    gguf_text text;
    uint32_t small;
    double number;
    bool truth;
    size_t count;
    CHECK(gguf_get_text(file, "general.architecture", &text, NULL) && gguf_text_is(text, "llama"));
    CHECK(gguf_get_u32(file, "a.u32", &small, NULL) && small == UINT32_MAX);
    CHECK(gguf_get_double(file, "a.float", &number, NULL) && number == (double)0.1f);
    CHECK(gguf_get_bool(file, "a.bool", &truth, NULL) && truth);
    gguf_text *texts = gguf_get_texts(file, "a.texts", &count, NULL);
    CHECK(texts && count == 3 && gguf_text_is(texts[2], words[2]) && texts[1].length == 0);
    free(texts);
    float *floats_back = gguf_get_floats(file, "a.floats", &count, NULL);
    CHECK(floats_back && count == 3 && same_bytes(floats_back, floats, sizeof floats));
    free(floats_back);
    int32_t *integers_back = gguf_get_integers(file, "a.integers", &count, NULL);
    CHECK(integers_back && count == 3 && same_bytes(integers_back, integers, sizeof integers));
    free(integers_back);
    CHECK_INT(file->n_values, 8);
    gguf_close(file);
    remove_scratch();
}

// How far a type's numbers may be from those put in, relative to the row's largest.
static double error_of(gguf_type type) {
    switch ((int)type) {
    case GGUF_F32:
        return 0;
    case GGUF_F16:
        return 0x1p-11;
    case GGUF_BF16:
        return 0x1p-8;
    default:
        return 0.57 / 127;
    }
}

TEST(tensors_come_back_as_near_as_their_type_allows) {
    static const gguf_type types[] = {GGUF_F32, GGUF_F16, GGUF_BF16, GGUF_Q8_0};
    static const uint64_t shapes[][3] = {{32, 1, 1}, {96, 5, 1}, {64, 3, 2}, {32, 1, 31}};
    static float values[4][4][2048];
    struct rng rng = rng_seeded(3);
    make_scratch();
    gguf_writer *writer = gguf_writer_start();
    for (int t = 0; t < 4; t++) {
        for (int s = 0; s < 4; s++) {
            char name[32];
            snprintf(name, sizeof name, "t%d.s%d", t, s);
            rng_fill_normal(&rng, values[t][s], 2048, 0, 2);
            gguf_put_tensor(writer, name, s < 2 ? 2 : 3, shapes[s], types[t], values[t][s]);
        }
    }
    gguf_file *file = finish_and_open(writer);
    CHECK_INT(file->n_tensors, 16);
    for (int i = 0; i < 16; i++) {
        const gguf_tensor *tensor = &file->tensors[i];
        const float *wanted = values[i / 4][i % 4];
        float row[96];
        CHECK(memcmp(tensor->dims, shapes[i % 4], sizeof shapes[0]) == 0);
        CHECK(tensor->type == types[i / 4]);
        for (uint64_t r = 0; r < tensor->rows; r++, wanted += tensor->dims[0]) {
            double largest = 0;
            REQUIRE(gguf_dequantise(tensor, r, row));
            for (uint64_t c = 0; c < tensor->dims[0]; c++) {
                largest = fmax(largest, fabs((double)wanted[c]));
            }
            for (uint64_t c = 0; c < tensor->dims[0]; c++) {
                CHECK_NEAR(row[c], wanted[c], largest * error_of(tensor->type));
            }
        }
    }
    gguf_close(file);
    remove_scratch();
}

TEST(tensors_lie_one_after_the_other_at_multiples_of_32) {
    static const uint64_t seven = 7;
    static const float values[7] = {1, 2, 3, 4, 5, 6, 7};
    make_scratch();
    gguf_writer *writer = gguf_writer_start();
    gguf_put_tensor(writer, "one", 1, &seven, GGUF_F16, values);
    gguf_put_tensor(writer, "two", 1, &seven, GGUF_F32, values);
    gguf_put_tensor(writer, "three", 1, &seven, GGUF_F32, values);
    gguf_file *file = finish_and_open(writer);
    for (int i = 0; i < 3; i++) {
        CHECK_INT((size_t)(file->tensors[i].bytes - file->bytes) - file->data_start, 32 * i);
    }
    CHECK_INT(file->size, file->data_start + 96);
    gguf_close(file);
    remove_scratch();
}

// Finishes a writer that must fail with these words, and leave nothing behind.
static void check_fails(gguf_writer *writer, const char *words) {
    lab_error error = {0};
    bool is_written = gguf_writer_finish(writer, path, &error);
    CHECK_MSG(!is_written && strstr(error.text, words), "%s", error.text);
    CHECK(access(path, F_OK) != 0);
}

static gguf_writer *with_tensor(uint64_t columns, uint64_t rows, gguf_type type) {
    static const float values[64];
    gguf_writer *writer = gguf_writer_start();
    gguf_put_tensor(writer, "the.tensor", 2, (const uint64_t[]){columns, rows}, type, values);
    return writer;
}

TEST(what_makes_no_file_is_refused_and_leaves_none) {
    make_scratch();
    gguf_writer *writer = gguf_writer_start();
    gguf_put_u32(writer, "same", 1);
    gguf_put_u32(writer, "same", 2);
    check_fails(writer, "key \"same\" occurs twice");
    writer = gguf_writer_start();
    gguf_put_u32(writer, "not a key", 1);
    gguf_put_u32(writer, "fine", 1);
    check_fails(writer, "is not a valid name of a key");
    writer = gguf_writer_start();
    gguf_put_u32(writer, "general.alignment", 64);
    check_fails(writer, "general.alignment is chosen by the writer itself");
    check_fails(with_tensor(33, 1, GGUF_Q8_0), "cannot have this shape and type");
    check_fails(with_tensor(0, 1, GGUF_F32), "cannot have this shape and type");
    check_fails(with_tensor(UINT64_MAX / 4, 8, GGUF_F32), "cannot have this shape and type");
    check_fails(with_tensor(256, 1, GGUF_Q4_K), "cannot be written as q4_k");
    writer = with_tensor(32, 1, GGUF_F32);
    gguf_put_tensor(writer, "the.tensor", 1, (const uint64_t[]){1}, GGUF_F32, (const float[]){0});
    check_fails(writer, "tensor \"the.tensor\" occurs twice");
    remove_scratch();
}

TEST(numbers_that_do_not_fit_their_type_are_refused) {
    static const uint64_t dims = 32;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 1e30f, 70000.0f * 127.0f};
    make_scratch();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        float values[32] = {0};
        values[17] = bad[i];
        gguf_writer *writer = gguf_writer_start();
        gguf_put_tensor(writer, "the.tensor", 1, &dims, GGUF_Q8_0, values);
        check_fails(writer, "does not fit in q8_0");
    }
    float values[32] = {65520.0f};
    gguf_writer *writer = gguf_writer_start();
    gguf_put_tensor(writer, "the.tensor", 1, &dims, GGUF_F16, values);
    check_fails(writer, "\"the.tensor\" has a value that does not fit in f16");
    remove_scratch();
}

TEST(tiny_and_zero_blocks_of_eight_bits_are_zeros) {
    static const uint64_t dims = 64;
    float values[64] = {0}, back[64];
    values[40] = 1e-42f;
    make_scratch();
    gguf_writer *writer = gguf_writer_start();
    gguf_put_tensor(writer, "the.tensor", 1, &dims, GGUF_Q8_0, values);
    gguf_file *file = finish_and_open(writer);
    CHECK(gguf_dequantise(&file->tensors[0], 0, back));
    for (int i = 0; i < 64; i++) {
        CHECK(back[i] == 0);
    }
    gguf_close(file);
    remove_scratch();
}

TEST(a_folder_that_is_not_there_is_an_error) {
    lab_error error = {0};
    CHECK(!gguf_writer_finish(gguf_writer_start(), "/nowhere/model.gguf", &error));
    CHECK_STR(error.text, "/nowhere/model.gguf: cannot write: No such file or directory");
}

// The blocks llama.cpp's own quantiser makes of the same floats.
TEST(eight_bits_are_those_of_llama_cpp) {
    char name[MODEL_PATH_SIZE];
    gguf_file *exact = gguf_open(model_path("stories260K-f32.gguf", name), NULL);
    gguf_file *rounded = gguf_open(model_path("stories260K-q8_0.gguf", name), NULL);
    make_scratch();
    REQUIRE(exact && rounded);
    gguf_writer *writer = gguf_writer_start();
    for (uint64_t i = 0; i < rounded->n_tensors; i++) {
        const gguf_tensor *tensor = &rounded->tensors[i];
        snprintf(name, sizeof name, "%.*s", (int)tensor->name.length, tensor->name.bytes);
        const gguf_tensor *from = gguf_find_tensor(exact, name);
        REQUIRE(from && from->type == GGUF_F32);
        gguf_put_tensor(writer, name, tensor->n_dims, tensor->dims, tensor->type,
                        (const float *)(const void *)from->bytes);
    }
    gguf_file *made = finish_and_open(writer);
    uint64_t blocks = 0;
    for (uint64_t i = 0; i < rounded->n_tensors; i++) {
        size_t bytes = rounded->tensors[i].row_bytes * (size_t)rounded->tensors[i].rows;
        CHECK_MSG(same_bytes(made->tensors[i].bytes, rounded->tensors[i].bytes, bytes), "tensor %d",
                  (int)i);
        blocks += rounded->tensors[i].type == GGUF_Q8_0;
    }
    CHECK(blocks > 0);
    gguf_close(exact);
    gguf_close(rounded);
    gguf_close(made);
    remove_scratch();
}
