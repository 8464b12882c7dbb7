// SHA-256 of the standard's own examples, in one go and in pieces of every size.
#include "support/check.h"

#include "base/sha256.h"

#include <string.h>

static const struct {
    const char *text;
    const char *hash;
} examples[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnop"
     "qrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

TEST(the_examples_of_the_standard) {
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        size_t length = strlen(examples[i].text);
        for (size_t piece = 1; piece <= length + 1; piece++) {
            char text[LAB_SHA256_SIZE];
            lab_sha256 sum = lab_sha256_start();
            for (size_t at = 0; at < length; at += piece) {
                lab_sha256_add(&sum, examples[i].text + at,
                               at + piece < length ? piece : length - at);
            }
            lab_sha256_text(sum, text);
            CHECK_STR(text, examples[i].hash);
        }
    }
}

TEST(a_million_letters) {
    char letters[1000], text[LAB_SHA256_SIZE];
    lab_sha256 sum = lab_sha256_start();
    memset(letters, 'a', sizeof letters);
    for (int i = 0; i < 1000; i++) {
        lab_sha256_add(&sum, letters, sizeof letters);
    }
    lab_sha256_text(sum, text);
    CHECK_STR(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(a_file_that_is_not_there_is_an_error) {
    char text[LAB_SHA256_SIZE];
    lab_error error = {0};
    CHECK(!lab_sha256_file("/nowhere", text, &error));
    CHECK_STR(error.text, "/nowhere: no such file");
}
