/* The page from top to bottom: verdict, figures, tables, and how it was made. */
#include "tune/page.h"

#include "base/atomic_file.h"
#include "base/clock.h"
#include "report/html.h"
#include "tune/arms.h"
#include "tune/draw.h"
#include "tune/figures.h"

#include <string.h>

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- check texts ---- */

static const char *domain_name(const tune_result *r, size_t domain) {
    return r->check.domains[domain].name;
}

static void write_arms(FILE *file, const tune_result *r) {
    fputs("<section id=\"arms\">\n<h2>Perplexity on the check texts</h2>\n<p>Changes are paired "
          "over sequences, with 95 % intervals; green where perplexity is certainly lower, red "
          "where it is higher. Small numbers are repetitions: seeds, or permutations.</p>\n",
          file);
    if (r->check.count > 1) {
        fputs("<h3>All check texts</h3>\n", file);
        tune_page_arms(file, r, SIZE_MAX);
    }
    for (size_t i = 0; i < r->check.count; i++) {
        fputs("<h3>", file);
        html_text(file, domain_name(r, i));
        fprintf(file, ": %zu sequences of %zu tokens</h3>\n", r->check_counts[i], r->context);
        tune_page_arms(file, r, i);
    }
}

/* What the arms are, for those that are there. */
static void explain_arms(FILE *file, const tune_result *r) {
    static const struct {
        const char *name, *text;
    } arms[] = {
        {"softmax", "the model as it is, with the scaling of positions that was asked for: β = 1"},
        {"one number", "one pair of numbers a and h for all heads, learned"},
        {"per layer", "numbers for each layer, learned"},
        {"per head", "numbers for each head, learned"},
        {"chosen", "what the validation texts chose"},
        {"permuted", "the same numbers, dealt to other heads at random: a control for whether it "
                     "matters which head has which"},
        {"one number at equal cost", "one temperature that costs as much perplexity as the chosen "
                                     "setting on the validation texts"},
        {"YaRN's rule", "the temperature that YaRN prescribes for this factor, in all heads"},
        {"without YaRN's rule", "positions by YaRN, without the temperature it prescribes"},
        {"as trained", "positions that are not scaled"},
        {"window", "positions that are not scaled; every token attends to the last ones only, as "
                   "many as the trained context has"},
        {"window and first tokens", "the same window, with the first four tokens always in it"},
    };
    const char *names[TUNE_ARMS_MAX];
    size_t count = tune_arms(r, names);
    fputs("<details><summary>What the arms are</summary>\n<dl>\n", file);
    for (size_t i = 0; i < sizeof arms / sizeof *arms; i++)
        if (tune_find(r, arms[i].name))
            html_fact(file, arms[i].name, arms[i].text);
    for (size_t i = 0; i < count; i++)
        if (strchr(names[i], ':')) {
            fputs("<dt>", file);
            html_text(file, names[i]);
            fputs("</dt><dd>positions scaled in this way instead, β = 1</dd>\n", file);
        }
    fputs("</dl>\n</details>\n</section>\n", file);
}

static void write_positions(FILE *file, const tune_result *r) {
    bool has_several = r->check.count > 1;
    fprintf(file,
            "<section id=\"position\">\n<h2>Perplexity by position</h2>\n<p>Means over %d equal "
            "parts of the sequences%s.</p>\n",
            TUNE_BINS, has_several ? ", over all check texts" : "");
    tune_figure_position(file, r, has_several ? SIZE_MAX : 0);
    fputs("<p>The same as changes against softmax, for the arms with the same positions; curves "
          "that leave the frame have an arrow.</p>\n",
          file);
    tune_figure_position_change(file, r, has_several ? SIZE_MAX : 0);
    for (size_t i = 0; has_several && i < r->check.count; i++) {
        fputs("<details><summary>", file);
        html_text(file, domain_name(r, i));
        fputs("</summary>\n", file);
        tune_figure_position(file, r, i);
        tune_figure_position_change(file, r, i);
        fputs("</details>\n", file);
    }
    fputs("</section>\n", file);
}

/* ---- temperatures ---- */

/* The best that was learned in the way that was asked for; NULL if nothing was. */
static const tune_candidate *best_candidate(const tune_page *p) {
    const tune_result *r = p->result;
    const tune_candidate *best = NULL;
    for (size_t i = 0; i < r->candidate_count; i++) {
        const tune_candidate *c = &r->candidates[i];
        if (c->by == p->request->by && (!best || c->gain.mean < best->gain.mean))
            best = c;
    }
    return best;
}

static void write_map(FILE *file, const tune_page *p) {
    const tune_result *r = p->result;
    const tune_candidate *best = best_candidate(p);
    if (!r->is_confirmed && !best)
        return;
    fputs("<section id=\"map\">\n<h2>β by layer and head</h2>\n<p>", file);
    if (r->is_confirmed)
        fprintf(file, "The chosen setting: numbers by %s, seed %zu, step %zu.",
                tune_by_names[r->by], r->seed, r->step);
    else
        fprintf(file,
                "The best candidate by %s, seed %zu, step %zu, which is <b>not</b> used: what was "
                "found is β = 1.",
                tune_by_names[best->by], best->seed, best->step);
    fputs(" β = exp(a + h max(0, ln(n / n<sub>0</sub>))) over n keys. A row is a "
          "layer, a column a head.</p>\n",
          file);
    tune_figure_map(file, r, r->is_confirmed ? &r->setting : &best->setting);
    fputs("</section>\n", file);
}

/* ---- the task, and candidates ---- */

