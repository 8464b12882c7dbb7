// Reading GGUF files: what is in order is read as it is, and every lie is refused with a word on
// where it is.
#include "made.h"

#include "support/check.h"
#include "support/models.h"
#include "support/random.h"

#include <stdlib.h>

static gguf_file *open_good(void) {
    static made_file file;
    lab_error error = {0};
    put_good_file(&file);
    gguf_file *opened = open_made(&file, &error);
    CHECK_MSG(opened, "%s", error.text);
    REQUIRE(opened);
    return opened;
}

TEST(integers_of_every_width_are_read) {
    gguf_file *file = open_good();
    static const struct {
        const char *key;
        int64_t value;
    } wanted[] = {{"a.u8", 255},         {"a.i8", -1},  {"a.u16", 32769},    {"a.i16", -32767},
                  {"a.u32", 4294967294}, {"a.i32", -2}, {"a.i64", INT64_MIN}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        int64_t value = 0;
        uint64_t positive = 0;
        lab_error error = {0};
        CHECK(gguf_get_i64(file, wanted[i].key, &value, &error));
        CHECK_INT(value, wanted[i].value);
        CHECK(gguf_get_u64(file, wanted[i].key, &positive, &error) == (value >= 0));
        CHECK(value < 0 || positive == (uint64_t)value);
        CHECK(value >= 0 || strstr(error.text, wanted[i].key));
    }
    uint64_t large;
    uint32_t small;
    int64_t with_sign;
    lab_error error = {0}, another = {0};
    CHECK(gguf_get_u64(file, "a.u64", &large, NULL) && large == UINT64_MAX);
    CHECK(!gguf_get_u32(file, "a.u64", &small, &error) &&
          strstr(error.text, "\"a.u64\" is out of"));
    CHECK(!gguf_get_i64(file, "a.u64", &with_sign, &another) && strstr(another.text, "a.u64"));
    close_made(file);
}

TEST(numbers_truths_and_texts_are_read) {
    gguf_file *file = open_good();
    double number;
    bool truth;
    gguf_text text;
    CHECK(gguf_get_double(file, "a.float", &number, NULL) && number == 0.5);
    CHECK(gguf_get_double(file, "a.double", &number, NULL) && number == 1e100);
    CHECK(gguf_get_bool(file, "a.bool", &truth, NULL) && truth);
    CHECK(gguf_get_text(file, "a.text", &text, NULL) && gguf_text_is(text, "h\xc3\xa9llo"));
    CHECK(!gguf_text_is(text, "h\xc3\xa9ll") && !gguf_text_is(text, "h\xc3\xa9llo!"));
    close_made(file);
}

TEST(arrays_are_read) {
    gguf_file *file = open_good();
    size_t count;
    gguf_text *texts = gguf_get_texts(file, "a.texts", &count, NULL);
    REQUIRE(texts && count == 3);
    CHECK(gguf_text_is(texts[0], "one") && gguf_text_is(texts[1], ""));
    CHECK(gguf_text_is(texts[2], "three"));
    free(texts);
    float *floats = gguf_get_floats(file, "a.floats", &count, NULL);
    REQUIRE(floats && count == 2);
    CHECK(floats[0] == 1.0f && floats[1] == -2.5f);
    free(floats);
    int32_t *integers = gguf_get_integers(file, "a.integers", &count, NULL);
    REQUIRE(integers && count == 2);
    CHECK(integers[0] == -2 && integers[1] == 7);
    free(integers);
    integers = gguf_get_integers(file, "a.nothing", &count, NULL);
    CHECK(integers && count == 0);
    free(integers);
    close_made(file);
}

TEST(a_missing_key_or_one_of_another_kind_is_named) {
    gguf_file *file = open_good();
    lab_error errors[8] = {0};
    double number;
    uint64_t integer;
    gguf_text text;
    bool truth;
    size_t count;
    CHECK(!gguf_get_u64(file, "a.none", &integer, &errors[0]));
    CHECK_STR(errors[0].text, "the model has no key \"a.none\"");
    CHECK(!gguf_get_u64(file, "a.text", &integer, &errors[1]));
    CHECK_STR(errors[1].text, "key \"a.text\" is a text, not an integer");
    CHECK(!gguf_get_double(file, "a.u32", &number, &errors[2]) && errors[2].kind == LAB_INPUT);
    CHECK(!gguf_get_text(file, "a.texts", &text, &errors[3]) && errors[3].kind == LAB_INPUT);
    CHECK(!gguf_get_bool(file, "a.u8", &truth, &errors[4]) && errors[4].kind == LAB_INPUT);
    CHECK(!gguf_get_floats(file, "a.texts", &count, &errors[5]) && errors[5].kind == LAB_INPUT);
    CHECK(!gguf_get_integers(file, "a.float", &count, &errors[6]) && errors[6].kind == LAB_INPUT);
    CHECK(!gguf_get_texts(file, "a.floats", &count, &errors[7]) && errors[7].kind == LAB_INPUT);
    close_made(file);
}

