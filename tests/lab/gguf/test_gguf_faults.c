// Reading and writing GGUF files when memory runs out: every allocation fails in its turn, and each
// time there is a message, nothing is written and everything is freed.
#include "made.h"

#include "support/check.h"
#include "support/faults.h"

#include "gguf/write.h"

#include <unistd.h>

// Opens a file and reads an array of each sort; false and an error if something failed.
static bool read_all(const made_file *made, lab_error *error) {
    size_t count;
    gguf_file *file = gguf_open_memory(made->data, made->size, "made.gguf", error);
    if (!file) {
        return false;
    }
    gguf_text *texts = gguf_get_texts(file, "a.texts", &count, error);
    float *floats = texts ? gguf_get_floats(file, "a.floats", &count, error) : NULL;
    int32_t *integers = floats ? gguf_get_integers(file, "a.integers", &count, error) : NULL;
    bool is_read = integers != NULL;
    free(texts);
    free(floats);
    free(integers);
    gguf_close(file);
    return is_read;
}

TEST(reading_ends_in_good_order_when_memory_runs_out) {
    static made_file made;
    put_good_file(&made);
    for (int kind = FAULT_ONCE; kind <= FAULT_FOR_GOOD; kind++) {
        for (long k = 1;; k++) {
            lab_error error = {0};
            faults_begin(k, (fault_kind)kind);
            bool is_read = read_all(&made, &error);
            faults_end();
            CHECK_INT(faults_live(), 0);
            if (!faults_struck()) {
                CHECK(is_read && k > 5);
                break;
            }
            CHECK(!is_read && error.kind == LAB_SYSTEM);
            CHECK_STR(error.text, "out of memory");
        }
    }
}

static bool write_all(const char *path, lab_error *error) {
    static const float values[64];
    static const uint64_t dims[] = {32, 2};
    static const char *const words[] = {"a", "b"};
    gguf_writer *writer = gguf_writer_start();
    gguf_put_text(writer, "general.architecture", "llama");
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "key.%d", i);
        gguf_put_texts(writer, name, words, 2);
        gguf_put_tensor(writer, name, 2, dims, GGUF_Q8_0, values);
    }
    return gguf_writer_finish(writer, path, error);
}

TEST(writing_ends_in_good_order_when_memory_runs_out) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/whet-gguf-faults-%d.gguf", (int)getpid());
    for (int kind = FAULT_ONCE; kind <= FAULT_FOR_GOOD; kind++) {
        for (long k = 1;; k++) {
            lab_error error = {0};
            unlink(path);
            faults_begin(k, (fault_kind)kind);
            bool is_written = write_all(path, &error);
            faults_end();
            CHECK_INT(faults_live(), 0);
            if (!faults_struck()) {
                CHECK(is_written && k > 20);
                break;
            }
            CHECK(!is_written && error.kind == LAB_SYSTEM && error.text[0] != '\0');
            CHECK(access(path, F_OK) != 0);
        }
    }
    CHECK_INT(unlink(path), 0);
}
