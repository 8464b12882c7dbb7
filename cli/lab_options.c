/* Errors of the laboratory as exit statuses; lists of numbers such as 4,5 or 16..64, and ranges. */
#include "lab_options.h"

#include "commands.h"
#include "messages.h"

#include "base/grouped.h"
#include "base/signals.h"
#include "llama/index_set.h"

#include <stdio.h>
#include <string.h>

int lab_error_status(const lab_error *error) {
    switch (error->kind) {
    case LAB_INPUT:
        return STATUS_MISUSE;
    case LAB_STOPPED:
        return STATUS_STOPPED;
    case LAB_SYSTEM:
    case LAB_NO_ERROR:
        break;
    }
    return STATUS_FAILED;
}

int report_lab_error(const lab_error *error) {
    complain("%s", error->kind == LAB_NO_ERROR ? "failed for an unknown reason" : error->text);
    return lab_error_status(error);
}

int report_failure(const lab_error *error) {
    if (!lab_interrupted())
        return report_lab_error(error);
    complain("stopped; the same command continues from here");
    return STATUS_STOPPED;
}

int report_unreadable(const char *path, int reason) {
    lab_error error = {.kind = LAB_NO_ERROR};
    lab_fail_read(&error, path, reason);
    return report_lab_error(&error);
}

int take_model(const command_syntax *syntax, int operands, char **argv, const char **model) {
    if (operands > 0 && *model) {
        complain("two models given: '%s' and '%s'", *model, argv[1]);
        return STATUS_MISUSE;
    }
    *model = operands > 0 ? argv[1] : *model;
    if (*model)
        return STATUS_OK;
    complain_of_missing(syntax, 0);
    return STATUS_MISUSE;
}

int refuse_value(const char *option, const char *value, const char *wanted) {
    complain("--%s: '%s' is not %s", option, value, wanted);
    return STATUS_MISUSE;
}

int parse_index_list(const char *option, const char *text, index_set *set) {
    message ignored;
    *set = (index_set){.count = 0};
    return !text || index_set_parse(text, set, &ignored)
               ? STATUS_OK
               : refuse_value(option, text, "a list such as 0-3,7");
}

/* The factor behind a range, ":x2"; 0 where there is none, and false where it is none. */
static bool take_factor(const char **text, uint64_t *factor) {
    *factor = 0;
    if (strncmp(*text, ":x", 2) != 0)
        return true;
    *text += 2;
    return take_whole_number(text, UINT32_MAX, factor) && *factor >= 2;
}

/* Adds the numbers of a range. False if they do not fit. */
static bool add_range(number_range range, uint64_t factor, number_list *list) {
    for (uint64_t value = range.first;; value = factor ? factor * value : value + 1) {
        if (list->count == LIST_MAX)
            return false;
        list->items[list->count++] = value;
        if (factor ? value > range.last / factor : value == range.last)
            return true;
    }
}

static bool take_element(const char **text, number_range *range, uint64_t *factor) {
    if (!take_whole_number(text, UINT64_MAX, &range->first))
        return false;
    range->last = range->first;
    if (strncmp(*text, "..", 2) == 0) {
        *text += 2;
        if (!take_whole_number(text, UINT64_MAX, &range->last) || !take_factor(text, factor))
            return false;
    }
    if (**text == ',')
        ++*text;
    else if (**text)
        return false;
    return range->first <= range->last && (*factor == 0 || range->first);
}

/* Whether a range lies within limits. False after a message. */
static bool is_within(const char *option, number_range range, uint64_t least, uint64_t most) {
    char texts[3][NUMBER_SIZE];
    if (range.first >= least && range.last <= most)
        return true;
    complain("--%s: %s is out of range (%s to %s)", option,
             grouped(range.first < least ? range.first : range.last, texts[0]),
             grouped(least, texts[1]), grouped(most, texts[2]));
    return false;
}

bool parse_number_list(const char *option, const char *text, uint64_t least, uint64_t most,
                       number_list *list) {
    size_t length = strlen(text);
    bool is_good = length > 0 && text[length - 1] != ',';
    list->count = 0;
    for (const char *rest = text; is_good && *rest;) {
        number_range range;
        uint64_t factor = 0;
        is_good = take_element(&rest, &range, &factor);
        if (is_good && !is_within(option, range, least, most))
            return false;
        if (is_good && !add_range(range, factor, list)) {
            complain("--%s: '%s' has more than %d numbers; 16..16384:x2 doubles from one to the "
                     "next",
                     option, text, LIST_MAX);
            return false;
        }
    }
    if (is_good)
        return true;
    complain("--%s: '%s' is not a list of whole numbers, " LIST_FORM, option, text);
    return false;
}

bool parse_draw_range(const char *option, const char *text, uint64_t least, uint64_t most,
                      number_range *range) {
    const char *rest = text, *before = text;
    bool is_good = take_number_range(&rest, "-", UINT64_MAX, range) ||
                   ((rest = before), take_number_range(&rest, "..", UINT64_MAX, range));
    if (is_good && !*rest && !strchr(text, ','))
        return is_within(option, *range, least, most);
    complain("--%s: '%s' is not a range such as 5-16", option, text);
    return false;
}
