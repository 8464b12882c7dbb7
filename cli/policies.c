/*
 * `whet policies`: the library's table of policies, aligned for people, as JSON
 * for programs, or as bare names, which is what shell completions use.
 */
#include "policies.h"

#include "commands.h"
#include "json.h"
#include "messages.h"
#include "options.h"
#include "results.h"
#include "text.h"

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

const whet_policy_info *policy_entry(size_t index) {
    const whet_policy_info *info = whet_policy_table(index);
    if (info)
        return info;
    return index > 0 && whet_policy_table(index - 1) ? &composition : NULL;
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
    printf("  each takes :strength=S, which replaces beta by 1 + S (beta - 1)\n\n");
    print_group("other maps from logits to coefficients", false);
    printf("\ncompositions: %s is %s,\n"
           "as in %s, ssmax:0.3:0.5+softmax1 and length:2048+topk:64\n",
           composition.syntax, composition.summary, composition.example);
}

static void print_names(void) {
    const whet_policy_info *info;
    for (size_t i = 0; (info = policy_entry(i)) != NULL; i++)
        printf("%s\n", info->example);
}

/* The names of the parameters that the example has. */
static void print_parameters(FILE *file, const whet_policy_info *info) {
    whet_policy policy = whet_policy_softmax();
    whet_policy_parse(info->example, &policy, NULL, 0);
    whet_parameter parameters[32];
    const size_t most = sizeof parameters / sizeof *parameters;
    size_t count = whet_policy_parameters(&policy, parameters, most);
    const char *separator = "";
    fputs(", \"parameters\": [", file);
    for (size_t i = 0; i < count && i < most; i++) {
        /* A map alone has a beta of 1, which strength does not change. */
        if (!info->is_temperature && strcmp(parameters[i].name, "strength") == 0)
            continue;
        fputs(separator, file);
        json_text(file, parameters[i].name);
        separator = ", ";
    }
    fputc(']', file);
}

static void write_json(FILE *file, const void *context) {
    const whet_policy_info *info;
    (void)context;
    for (size_t i = 0; (info = policy_entry(i)) != NULL; i++) {
        fputs(i == 0 ? "[\n  {\"syntax\": " : ",\n  {\"syntax\": ", file);
        json_text(file, info->syntax);
        fputs(", \"example\": ", file);
        json_text(file, info->example);
        fprintf(file,
                ", \"temperature\": %s, \"summary\": ", info->is_temperature ? "true" : "false");
        json_text(file, info->summary);
        print_parameters(file, info);
        fputc('}', file);
    }
    fputs("\n]\n", file);
}

int command_policies(int argc, char **argv) {
    const char *json = NULL;
    bool as_names = false;
    const option_spec options[] = {
        json_option(&json,
                    "JSON instead of a table, or in FILE beside it: an array of objects with "
                    "syntax, example, temperature (whether the policy sets beta), summary and "
                    "parameters (the names of those that the example has)"),
        {"names", OPTION_FLAG, &as_names, NULL, "print only names, a working example of each"},
    };
    const command_syntax syntax = {
        .name = "policies",
        .operands = "",
        .about =
            "Lists the policies that can sharpen rows of logits. A policy is a temperature, a\n"
            "map, or both: TEMPERATURE+MAP, such as adaptive+entmax15.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .examples = "whet policies\n"
                    "echo 1 2 3 4 | whet softmax --policy adaptive+entmax15\n",
    };
    int operands;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    if (json && as_names) {
        return refuse_together("json", "names");
    }
    int status = reserve_output(&json, 1);
    if (status == STATUS_OK && json)
        status = keep_table(json, write_json, NULL);
    if (status != STATUS_OK)
        return status;
    if (as_names)
        print_names();
    else
        print_table();
    return STATUS_OK;
}
