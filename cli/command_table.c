/* The table of commands, in the order in which the overview lists them. */
#include "command_table.h"

#include <stdio.h>
#include <string.h>

static const subcommand commands[] = {
    {"softmax", "probabilities or statistics of rows of numbers", command_softmax},
    {"policies", "list the policies", command_policies},
    {"demo", "show how softmax spreads out as n grows, and how each policy counters it",
     command_demo},
    {"reproduce", "reproduce the paper's table and figures, as a report", command_reproduce},
    {"figure", "draw one figure of the report", command_figure, .form = "3"},
    {"retrieval", "train heads on max retrieval and measure how they scale", command_retrieval,
     .has_verbs = true},
    {"theory", "check the paper's theorems with numbers: both sides of each inequality",
     command_theory},
    {"probe", "measure a language model's heads as its input grows", command_probe},
    {"audit", "compute from a model's weights how sharp its heads can become", command_audit},
    {"tune", "find the temperatures that a language model gains from", command_tune},
    {"gguf", "list or convert the tensors of a GGUF file", command_gguf},
    {"clrs", "generate CLRS-Text: textbook algorithms as questions and answers", command_clrs,
     .has_verbs = true},
    {"lm", "train, evaluate and run small language models", command_lm, .has_verbs = true},
    {"league", "train every policy on every task and rank them far beyond their training size",
     command_league},
    {"bench", "measure speed against the limits of the machine", command_bench, .form = "clrs"},
    {"help", "explain a command; print the manual page or completions", command_help},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

const subcommand *command_at(size_t index) {
    return index < COMMAND_COUNT ? &commands[index] : NULL;
}

const subcommand *find_command(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void run_form(const subcommand *command, const char *form) {
    char name[32], argument[32];
    snprintf(name, sizeof name, "%s", command->name);
    snprintf(argument, sizeof argument, "%s", form ? form : "");
    char *argv[] = {name, form ? argument : NULL, NULL};
    command->run(form ? 2 : 1, argv);
}

void visit_all_commands(syntax_visitor visit, void *context) {
    visit_syntaxes(visit, context);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        run_form(&commands[i], NULL);
        if (commands[i].form)
            run_form(&commands[i], commands[i].form);
    }
    visit_syntaxes(NULL, NULL);
}

/* A visitor that lets one command through, or the verbs of one. */
typedef struct selection {
    const char *name;
    syntax_visitor visit;
    void *context;
} selection;

static void visit_selected(const command_syntax *syntax, void *context) {
    const selection *of = context;
    size_t length = strlen(of->name);
    const subcommand *command = find_command(of->name);
    bool is_verb = command && command->has_verbs && strncmp(syntax->name, of->name, length) == 0 &&
                   syntax->name[length] == ' ';
    if (is_verb || strcmp(syntax->name, of->name) == 0)
        of->visit(syntax, of->context);
}

void visit_command(const char *name, syntax_visitor visit, void *context) {
    selection of = {name, visit, context};
    visit_all_commands(visit_selected, &of);
}
