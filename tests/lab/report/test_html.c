/* What goes into the page: text that cannot end its tag, data that comes back as it was. */
#include "support/check.h"

#include "report/html.h"

#include <stdlib.h>

static char *text_of(const char *text) {
    char *result = NULL;
    size_t size;
    FILE *file = open_memstream(&result, &size);
    REQUIRE(file != NULL);
    html_text(file, text);
    fclose(file);
    return result;
}

static char *base64_of(const char *data, size_t size) {
    char *result = NULL;
    size_t length;
    FILE *file = open_memstream(&result, &length);
    REQUIRE(file != NULL);
    html_base64(file, data, size);
    fclose(file);
    return result;
}

TEST(what_html_would_read_as_its_own_is_escaped) {
    char *text = text_of("a < b && \"c\" > d");
    CHECK_STR(text, "a &lt; b &amp;&amp; &quot;c&quot; > d");
    free(text);
    text = text_of("");
    CHECK_STR(text, "");
    free(text);
}

TEST(base_64_is_that_of_the_standard) {
    /* the vectors of RFC 4648 */
    const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    const char *const coded[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t i = 0; i < 7; i++) {
        char *text = base64_of(plain[i], i);
        CHECK_STR(text, coded[i]);
        free(text);
    }
}

static unsigned value_of(char digit) {
    if (digit >= 'A' && digit <= 'Z')
        return (unsigned)(digit - 'A');
    if (digit >= 'a' && digit <= 'z')
        return (unsigned)(digit - 'a') + 26;
    if (digit >= '0' && digit <= '9')
        return (unsigned)(digit - '0') + 52;
    return digit == '+' ? 62 : 63;
}

TEST(every_byte_comes_back) {
    char data[258];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7);
    char *text = base64_of(data, sizeof data);
    CHECK_INT(strlen(text), sizeof data / 3 * 4);
    for (size_t i = 0; i < sizeof data; i += 3) {
        const char *digits = text + i / 3 * 4;
        unsigned bits = 0;
        for (size_t j = 0; j < 4; j++)
            bits = bits << 6 | value_of(digits[j]);
        for (size_t j = 0; j < 3; j++)
            CHECK_INT((unsigned char)data[i + j], bits >> (16 - 8 * j) & 255);
    }
    free(text);
}