TEST(tensors_are_found_and_turned_into_floats) {
    gguf_file *file = open_good();
    lab_error error = {0}, shape = {0};
    float row[32];
    const gguf_tensor *first = gguf_get_tensor(file, "first.weight", 3, 2, &error);
    REQUIRE(first);
    CHECK(gguf_dequantise(first, 1, row) && row[0] == 3 && row[2] == 5);
    CHECK(!gguf_dequantise(first, 2, row));
    const gguf_tensor *second = gguf_get_tensor(file, "second.weight", 32, 1, &error);
    REQUIRE(second);
    CHECK(gguf_dequantise(second, 0, row) && row[0] == -16 && row[31] == 15);
    CHECK(!gguf_get_tensor(file, "third.weight", 3, 2, &error));
    CHECK_STR(error.text, "the model has no tensor \"third.weight\"");
    CHECK(!gguf_get_tensor(file, "first.weight", 2, 3, &shape));
    CHECK(strstr(shape.text, "first.weight") && strstr(shape.text, "not 2 x 3"));
    close_made(file);
}

TEST(a_file_cut_off_anywhere_is_refused) {
    static made_file whole, cut;
    put_good_file(&whole);
    for (size_t size = 0; size < whole.size; size++) {
        cut = whole;
        cut.size = size;
        if (!is_refused(&cut, "made.gguf: ")) {
            break;
        }
    }
}

TEST(a_file_that_is_not_gguf_is_refused) {
    static made_file file;
    put_good_file(&file);
    file.data[0] = 'g';
    is_refused(&file, ": not a GGUF model");
}

TEST(other_versions_are_refused) {
    static made_file file;
    static const uint32_t versions[] = {0, 1, 4, 77, UINT32_MAX};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        put_head(&file, versions[i], 0, 0);
        is_refused(&file, "(2 and 3 are supported)");
    }
    put_head(&file, 0x03000000, 0, 0);
    is_refused(&file, "big-endian");
}

TEST(counts_that_no_file_can_hold_are_refused_before_memory_is_asked_for) {
    static made_file file;
    static const uint64_t counts[] = {1, 1u << 20, UINT64_MAX / 13, UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        put_head(&file, 3, counts[i], 0);
        is_refused(&file, "too large for the file");
        put_head(&file, 3, 0, counts[i]);
        is_refused(&file, "too large for the file");
    }
}

TEST(a_file_of_nothing_is_fine) {
    static made_file file;
    for (uint32_t version = 2; version <= 3; version++) {
        put_head(&file, version, 0, 0);
        gguf_file *opened = open_made(&file, NULL);
        CHECK(opened && !gguf_find(opened, "a") && !gguf_find_tensor(opened, "a"));
        close_made(opened);
    }
}

// A file with one key whose value the test is to write.
static void one_key(made_file *file, uint32_t kind) {
    put_head(file, 3, 0, 1);
    put_key(file, "the.key", kind);
}

TEST(values_that_are_not_in_order_are_refused) {
    static made_file file;
    one_key(&file, 13);
    put_u64(&file, 0);
    is_refused(&file, "key \"the.key\" at byte 43: unknown kind of value 13");
    one_key(&file, UINT32_MAX);
    put_u64(&file, 0);
    is_refused(&file, "unknown kind of value");
    one_key(&file, GGUF_BOOL);
    put_bytes(&file, "\x02", 1);
    is_refused(&file, "a boolean of 2");
    one_key(&file, GGUF_TEXT);
    put_u64(&file, UINT64_MAX);
    is_refused(&file, "truncated file");
    one_key(&file, GGUF_TEXT);
    put_u64(&file, 1);
    is_refused(&file, "truncated file");
}