static void write_task(FILE *file, const tune_page *p) {
    const tune_result *r = p->result;
    const char *left_out[TUNE_ARMS_MAX];
    if (!p->request->task || r->task_count == 0)
        return;
    fputs("<section id=\"task\">\n<h2>Task ", file);
    html_text(file, p->request->task);
    fprintf(file,
            ": gain against price</h2>\n<p>%zu examples. Bars, and changes in the table, are "
            "paired 95 %% intervals of the differences from softmax. Up and to the left is "
            "better.</p>\n",
            r->task_count);
    size_t count = tune_figure_frontier(file, r, left_out);
    if (count > 0)
        fputs("<p class=\"note\">Too far to the right or left to be drawn: ", file);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", file);
        html_text(file, left_out[i]);
        fputs(" (", file);
        tune_page_change(file, tune_total_change(r, left_out[i], TUNE_ALL), true);
        fputs(")", file);
    }
    fputs(count > 0 ? ".</p>\n" : "", file);
    tune_page_task(file, r);
    fputs("</section>\n", file);
}

static void write_candidates(FILE *file, const tune_page *p) {
    if (p->result->candidate_count == 0)
        return;
    fprintf(file,
            "<section id=\"candidates\">\n<h2>Candidates on the validation texts</h2>\n<p>The "
            "numbers at several steps of training, for every seed. Chosen is the lowest of those "
            "left of the limit (%g %%) whose interval is below 0. Rings are half or a quarter of "
            "what was learned.</p>\n",
            100 * p->request->limit);
    tune_figure_candidates(file, p->request, p->result);
    fputs("<details><summary>All candidates</summary>\n", file);
    tune_page_candidates(file, p);
    fputs("</details>\n</section>\n", file);
}

/* ---- how it was made ---- */

static void write_texts(FILE *file, const char *title, const tune_texts *texts,
                        const size_t *sequences) {
    for (size_t d = 0; d < texts->count; d++) {
        const tune_domain *domain = &texts->domains[d];
        fprintf(file, "<h3>%s: ", title);
        html_text(file, domain->name);
        if (sequences)
            fprintf(file, ", %zu sequences", sequences[d]);
        fputs("</h3>\n<dl>\n", file);
        for (size_t i = 0; i < domain->file_count; i++) {
            fputs("<dt>", file);
            html_text(file, base_name(domain->files[i].path));
            fprintf(file, "</dt><dd>%zu tokens, sha256 <code>%s</code></dd>\n",
                    domain->files[i].tokens, domain->files[i].hash);
        }
        fputs("</dl>\n", file);
    }
}

static void write_options(FILE *file, const tune_page *p) {
    const tune_request *q = p->request;
    char text[256];
    html_fact(file, "model", q->model);
    fprintf(file, "<dt>model's sha256</dt><dd><code>%s</code></dd>\n", p->result->hash);
    snprintf(text, sizeof text, "%zu layers of %zu heads, trained on %.0f tokens",
             p->result->layers, p->result->heads, p->result->n0);
    html_fact(file, "shape", text);
    html_fact(file, "scaling of positions", q->rope ? q->rope : "none");
    html_fact(file, "task", q->task ? q->task : "none");
    snprintf(text, sizeof text, "by %s; %zu seeds from %llu, %zu steps of %zu sequences, rate %g",
             tune_by_names[q->by], q->seeds, (unsigned long long)q->seed, q->steps, q->batch,
             q->rate);
    html_fact(file, "training", text);
    snprintf(text, sizeof text, "%zu tokens; %zu sequences of %zu to learn from",
             p->result->context, p->result->calibration_count, p->result->learn_context);
    html_fact(file, "sequences", text);
    snprintf(text, sizeof text, "%g %% in any domain", 100 * q->limit);
    html_fact(file, "limit", text);
}

/* An argument as a shell reads it. */
static void write_argument(FILE *file, const char *text) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=%+,@";
    if (*text && text[strspn(text, plain)] == '\0') {
        fputs(text, file);
        return;
    }
    fputc('\'', file);
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", file);
        else
            html_text(file, (char[]){*text, '\0'});
    }
    fputc('\'', file);
}

static void write_run(FILE *file, const tune_page *p) {
    char time[LAB_TIME_SIZE];
    fputs("<section id=\"run\">\n<h2>How it was made</h2>\n<details><summary>Command, options, "
          "texts and machine</summary>\n<pre>whet",
          file);
    for (size_t i = 0; i < p->argument_count; i++) {
        fputc(' ', file);
        write_argument(file, p->arguments[i]);
    }
    fputs("</pre>\n<dl>\n", file);
    write_options(file, p);
    html_machine(file);
    html_fact(file, "run time", lab_duration(p->seconds, time));
    html_fact(file, "written", lab_time_of_day(time));
    fputs("</dl>\n", file);
    write_texts(file, "Learned on", &p->result->text, NULL);
    write_texts(file, "Chosen on", &p->result->validate, p->result->validation_counts);
    write_texts(file, "Checked on", &p->result->check, p->result->check_counts);
    fputs("</details>\n</section>\n", file);
}

static void write_page(FILE *file, const void *context) {
    const tune_page *p = context;
    char title[256];
    snprintf(title, sizeof title, "whet tune: %s", base_name(p->request->model));
    html_page_begin(file, title, draw_css);
    fputs("<h1>", file);
    html_text(file, title);
    fputs("</h1>\n", file);
    tune_page_verdict(file, p);
    write_arms(file, p->result);
    explain_arms(file, p->result);
    write_positions(file, p->result);
    write_map(file, p);
    write_task(file, p);
    write_candidates(file, p);
    write_run(file, p);
    html_page_end(file);
}

bool tune_page_write(const char *path, const tune_page *page, lab_error *error) {
    return replace_file(path, write_page, page) || lab_fail_file(error, "write", path);
}
