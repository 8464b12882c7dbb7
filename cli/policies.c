/*
 * `whet policies`: the library's table of policies, aligned for people, as JSON
 * for programs, or as bare names, which is what shell completions use.
 */
#include "commands.h"
#include "json.h"
#include "messages.h"
#include "options.h"
#include "text.h"
#include "whet.h"

#include <stdio.h>
#include <string.h>

/* A longer syntax stands on a line of its own. */
enum { SYNTAX_WIDTH_MAX = 20 };

/* Compositions are not in the library's table: they are pairs of its entries. */
static const whet_policy_info composition = {
    "TEMPERATURE+MAP",
    "the map of beta e, beta by the temperature",
    "adaptive+entmax15",
    1,
};

/* Entry i of the table, the composition after the last; NULL past the end. */
static const whet_policy_info *entry_at(size_t i) {
    const whet_policy_info *info = whet_policy_table(i);
    if (info)
        return info;
    return i > 0 && whet_policy_table(i - 1) ? &composition : NULL;
}

static int syntax_width(void) {
    int width = 0;
    const whet_policy_info *info;
    for (size_t i = 0; (info = whet_policy_table(i)) != NULL; i++) {
        int length = (int)strlen(info->syntax);
        if (length <= SYNTAX_WIDTH_MAX && length > width)
            width = length;
    }
    return width;
}

static void print_group(const char *heading, bool temperatures) {
    int width = syntax_width();
    printf("%s\n", heading);
    const whet_policy_info *info;
    for (size_t i = 0; (info = whet_policy_table(i)) != NULL; i++) {
        if ((info->is_temperature != 0) != temperatures)
            continue;
        if ((int)strlen(info->syntax) > width)
            printf("  %s\n%*s", info->syntax, width + 4, "");
        else
            printf("  %-*s  ", width, info->syntax);
        print_wrapped(stdout, info->summary, width + 4);
    }
}

static void print_table(void) {
    print_group("temperatures: softmax(beta e), H = entropy of softmax(e) in nats, n = entries",
                true);
    printf("  each takes :strength=S, which makes of beta 1 + S (beta - 1)\n\n");
    print_group("other maps from logits to coefficients", false);
    printf("\ncompositions: %s is %s,\n"
           "as in %s, ssmax:0.3:0.5+softmax1 and length:2048+topk:64\n",
           composition.syntax, composition.summary, composition.example);
}

static void print_names(void) {
    const whet_policy_info *info;
    for (size_t i = 0; (info = entry_at(i)) != NULL; i++)
        printf("%s\n", info->example);
}

/* The names of the parameters that the example has. */
static void print_parameters(const whet_policy_info *info) {
    whet_policy policy = whet_policy_softmax();
    whet_policy_parse(info->example, &policy, NULL, 0);
    whet_parameter parameters[32];
    const size_t room = sizeof parameters / sizeof *parameters;
    size_t count = whet_policy_parameters(&policy, parameters, room);
    const char *separator = "";
    fputs(", \"parameters\": [", stdout);
    for (size_t i = 0; i < count && i < room; i++) {
        /* A map alone has a beta of 1, of which strength makes the same. */
        if (!info->is_temperature && strcmp(parameters[i].name, "strength") == 0)
            continue;
        fputs(separator, stdout);
        json_text(stdout, parameters[i].name);
        separator = ", ";
    }
    fputc(']', stdout);
}

static void print_json(void) {
    const whet_policy_info *info;
    for (size_t i = 0; (info = entry_at(i)) != NULL; i++) {
        fputs(i == 0 ? "[\n  {\"syntax\": " : ",\n  {\"syntax\": ", stdout);
        json_text(stdout, info->syntax);
        fputs(", \"example\": ", stdout);
        json_text(stdout, info->example);
        printf(", \"temperature\": %s, \"summary\": ", info->is_temperature ? "true" : "false");
        json_text(stdout, info->summary);
        print_parameters(info);
        fputc('}', stdout);
    }
    fputs("\n]\n", stdout);
}

int command_policies(int argc, char **argv) {
    bool as_json = false, as_names = false;
    const option_spec options[] = {
        {"json", OPTION_FLAG, &as_json, NULL,
         "print a JSON array of objects: syntax, example, temperature (whether it chooses a beta), "
         "summary, parameters (the names of those that the example has)"},
        {"names", OPTION_FLAG, &as_names, NULL, "print one name a line, a working example of each"},
    };
    const command_syntax syntax = {
        .name = "policies",
        .operands = "",
        .about = "Lists the policies by which rows of logits can be sharpened. A policy is a\n"
                 "temperature, a map, or both: TEMPERATURE+MAP, such as adaptive+entmax15.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "examples:\n"
                "  whet policies\n"
                "  echo 1 2 3 4 | whet softmax --policy adaptive+entmax15\n",
    };
    int operands;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    if (as_json && as_names) {
        complain("policies: --json and --names cannot be had together");
        return STATUS_MISUSE;
    }
    if (as_json)
        print_json();
    else if (as_names)
        print_names();
    else
        print_table();
    return STATUS_OK;
}
