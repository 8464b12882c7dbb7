/* What --help prints, and the pieces of it that the manual page and completions share. */
#ifndef WHET_CLI_HELP_H
#define WHET_CLI_HELP_H

#include "options.h"

enum { OPTION_TEXT_SIZE = 64, SUMMARY_SIZE = 2048, WORDS_SIZE_MAX = 1024 };

void print_help(const command_syntax *syntax);

/* "auto, always or never" */
const char *join_words(const char *const *words, char text[WORDS_SIZE_MAX]);

/* "one of " where there are more than two words: "is not one of a, b or c", "is not a or b". */
const char *one_of(const char *const *words);

/* An option's summary in which {} is replaced by its words. */
const char *option_summary(const option_spec *option, char text[SUMMARY_SIZE]);

/* The options that every command takes, as they are listed: indented, a line or more each. */
void print_common_options(void);

#endif
