/*
 * The program's option parser: the input is a command line, its arguments
 * separated by newlines. What is taken must come from the arguments, what is
 * refused must have been complained of, and help goes to standard output alone.
 */
#include "commands.h"
#include "input.h"
#include "options.h"

enum { ARGUMENTS_MAX = 64, OPERANDS_MAX = 3 };

static size_t split(const uint8_t *data, size_t size, char **arguments) {
    size_t count = 0;
    for (size_t at = 0; at < size && count < ARGUMENTS_MAX;) {
        const uint8_t *newline = memchr(data + at, '\n', size - at);
        size_t length = newline ? (size_t)(newline - data) - at : size - at;
        arguments[count] = fuzz_allocate(length + 1);
        memcpy(arguments[count], data + at, length);
        arguments[count++][length] = '\0';
        at += length + 1;
    }
    return count;
}

/* Whether a text is an argument or the end of one. */
static bool comes_from(const char *text, char *const *arguments, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (text >= arguments[i] && text <= arguments[i] + strlen(arguments[i])) {
            return true;
        }
    }
    return false;
}

#if defined(__GLIBC__)
/* Standard output and error in memory while the parser runs; what it said is checked. */
typedef struct capture {
    FILE *real;
    char *text;
    size_t size;
} capture;

static void begin_capture(capture *held, FILE **stream) {
    *held = (capture){.real = *stream};
    FILE *memory = open_memstream(&held->text, &held->size);
    if (!memory) {
        exit(0);
    }
    *stream = memory;
}

static void end_capture(capture *held, FILE **stream) {
    fclose(*stream);
    *stream = held->real;
}
#endif

static options_result parse(const command_syntax *syntax, int argc, char **argv, int *operands) {
#if defined(__GLIBC__)
    capture output;
    capture errors;
    begin_capture(&output, &stdout);
    begin_capture(&errors, &stderr);
    options_result result = parse_options(syntax, argc, argv, operands);
    end_capture(&errors, &stderr);
    end_capture(&output, &stdout);
    FUZZ_CHECK((output.size > 0) == (result == OPTIONS_ANSWERED));
    FUZZ_CHECK((errors.size > 0) == (result == OPTIONS_MISUSED));
    FUZZ_CHECK(errors.size == 0 || strncmp(errors.text, "whet", 4) == 0);
    free(output.text);
    free(errors.text);
    return result;
#else
    return parse_options(syntax, argc, argv, operands);
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *arguments[ARGUMENTS_MAX];
    char *argv[ARGUMENTS_MAX + 2];
    char name[] = "fuzz";
    size_t count = split(data, size, arguments);
    argv[0] = name;
    for (size_t i = 0; i < count; i++) {
        argv[i + 1] = arguments[i];
    }
    argv[count + 1] = NULL;

    bool flag = false;
    const char *text = NULL;
    text_list list = {0};
    uint64_t number = 7;
    const option_spec options[] = {
        {"flag", OPTION_FLAG, &flag, NULL, "a flag"},
        {"text", OPTION_TEXT, &text, "TEXT", "a text whose\nexplanation has two lines"},
        {"list", OPTION_LIST, &list, "ITEM", "may be repeated"},
        {"a-number-with-a-long-name", OPTION_UNSIGNED, &number, "NUMBER", "a number"},
    };
    const command_syntax syntax = {
        .name = "fuzz",
        .operands = "[FILE...]",
        .about = "Is fuzzed.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .operands_limit = OPERANDS_MAX,
    };
    int operands = 0;
    options_result result = parse(&syntax, (int)count + 1, argv, &operands);
    FUZZ_CHECK(options_status(result) == (result == OPTIONS_MISUSED ? STATUS_MISUSE : STATUS_OK));
    FUZZ_CHECK(!text || comes_from(text, arguments, count));
    FUZZ_CHECK(list.count <= count);
    for (size_t i = 0; i < list.count; i++) {
        FUZZ_CHECK(comes_from(list.items[i], arguments, count));
    }
    if (result == OPTIONS_GIVEN) {
        FUZZ_CHECK(operands >= 0 && operands <= OPERANDS_MAX && (size_t)operands <= count);
        for (int i = 1; i <= operands; i++) {
            FUZZ_CHECK(comes_from(argv[i], arguments, count));
        }
    }
    free(list.items);
    for (size_t i = 0; i < count; i++) {
        free(arguments[i]);
    }
    return 0;
}
