/* The help of a command, made from its table of options. */
#include "help.h"

#include "text.h"

#include <stdio.h>
#include <string.h>

/* Where summaries begin; an option that reaches further has a line of its own. */
enum { SUMMARY_COLUMN = 27 };

const char *join_words(const char *const *words, char text[WORDS_SIZE_MAX]) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; words[i] && used < WORDS_SIZE_MAX; i++)
        used += (size_t)snprintf(text + used, WORDS_SIZE_MAX - used, "%s%s",
                                 i == 0         ? ""
                                 : words[i + 1] ? ", "
                                                : " or ",
                                 words[i]);
    return text;
}

const char *one_of(const char *const *words) {
    return words[0] && words[1] && words[2] ? "one of " : "";
}

const char *option_summary(const option_spec *option, char text[SUMMARY_SIZE]) {
    const char *place = option->words ? strstr(option->summary, "{}") : NULL;
    char words[WORDS_SIZE_MAX];
    if (!place)
        return option->summary;
    snprintf(text, SUMMARY_SIZE, "%.*s%s%s", (int)(place - option->summary), option->summary,
             join_words(option->words, words), place + 2);
    return text;
}

/* "-o, --out FILE" */
static void print_option(const option_spec *option) {
    char left[OPTION_TEXT_SIZE], summary[SUMMARY_SIZE];
    char letter[] = {'-', option->letter, ',', ' ', '\0'};
    bool is_optional = option->kind == OPTION_OPTIONAL;
    snprintf(left, sizeof left, "%s--%s%s%s%s%s", option->letter ? letter : "    ", option->name,
             option->value_name ? " " : "", is_optional ? "[" : "",
             option->value_name ? option->value_name : "", is_optional ? "]" : "");
    int used = printf("  %s", left);
    if (used > SUMMARY_COLUMN - 2) {
        putchar('\n');
        used = 0;
    }
    printf("%*s", SUMMARY_COLUMN - used, "");
    print_wrapped(stdout, option_summary(option, summary), SUMMARY_COLUMN);
}

static void print_options(const command_syntax *syntax) {
    for (size_t i = 0; i < syntax->option_count; i++) {
        const option_spec *option = &syntax->options[i];
        if (option->kind == OPTION_HEADING)
            printf("\n%s:\n", option->name);
        else if (i == 0)
            printf("\noptions:\n");
        if (option->kind != OPTION_HEADING)
            print_option(option);
    }
}

void print_common_options(void) {
    for (size_t i = 0; i < COMMON_OPTIONS; i++)
        print_option(&common_options[i]);
}

static void print_examples(const char *examples) {
    printf("\nexamples:\n");
    while (*examples) {
        int length = (int)strcspn(examples, "\n");
        printf("  %.*s\n", length, examples);
        examples += length + (examples[length] == '\n');
    }
}

void print_help(const command_syntax *syntax) {
    printf("usage: whet %s [OPTION]...%s%s\n\n%s", syntax->name, *syntax->operands ? " " : "",
           syntax->operands, syntax->about);
    print_options(syntax);
    printf("\noptions of every command:\n");
    print_common_options();
    if (syntax->more)
        printf("\n%s", syntax->more);
    if (syntax->examples)
        print_examples(syntax->examples);
}
