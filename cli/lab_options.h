/* What the commands of the laboratory share: lists of numbers, and errors as exit statuses. */
#ifndef WHET_CLI_LAB_OPTIONS_H
#define WHET_CLI_LAB_OPTIONS_H

#include "options.h"

#include "base/error.h"
#include "base/number_range.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints an error of the laboratory and returns the exit status for it. */
int report_lab_error(const lab_error *error);

/* The same for runs that the same command continues: after an interrupt the message says so. */
int report_failure(const lab_error *error);

/* The status of report_lab_error alone. */
int lab_error_status(const lab_error *error);

/* The same of a file that cannot be read, by errno. */
int report_unreadable(const char *path, int reason);

/* The model of a command that takes it as its operand or by --model: a status, after a message if
 * there is none or there are two. */
int take_model(const command_syntax *syntax, int operands, char **argv, const char **model);

/* Says that an option's value is not what is wanted ("a list such as 0-3,7"); returns the status.
 */
int refuse_value(const char *option, const char *value, const char *wanted);

/* What does not fit becomes what no check lets pass. */
static inline uint32_t clamp_small(uint64_t value) {
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

struct index_set; /* llama/index_set.h */

enum { LIST_MAX = 1024 };

typedef struct number_list {
    uint64_t items[LIST_MAX];
    size_t count;
} number_list;

/* "16", "1,2,5", "1..10" (all between) or "16..256:x2" (16, 32 ... 256). False after a message. */
bool parse_number_list(const char *option, const char *text, uint64_t least, uint64_t most,
                       number_list *list);

/* What numbers are drawn from: "5-16", or one number. "5..16" is accepted too, as it was written
 * before. False after a message. */
bool parse_draw_range(const char *option, const char *text, uint64_t least, uint64_t most,
                      number_range *range);

/* Layers or heads, "0-3,7", as the plug-in reads them; all of them where there is no text. A
 * status, after a message. Free the set's ranges. */
int parse_index_list(const char *option, const char *text, struct index_set *set);

/* For the help of such options. */
#define LIST_FORM "such as 8,16..20 or, doubling, 16..256:x2"

/* Numbers of a list as sizes. */
static inline void copy_sizes(const number_list *list, size_t sizes[LIST_MAX]) {
    for (size_t i = 0; i < list->count; i++)
        sizes[i] = (size_t)list->items[i];
}

#endif
