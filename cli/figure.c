/* `whet figure`: one picture of the report by itself. */
#include "reproduce.h"

#include "messages.h"
#include "probe.h"
#include "registry_words.h"

#include "base/signals.h"
#include "report/plot.h"

#include <stdio.h>
#include <string.h>

/* The part that a name stands for; NULL after a message. */
static const report_part *find_figure(const char *name) {
    const report_part *part = report_part_named(name), *other;
    if (part && part->draw)
        return part;
    if (report_elsewhere(name)) {
        complain("%s", report_elsewhere(name));
        return NULL;
    }
    nearest_word search = nearest_to(name, strlen(name));
    for (size_t i = 0; (other = report_part_at(i)) != NULL; i++)
        if (other->draw)
            nearest_offer(&search, other->name);
    if (search.found)
        complain("unknown figure '%s'; did you mean '%s'?", name, search.found);
    else
        complain("unknown figure '%s'; 'whet figure --help' lists them", name);
    return NULL;
}

static int draw(reproduce_arguments *given, const report_part *part, const char *path) {
    lab_error error = {.kind = LAB_NO_ERROR};
    lab_catch_interrupts();
    take_scale(given);
    if (!given->run.is_full && !reproduction_recall_scale(&given->run, &error))
        return report_lab_error(&error);
    int status = open_reproduction(given, part->needs != 0);
    report_jobs jobs = {.begun = 0};
    if (status == STATUS_OK && part->needs != 0) {
        jobs = jobs_plan(&given->experiment, part->needs);
        given->experiment.jobs = &jobs;
        status = confirm_work(&jobs, given->is_confirmed);
    }
    if (status == STATUS_OK && !part->draw(&given->experiment, path, &error))
        status = report_failure(&error);
    jobs_end();
    close_reproduction(given);
    if (status == STATUS_OK && !given->run.quiet)
        printf("%s: %s\n", path, part->title);
    return status;
}

int command_figure(int argc, char **argv) {
    /* It is about a language model, and has options of its own. */
    if (argc > 1 && (strcmp(argv[1], "3") == 0 || strcmp(argv[1], "figure3") == 0))
        return command_figure3(argc - 1, argv + 1);
    reproduce_arguments given = usual_reproduction();
    const char *path = NULL;
    const option_spec options[] = {
        OPTIONS_ABOUT("figure"),
        {"out", OPTION_TEXT, &path, "FILE", "figure to write, .svg or .png (default figureN.svg)",
         .letter = 'o', .values = VALUE_FILE},
        {"from", OPTION_TEXT, &given.run.folder, "DIR",
         "folder of 'whet reproduce' whose heads and results to use (default report); what is "
         "missing is computed first, at the scale of that run",
         .values = VALUE_FOLDER},
        yes_option(&given.is_confirmed),
        threads_option(&given.threads),
        OPTIONS_ABOUT("scale"),
        {"full", OPTION_FLAG, &given.run.is_full, NULL, "train ten heads of 100,000 steps: hours"},
        {"num-seeds", OPTION_RANGE, &given.seeds, "N",
         "number of heads of each kind to train (default: none; whet has trained ones)",
         .aliases = "seeds"},
        {"steps", OPTION_RANGE, &given.steps, "N", "number of training steps of each head"},
        fresh_steps_option(&given.fresh_steps),
        {"count", OPTION_RANGE, &given.sets, "N",
         "number of sets of each size to evaluate (default 4096)", .aliases = "sets"},
        {"lm-steps", OPTION_RANGE, &given.lm_steps, "N",
         "number of training steps of each language model (clrs)"},
        {"lm-count", OPTION_RANGE, &given.lm_samples, "N",
         "number of samples of each algorithm and length (clrs; default 128)",
         .aliases = "lm-samples"},
        {"lm-num-seeds", OPTION_RANGE, &given.lm_seeds, "N",
         "number of language models of each kind (clrs; default 1, with --full 3)",
         .aliases = "lm-seeds"},
    };
    char list[2048];
    const report_part *part;
    int length =
        snprintf(list, sizeof list,
                 "figures (a number is one of the paper's):\n"
                 "  figure3       Figure 3: heads of a language model as its input grows;\n"
                 "                'whet figure 3 MODEL.gguf' has options of its own\n");
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++)
        if (part->draw)
            length += snprintf(list + length, sizeof list - (size_t)length, "  %-13s %s\n",
                               part->name, part->title);
    const command_syntax syntax = {
        .name = "figure",
        .operands = "FIGURE",
        .about = "Draws one figure of the report, the paper's by number or another by name.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = list,
        .examples = "whet figure 5\n"
                    "whet figure accuracy --out accuracy.png\n",
        .operands_limit = 1,
        .operands_least = 1,
        .operand_values = VALUE_WORD,
        .operand_words = figure_words(),
    };
    int operands;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    part = find_figure(argv[1]);
    if (!part)
        return STATUS_MISUSE;
    char usual[64];
    snprintf(usual, sizeof usual, "%s.svg", part->name);
    lab_error error = {.kind = LAB_NO_ERROR};
    if (!plot_knows(path ? path : usual, &error))
        return report_lab_error(&error);
    return draw(&given, part, path ? path : usual);
}