TEST(arrays_that_are_not_in_order_are_refused) {
    static made_file file;
    static const uint64_t counts[] = {2, UINT64_MAX, UINT64_MAX / 4 + 1, UINT64_C(1) << 62};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        one_key(&file, GGUF_ARRAY);
        put_u32(&file, GGUF_I32);
        put_u64(&file, counts[i]);
        put_u32(&file, 7);
        is_refused(&file, "\"the.key\"");
        one_key(&file, GGUF_ARRAY);
        put_u32(&file, GGUF_TEXT);
        put_u64(&file, counts[i]);
        put_text(&file, "only");
        is_refused(&file, "\"the.key\"");
    }
    one_key(&file, GGUF_ARRAY);
    put_u32(&file, GGUF_ARRAY);
    put_u64(&file, 0);
    is_refused(&file, "an array of arrays");
    one_key(&file, GGUF_ARRAY);
    put_u32(&file, 99);
    put_u64(&file, 0);
    is_refused(&file, "unknown kind of value 99");
    one_key(&file, GGUF_ARRAY);
    put_u32(&file, GGUF_BOOL);
    put_u64(&file, 3);
    put_bytes(&file, "\x01\x00\x05", 3);
    is_refused(&file, "a boolean of 5");
}

TEST(names_that_are_none_are_refused) {
    static made_file file;
    static const char *const names[] = {"", "a b", "a\nb", "\x01", "\x7f", "h\xc3\xa9"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        put_head(&file, 3, 0, 1);
        put_key(&file, names[i], GGUF_U32);
        put_u32(&file, 1);
        is_refused(&file, "key at byte");
    }
    char name[GGUF_NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[GGUF_NAME_MAX + 1] = '\0';
    put_head(&file, 3, 1, 0);
    put_tensor(&file, name, 1, 1, GGUF_F32, 0);
    put_padding(&file, 32);
    put_u32(&file, 0);
    is_refused(&file, "a name of 64 bytes (1 to 63 are allowed)");
    put_head(&file, 3, 1, 0);
    put_tensor(&file, name + 1, 1, 1, GGUF_F32, 0);
    put_padding(&file, 32);
    put_u32(&file, 0);
    gguf_file *opened = open_made(&file, NULL);
    CHECK(opened);
    close_made(opened);
}

TEST(keys_and_tensors_that_come_twice_are_refused) {
    static made_file file;
    put_head(&file, 3, 0, 3);
    for (int i = 0; i < 3; i++) {
        put_key(&file, i == 1 ? "other" : "same", GGUF_U32);
        put_u32(&file, 1);
    }
    is_refused(&file, "key \"same\"");
    is_refused(&file, "duplicate name");
    put_head(&file, 3, 2, 0);
    put_tensor(&file, "same", 1, 1, GGUF_F32, 0);
    put_tensor(&file, "same", 1, 1, GGUF_F32, 32);
    put_padding(&file, 32);
    for (int i = 0; i < 16; i++) {
        put_u32(&file, 0);
    }
    is_refused(&file, "tensor \"same\"");
    is_refused(&file, "duplicate name");
}

// A file with one tensor, and data enough for 1024 bytes.
static void one_tensor(made_file *file, uint64_t columns, uint64_t rows, uint32_t type,
                       uint64_t place) {
    static const uint8_t data[1024];
    put_head(file, 3, 1, 0);
    put_tensor(file, "the.tensor", columns, rows, type, place);
    put_padding(file, 32);
    put_bytes(file, data, sizeof data);
}

TEST(tensors_that_are_not_in_order_are_refused) {
    static made_file file;
    static const uint32_t types[] = {4, 5, 31, 32, 33, 36, 38, 43, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        one_tensor(&file, 32, 1, types[i], 0);
        is_refused(&file, "tensor \"the.tensor\"");
        is_refused(&file, "unknown element type");
    }
    one_tensor(&file, 33, 1, GGUF_Q8_0, 0);
    is_refused(&file, "rows of 33 elements are not made of q8_0's blocks of 32");
    one_tensor(&file, 128, 2, GGUF_Q4_K, 0);
    is_refused(&file, "rows of 128 elements are not made of q4_k's blocks of 256");
    one_tensor(&file, 0, 1, GGUF_F32, 0);
    is_refused(&file, "dimension 0 is 0");
    one_tensor(&file, 1, 0, GGUF_F32, 0);
    is_refused(&file, "dimension 1 is 0");
    one_tensor(&file, UINT64_C(1) << 62, 4, GGUF_F32, 0);
    is_refused(&file, "the number of elements overflows");
    one_tensor(&file, UINT64_C(1) << 32, UINT64_C(1) << 32, GGUF_F32, 0);
    is_refused(&file, "the number of elements overflows");
    one_tensor(&file, UINT64_C(1) << 62, 1, GGUF_F16, 0);
    is_refused(&file, "needs data up to");
}

TEST(tensors_have_to_lie_in_the_file_where_they_may) {
    static made_file file;
    lab_error error = {0};
    one_tensor(&file, 8, 1, GGUF_F32, 1024 - 32);
    gguf_file *opened = open_made(&file, &error);
    CHECK_MSG(opened, "%s", error.text);
    close_made(opened);
    one_tensor(&file, 8, 1, GGUF_F32, 1024);
    is_refused(&file, "needs data up to 1,152 bytes, but there are 1,120");
    one_tensor(&file, 8, 33, GGUF_F32, 0);
    is_refused(&file, "needs data up to");
    one_tensor(&file, 8, 1, GGUF_F32, 16);
    is_refused(&file, "is not a multiple of the alignment 32");
    one_tensor(&file, 8, 1, GGUF_F32, UINT64_MAX - 31);
    is_refused(&file, "is beyond any file");
    one_tensor(&file, 8, 1, GGUF_F32, UINT64_C(1) << 63);
    is_refused(&file, "needs data up to");
}

TEST(tensors_that_lie_in_the_same_place_are_refused) {
    static made_file file;
    static const uint8_t data[1024];
    static const uint64_t places[] = {0, 32, 64};
    for (size_t i = 0; i < 3; i++) {
        put_head(&file, 3, 2, 0);
        put_tensor(&file, "one", 8, 3, GGUF_F32, 0);
        put_tensor(&file, "two", 8, 1, GGUF_F32, places[i]);
        put_padding(&file, 32);
        put_bytes(&file, data, sizeof data);
        is_refused(&file, "overlaps");
    }
}

TEST(too_many_dimensions_are_refused) {
    static made_file file;
    put_head(&file, 3, 1, 0);
    put_text(&file, "the.tensor");
    put_u32(&file, 5);
    for (int i = 0; i < 20; i++) {
        put_u64(&file, 1);
    }
    is_refused(&file, "5 dimensions (at most 4 are allowed)");
}

// A file whose alignment is `alignment`, with a tensor in the second place.
static void aligned(made_file *file, uint32_t kind, uint64_t alignment, size_t unit) {
    static const uint8_t data[1024];
    put_head(file, 3, 1, 1);
    put_key(file, "general.alignment", kind);
    put_bytes(file, &alignment, kind == GGUF_U64 ? 8 : 4);
    put_tensor(file, "the.tensor", 8, 1, GGUF_F32, unit);
    put_padding(file, unit);
    put_bytes(file, data, sizeof data);
}

TEST(the_alignment_is_what_the_file_says) {
    static made_file file;
    static const uint32_t units[] = {1, 8, 64, 256};
    for (size_t i = 0; i < 4; i++) {
        lab_error error = {0};
        aligned(&file, GGUF_U32, units[i], units[i]);
        gguf_file *opened = open_made(&file, &error);
        CHECK_MSG(opened, "%s", error.text);
        CHECK(opened && opened->alignment == units[i] && opened->data_start % units[i] == 0);
        close_made(opened);
    }
    static const uint32_t wrong[] = {0, 3, 33, 1u << 31};
    for (size_t i = 0; i < 4; i++) {
        aligned(&file, GGUF_U32, wrong[i], 32);
        is_refused(&file, "\"general.alignment\" is");
    }
    aligned(&file, GGUF_U64, UINT64_MAX, 32);
    is_refused(&file, "general.alignment");
    aligned(&file, GGUF_FLOAT, 0x3f800000, 32);
    is_refused(&file, "key \"general.alignment\" is a number, not an integer");
}

TEST(types_that_cannot_be_turned_into_floats_are_told_apart) {
    static made_file file;
    static const uint8_t data[1024];
    put_head(&file, 3, 1, 0);
    put_tensor(&file, "the.tensor", 256, 1, 35, 0); // tq2_0
    put_padding(&file, 32);
    put_bytes(&file, data, sizeof data);
    lab_error error = {0};
    float row[256];
    gguf_file *opened = open_made(&file, &error);
    REQUIRE(opened);
    CHECK(!gguf_dequantise(gguf_find_tensor(opened, "the.tensor"), 0, row));
    CHECK(!gguf_get_tensor(opened, "the.tensor", 256, 1, &error));
    CHECK(strstr(error.text, "has the unsupported type tq2_0"));
    close_made(opened);
}

TEST(any_byte_may_be_wrong) {
    static made_file whole, changed;
    struct rng rng = rng_seeded(7);
    put_good_file(&whole);
    for (int i = 0; i < 20000; i++) {
        changed = whole;
        for (int64_t n = rng_integer(&rng, 1, 3); n > 0; n--) {
            changed.data[rng_integer(&rng, 0, (int64_t)whole.size - 1)] = (uint8_t)rng_bits(&rng);
        }
        lab_error error = {0};
        gguf_file *opened = open_made(&changed, &error);
        CHECK(opened || error.text[0] != '\0');
        close_made(opened);
    }
}

TEST(files_that_cannot_be_read_are_refused) {
    lab_error missing = {0}, folder = {0}, empty = {0};
    CHECK(!gguf_open("/nowhere/model.gguf", &missing));
    CHECK_STR(missing.text, "/nowhere/model.gguf: no such file");
    CHECK(!gguf_open("/", &folder) && strstr(folder.text, "Is a directory"));
    CHECK(!gguf_open("/dev/null", &empty) && empty.kind == LAB_INPUT);
}

// ---- real models ----

static gguf_file *open_model(const char *name) {
    char path[MODEL_PATH_SIZE];
    lab_error error = {0};
    gguf_file *file = gguf_open(model_path(name, path), &error);
    CHECK_MSG(file, "%s", error.text);
    REQUIRE(file);
    return file;
}

TEST(stories260K_is_read) {
    gguf_file *file = open_model("stories260K-f32.gguf");
    gguf_text text;
    uint32_t heads;
    size_t count;
    CHECK(gguf_get_text(file, "general.architecture", &text, NULL) && gguf_text_is(text, "llama"));
    CHECK(gguf_get_u32(file, "llama.attention.head_count", &heads, NULL) && heads == 8);
    gguf_text *tokens = gguf_get_texts(file, "tokenizer.ggml.tokens", &count, NULL);
    CHECK(tokens && count == 512);
    free(tokens);
    CHECK(gguf_get_tensor(file, "blk.4.attn_q.weight", 64, 64, NULL));
    CHECK(gguf_get_tensor(file, "blk.4.attn_k.weight", 64, 32, NULL));
    gguf_close(file);
}

TEST(eight_bits_are_near_the_floats_they_stand_for) {
    gguf_file *exact = open_model("stories260K-f32.gguf");
    gguf_file *rounded = open_model("stories260K-q8_0.gguf");
    CHECK_INT(exact->n_tensors, rounded->n_tensors);
    for (uint64_t i = 0; i < exact->n_tensors; i++) {
        const gguf_tensor *tensor = &exact->tensors[i];
        char name[GGUF_NAME_MAX + 1];
        snprintf(name, sizeof name, "%.*s", (int)tensor->name.length, tensor->name.bytes);
        const gguf_tensor *other =
            gguf_get_tensor(rounded, name, tensor->dims[0], tensor->rows, NULL);
        float a[512] = {0}, b[512] = {0};
        REQUIRE(other && tensor->dims[0] <= 512);
        for (uint64_t row = 0; row < tensor->rows; row++) {
            REQUIRE(gguf_dequantise(tensor, row, a) && gguf_dequantise(other, row, b));
            double worst = 0, largest = 0;
            for (uint64_t j = 0; j < tensor->dims[0]; j++) {
                worst = fmax(worst, fabs((double)a[j] - (double)b[j]));
                largest = fmax(largest, fabs((double)a[j]));
            }
            // Half a step, and what rounding the scale to f16 adds at 127 steps.
            CHECK_MSG(worst <= 0.57 * largest / 127, "%s: %g of %g", name, worst, largest);
        }
    }
    gguf_close(exact);
    gguf_close(rounded);
}

TEST(a_header_cut_off_is_refused_with_its_size) {
    lab_error error = {0};
    CHECK(!gguf_open_memory("GGUF\3\0\0\0", 8, "cut.gguf", &error));
    CHECK_STR(error.text, "cut.gguf: truncated header (8 of at least 24 bytes)");
}

TEST(a_model_cut_off_is_refused) {
    gguf_file *file = open_model("stories260K-q8_0.gguf");
    lab_error error = {0};
    CHECK(!gguf_open_memory(file->bytes, file->size - 4096, "cut.gguf", &error));
    CHECK_MSG(strstr(error.text, "truncated file: tensor"), "%s", error.text);
    gguf_close(file);
}
