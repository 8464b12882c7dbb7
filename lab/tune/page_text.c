/* The verdict in words: what was found, what it costs, and what to do. */
#include "report/html.h"
#include "tune/arms.h"
#include "tune/page.h"

#include <math.h>
#include <string.h>

static const char *const sharing[] = {
    "one temperature for all heads", "a temperature for each layer", "a temperature for each head"};

/* "beyond 256 tokens ", where that is what the gain is about. */
static void write_part(FILE *file, const tune_result *r) {
    if (r->part == TUNE_BEYOND)
        fprintf(file, "beyond %.0f tokens ", r->n0);
}

static void write_change(FILE *file, const tune_result *r, const char *base, tune_part part) {
    tune_page_change(file, tune_change_between(r, "chosen", base, SIZE_MAX, part), true);
}

static void write_task_gain(FILE *file, const tune_page *p) {
    const tune_result *r = p->result;
    fputs("improves task <b>", file);
    html_text(file, p->request->task);
    fprintf(file, "</b>: right answer tokens from %.1f to <b>%.1f %%</b>, loss a token ",
            100 * tune_task_mean(r, "softmax", tune_right),
            100 * tune_task_mean(r, "chosen", tune_right));
    tune_page_change(file, tune_task_change(r, "chosen", "softmax", tune_answer_loss), false);
    fputs(". Its price: perplexity on the check texts ", file);
    write_change(file, r, "softmax", TUNE_ALL);
    fputs(".", file);
}

static void write_perplexity_gain(FILE *file, const tune_result *r) {
    lab_interval change = tune_total_change(r, "chosen", r->part);
    fputs("lowers perplexity ", file);
    write_part(file, r);
    fprintf(file, "on the check texts by <b>%.2f %%</b> [%.2f, %.2f] against softmax.",
            -100 * change.mean, -100 * change.high, -100 * change.low);
    if (r->part == TUNE_BEYOND) {
        fprintf(file, " Up to %.0f tokens it changes by ", r->n0);
        write_change(file, r, "softmax", TUNE_WITHIN);
        fputs(".", file);
    }
}

static void write_code(FILE *file, const char *before, const char *text) {
    fprintf(file, "<code>%s", before);
    html_text(file, text);
    fputs("</code>", file);
}

static void write_use(FILE *file, const tune_page *p) {
    fputs("<p>To use it, name the file that holds it: <code>WHET_CONFIG=", file);
    html_text(file, p->out);
    fputs(" llama-cli -m ", file);
    html_text(file, p->request->model);
    fputs("</code>", file);
    if (p->request->rope) {
        fputs(", with the scaling of positions it was tuned for, ", file);
        write_code(file, "", p->request->rope);
    }
    fputs(".</p>\n", file);
}

/* What the controls say about it. */
static void write_controls(FILE *file, const tune_page *p) {
    static const char *const names[] = {"one number", "permuted", "one number at equal cost"};
    static const char *const words[] = {"one temperature for all heads",
                                        "the same numbers dealt to other heads",
                                        "one temperature that costs at most as much perplexity"};
    const tune_result *r = p->result;
    bool is_begun = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!tune_find(r, names[i]) || (i == 0 && r->by == TUNE_BY_ALL))
            continue;
        fprintf(file, "%s%s: ", is_begun ? "; against " : "<p class=\"note\">Against ", words[i]);
        tune_page_change(file, tune_chosen_against(r, names[i]), !p->request->task);
        is_begun = true;
    }
    if (is_begun)
        fprintf(file, " (%s).</p>\n",
                p->request->task ? "loss of an answer's token" : "perplexity");
    const char *better = tune_better_control(r);
    if (better)
        fprintf(file, "<p><b class=\"no\">But %s is better on the check texts.</b></p>\n", better);
}

static void write_found(FILE *file, const tune_page *p) {
    const tune_result *r = p->result;
    fputs("<p class=\"lead\"><b class=\"yes\">Found.</b> ", file);
    fprintf(file, "%c%s ", sharing[r->by][0] - 'a' + 'A', sharing[r->by] + 1);
    if (p->request->task)
        write_task_gain(file, p);
    else
        write_perplexity_gain(file, r);
    fputs("</p>\n", file);
    write_use(file, p);
    write_controls(file, p);
}

static void write_nothing(FILE *file, const tune_page *p) {
    const tune_result *r = p->result;
    fputs("<p class=\"lead\"><b class=\"no\">Nothing to gain.</b> ", file);
    if (r->is_chosen) {
        fputs("What gained on the validation texts is not confirmed by the check texts: ", file);
        if (p->request->task) {
            fputs("loss of an answer's token ", file);
            tune_page_change(file, tune_task_change(r, "chosen", "softmax", tune_answer_loss),
                             false);
        } else {
            fputs("perplexity ", file);
            write_part(file, r);
            write_change(file, r, "softmax", r->part);
        }
    } else {
        fprintf(file,
                "No candidate has a certain gain on the validation texts without making a domain "
                "worse by more than %g %%",
                100 * p->request->limit);
    }
    fputs(". Leave the model as it is: ", file);
    write_code(file, "", p->out);
    fputs(" has β = 1.</p>\n", file);
}

static void write_better_arm(FILE *file, const tune_page *p) {
    const tune_result *r = p->result;
    const char *best = tune_better_arm(r);
    if (!best)
        return;
    fputs("<p>", file);
    if (strchr(best, ':')) {
        fputs("Another scaling of positions is better for this model and these texts: ", file);
        write_code(file, "--rope ", best);
    } else {
        fprintf(file, "A window of %.0f tokens is better for this model and these texts", r->n0);
    }
    fputs(" (perplexity ", file);
    write_part(file, r);
    tune_page_change(
        file,
        tune_change_between(r, best, r->is_confirmed ? "chosen" : "softmax", SIZE_MAX, TUNE_BEYOND),
        true);
    fputs(").</p>\n", file);
}

void tune_page_verdict(FILE *file, const tune_page *p) {
    fputs("<section id=\"verdict\">\n", file);
    if (p->result->is_confirmed)
        write_found(file, p);
    else
        write_nothing(file, p);
    write_better_arm(file, p);
    fputs("</section>\n", file);
}
